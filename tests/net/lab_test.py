"""The lab itself: its nodes are machines of their own, its cables have a rate, count bytes and can be cut, and nothing
is left of it."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import lab
import net_testing

RATE_MBIT = 200
SENT_BYTES = 8 << 20
SERVER = """import socket, sys, time
listener = socket.create_server((sys.argv[1], 5000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
peer, _ = listener.accept()
got, begin = 0, time.monotonic()
while data := peer.recv(1 << 20):
    got += len(data)
print(got, time.monotonic() - begin)"""
CLIENT = """import socket, sys
peer = socket.create_connection((sys.argv[1], 5000), 3)
peer.sendall(bytes(int(sys.argv[2])))"""
HELD = """import sys, time
sys.path.insert(0, sys.argv[1])
import lab
with lab.Lab(2, own_pids=True) as machines:
    machines.nodes[0].start(["sleep", "3600"])
    lab.until(machines.nodes[0].pids)
    print(*(node.holder.pid for node in machines.nodes), *machines.nodes[0].pids(), machines.folder, flush=True)
    time.sleep(3600)"""


def python(code, *arguments):
    return [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]


class Nodes(net_testing.NetTest):
    nodes = 3
    rate_mbit = RATE_MBIT

    def transfer(self, address, nbytes, client=1):
        """Sends to node 0: how many bytes came, and in how many seconds."""
        server = self.lab.nodes[0].start(python(SERVER, address))
        self.assertTrue(lab.until(lambda: server.texts()[0]), server.texts())
        deadline = time.monotonic() + lab.PATIENCE_S
        while time.monotonic() < deadline:  # a cable that has just been plugged in leads nowhere for a moment
            sent = self.lab.nodes[client].run(python(CLIENT, address, nbytes))
            if not re.search("No route|timed out", sent.err):
                break
        self.assertEqual(0, sent.code, sent.err)
        done = server.wait()
        self.assertEqual(0, done.code, done.err)
        _, got, seconds = done.out.split()
        return int(got), float(seconds)

    def test_rate_and_bytes(self):
        for _ in range(5):  # one that is slow is the machine's, which others keep busy
            before = self.lab.traffic()
            got, seconds = self.transfer(self.lab.nodes[0].address, SENT_BYTES)
            after = self.lab.traffic()
            self.assertEqual(SENT_BYTES, got)
            mbit = got * 8e-6 / seconds
            self.assertLess(mbit, RATE_MBIT)
            if mbit > RATE_MBIT / 2:
                break
        self.assertGreater(mbit, RATE_MBIT / 2)
        for counted in (after[1].sent - before[1].sent, after[0].received - before[0].received):
            self.assertLess(abs(counted - SENT_BYTES), SENT_BYTES * 0.06)
        self.assertLess(after[2].received - before[2].received, SENT_BYTES * 0.01)

    def test_ipv6_and_names(self):
        if not self.lab.has_ipv6:
            self.skipTest("no IPv6")
        self.assertEqual(1000, self.transfer(self.lab.nodes[0].address6, 1000)[0])
        names = self.lab.nodes[2].run(["getent", "ahostsv4", "node1"])
        self.assertEqual(self.lab.nodes[1].address, names.out.split()[0])

    def test_machines_of_their_own(self):
        devices = {os.stat(f"/proc/{node.holder.pid}/root/dev/shm").st_dev for node in self.lab.nodes}
        self.assertEqual(len(self.lab.nodes), len(devices - {os.stat("/dev/shm").st_dev}))
        first, second = self.lab.nodes[:2]
        self.assertEqual("node1\n", second.run(["hostname"]).out)
        self.assertEqual(0, first.run(["touch", "/dev/shm/mine", self.lab.folder / "ours"]).code)
        self.assertEqual((["mine"], []), (first.shm_names(), second.shm_names()))
        self.assertTrue((self.lab.folder / "ours").exists())
        self.assertEqual(0, second.run(["rm", self.lab.folder / "ours"]).code)
        first.run(["rm", "/dev/shm/mine"])

    def test_output_status_and_timeout(self):
        done = self.lab.nodes[0].run(["sh", "-c", "echo out; echo err >&2; exit 7"])
        self.assertEqual((7, "out\n", "err\n"), tuple(done))
        self.assertIsNone(self.lab.nodes[0].run(["sleep", "100"], timeout_s=0.2).code)
        self.assert_nothing_left()

    def test_kill(self):
        sleeper = self.lab.nodes[1].start(["sh", "-c", "sleep 100 & sleep 100"])
        self.assertTrue(lab.until(lambda: len(self.lab.nodes[1].pids()) >= 3))
        self.lab.nodes[1].kill()
        self.assertEqual(-signal.SIGKILL, sleeper.wait().code)
        self.assertEqual("1000", f"{self.transfer(self.lab.nodes[0].address, 1000)[0]}")

    def test_cable(self):
        node = self.lab.nodes[1]
        node.plug(False)
        try:
            lost = node.run(python(CLIENT, self.lab.nodes[0].address, 1))
            self.assertRegex(lost.err, "timed out|No route")
        finally:
            node.plug(True)
        self.assertEqual(1000, self.transfer(self.lab.nodes[0].address, 1000)[0])


class Ending(unittest.TestCase):
    def test_killed(self):
        """Nothing is left of a lab whose program was killed; the next lab removes its folder."""
        command = [sys.executable, "-B", "-c", HELD, str(pathlib.Path(lab.__file__).parent)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            words = program.stdout.readline().split()
            program.kill()
            if not words:
                self.skipTest(program.stderr.read().strip().splitlines()[-1])
        *pids, folder = words
        self.assertGreater(len(pids), 2)
        self.assertTrue(lab.until(lambda: not any(lab.is_running(int(pid)) for pid in pids)), pids)
        with lab.Lab(1):
            self.assertFalse(pathlib.Path(folder).exists())

    def test_exception(self):
        machines = lab.Lab(2)
        try:
            with machines:
                holders = [node.holder.pid for node in machines.nodes]
                folder = machines.folder
                sleeper = machines.nodes[0].start(["sleep", "100"])
                raise KeyError("as a test may")
        except lab.Missing as error:
            self.skipTest(str(error))
        except KeyError:
            pass
        self.assertFalse(folder.exists())
        self.assertTrue(lab.until(lambda: not any(lab.is_running(pid) for pid in [*holders, sleeper.process.pid])))


if __name__ == "__main__":
    net_testing.main()
