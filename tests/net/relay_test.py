"""The relay does at each byte what it is told, and passes on all else as it is."""

import socket
import subprocess
import sys
import unittest

import lab
import net_testing

# Echoes what comes until its end; "lost" where the connection was reset.
SERVER = """import socket, sys
listener = socket.create_server((sys.argv[1], 6000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
peer, _ = listener.accept()
got = 0
try:
    while data := peer.recv(1 << 16):
        got += len(data)
        peer.sendall(data)
    print(got, "end")
except OSError as error:
    print(got, type(error).__name__)"""

# Sends bytes whose place shows in them, reads them back, and says how many came and how it ended.
CLIENT = """import socket, sys, threading, time
count = int(sys.argv[2])
data = b"".join(i.to_bytes(4, "little") for i in range(count // 4))
begin = time.monotonic()
peer = socket.create_connection((sys.argv[1], 6000), 3)
def send():
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
    except OSError:
        pass
threading.Thread(target=send, daemon=True).start()
got, how = b"", "end"
try:
    while more := peer.recv(1 << 16):
        got += more
except OSError as error:
    how = type(error).__name__
print(len(got), how, got == data[:len(got)], time.monotonic() - begin)"""

COUNT = 1 << 20


class Relays(net_testing.NetTest):
    def through(self, *rules, address=None, count=COUNT):
        """(bytes that came back, how that ended, seconds), (bytes at the server, how), and the relay's lines."""
        relay = net_testing.RelayRunning(self.lab.nodes[1], *rules)
        self.addCleanup(relay.close)
        address = address or self.lab.nodes[0].address
        server = self.lab.nodes[0].start([sys.executable, "-c", SERVER, address])
        self.assertTrue(lab.until(lambda: server.texts()[0]), server.texts())
        client = self.lab.nodes[1].run([sys.executable, "-c", CLIENT, address, count])
        self.assertEqual((0, ""), (client.code, client.err))
        got, how, same, seconds = client.out.split()
        self.assertEqual("True", same)
        lab.until(lambda: len(server.texts()[0].split()) == 3, 1 if "stall" in "".join(rules) else lab.PATIENCE_S)
        _, *at_server = server.texts()[0].split()
        lines = relay.lines()
        relay.close()
        server.kill()
        return (int(got), how, float(seconds)), at_server, lines

    def test_passes_on(self):
        back, server, lines = self.through()
        self.assertEqual(((COUNT, "end"), [str(COUNT), "end"]), (back[:2], server))
        self.assertEqual(["ready", f"0 {self.lab.nodes[0].address}:6000"], lines)

    def test_ipv6(self):
        if not self.lab.has_ipv6:
            self.skipTest("no IPv6")
        back, _, lines = self.through(address=self.lab.nodes[0].address6)
        self.assertEqual((COUNT, "end"), back[:2])
        self.assertEqual(f"0 {self.lab.nodes[0].address6}:6000", lines[1])

    def test_reset(self):
        back, server, lines = self.through("0 out 70001 reset")
        self.assertLessEqual(back[0], 70001)
        self.assertEqual("ConnectionResetError", back[1])
        self.assertLessEqual(int(server[0]), 70001)
        self.assertEqual("ConnectionResetError", server[1])
        self.assertEqual("0 out 70001 reset", lines[-1])

    def test_half(self):
        back, server, _ = self.through("0 out 70001 half")
        self.assertEqual(((70001, "end"), ["70001", "end"]), (back[:2], server))

    def test_close(self):
        back, _, lines = self.through("0 back 0 close")
        self.assertEqual((0, "0 back 0 close"), (back[0], lines[-1]))

    def test_stall(self):
        back, _, _ = self.through("* back 12345 stall")
        self.assertEqual((12345, "TimeoutError"), back[:2])

    def test_delay_and_dribble(self):
        back, _, _ = self.through("0 out 0 delay 300", count=4000)
        self.assertEqual((4000, "end"), back[:2])
        self.assertGreater(back[2], 0.3)
        back, _, _ = self.through("0 out 1000 dribble 1 2", "0 out 1100 full", count=4000)
        self.assertEqual((4000, "end"), back[:2])
        self.assertGreater(back[2], 0.2)

    def test_other_connections(self):
        back, server, _ = self.through("1 out 0 reset")
        self.assertEqual(((COUNT, "end"), [str(COUNT), "end"]), (back[:2], server))


class Commands(unittest.TestCase):
    def test_while_it_runs(self):
        """Rules that come on standard input, for a connection that is there and one that is not."""
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = free.getsockname()[1]
        command = [sys.executable, "-B", net_testing.RELAY, "--to", f"127.0.0.1:{port}", str(own)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
            self.assertEqual("ready\n", relay.stdout.readline())
            near = socket.create_connection(("127.0.0.1", own))
            far, _ = listener.accept()
            near.sendall(b"before")
            self.assertEqual(b"before", far.recv(100))
            relay.stdin.write("0 out now stall\n1 out 3 half\n")
            relay.stdin.flush()
            self.assertEqual(f"0 127.0.0.1:{port}\n", relay.stdout.readline())
            self.assertEqual("0 out 6 stall\n", relay.stdout.readline())
            near.sendall(b"after")
            far.settimeout(0.2)
            self.assertRaises(TimeoutError, far.recv, 100)
            second = socket.create_connection(("127.0.0.1", own))
            far_second, _ = listener.accept()
            second.sendall(b"abcdef")
            self.assertEqual(b"abc", far_second.recv(100))
            self.assertEqual(b"", far_second.recv(100))
            relay.stdin.close()
            self.assertEqual(0, relay.wait(10))
        for end in (near, far, second, far_second, listener):
            end.close()

    def test_mistakes(self):
        for rule in ("0 out 5", "0 up 5 reset", "x out 5 reset", "0 out 5 delay", "0 out 5 explode"):
            done = subprocess.run([sys.executable, "-B", net_testing.RELAY, "--rule", rule], capture_output=True,
                                  text=True, timeout=200, check=False)
            self.assertEqual(2, done.returncode, rule)
            self.assertRegex(done.stderr, "rule")


if __name__ == "__main__":
    net_testing.main()
