"""Strangers at the rendezvous, while a job is created: it forms all the same, and they are told nothing."""

import subprocess
import sys
import time

import lab
import net_testing
from net_testing import NET_RANK

RIGHT = "bits|"

# usage: HOW HOST PORT; each goes on until it is ended.
STRANGER = """import os, random, socket, sys, time
how, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
stream = random.Random(1)
held = []
met = False
def connect():
    while True:
        try:
            return socket.create_connection((host, port), 5)
        except OSError:
            time.sleep(0.01)
while True:
    peer = connect()
    if not met:
        met = True
        print("connected", flush=True)
    try:
        if how == "scans":
            peer.close()
        elif how == "garbage":
            peer.sendall(stream.randbytes(stream.choice((1, 48, 200, 1000, 100000))))
            peer.settimeout(0.5)
            while peer.recv(4096):
                pass
        elif how == "half open":
            held = [*held[-200:], peer]
        elif how == "hello":
            peer.sendall(b"kolo\\1".ljust(64, b"\\0"))
            held = [*held[-200:], peer]
        elif how == "dribble":
            while True:
                peer.sendall(stream.randbytes(1))
                time.sleep(0.1)
        elif how == "echo":
            peer.settimeout(2)
            while data := peer.recv(4096):
                peer.sendall(data)
        elif how == "old version":
            peer.settimeout(0.5)
            handshake = bytearray(peer.recv(4096) or bytes(64))
            handshake[4:12] = bytes(8)
            peer.sendall(handshake * 4)
            while peer.recv(4096):
                pass
    except OSError:
        pass
    time.sleep(0.005)"""
WAYS = ("scans", "garbage", "half open", "hello", "dribble", "echo", "old version")


class Strangers(net_testing.NetTest):
    """Nodes 0 and 1 are the job's; node 2 is not."""

    nodes = 3
    local = [2, 2]

    def delayed(self, **variables):
        """A job whose second node comes once it may."""
        self.go = self.lab.folder / "go"
        self.go.unlink(missing_ok=True)
        command = [NET_RANK, "bits", net_testing.seed, 20]
        launcher = ["sh", "-c", f'[ "$(hostname)" = node0 ] || until [ -e {self.go} ]; do sleep 0.01; done; exec "$@"',
                    "sh"]
        return self.job(self.local, command, launcher=launcher, **variables)

    def assert_forms(self, job, has_come):
        """Once the strangers have come, the second node does."""
        self.assertTrue(lab.until(has_come))
        time.sleep(0.3)
        begin = time.monotonic()
        self.go.touch()
        lines = self.results(job, 30).splitlines()
        self.assertEqual(4, len([line for line in lines if line.startswith(RIGHT)]), lines)
        self.assertLess(time.monotonic() - begin, 7, "longer than who is slow may hold a listener up")

    def test_ways(self):
        for way in WAYS:
            with self.subTest(way):
                job = self.delayed()
                stranger = self.lab.nodes[2].start([sys.executable, "-c", STRANGER, way, self.lab.nodes[0].address,
                                                    net_testing.PORT])
                self.assert_forms(job, lambda stranger=stranger: stranger.texts()[0])
                self.assertTrue(stranger.is_running(), stranger.texts()[1])
                stranger.kill()
                self.assert_nothing_left()

    def test_all_at_once(self):
        job = self.delayed()
        strangers = [self.lab.nodes[2].start([sys.executable, "-c", STRANGER, way, self.lab.nodes[0].address,
                                              net_testing.PORT]) for way in WAYS]
        self.assert_forms(job, lambda: all(stranger.texts()[0] for stranger in strangers))
        self.lab.nodes[2].kill()
        self.assert_nothing_left()

    def connect(self, secret):
        """A job of the same shape at the same rendezvous, of which only node 1's part is started, on node 2."""
        command = [net_testing.KOLORUN, "--nnodes", "2", "--node-rank", "1", "--rendezvous",
                   f"{self.lab.nodes[0].address}:{net_testing.PORT}", "-n", "2,2", "--on-failure", "continue", "--",
                   NET_RANK, "bits", str(net_testing.seed), "20"]
        return self.lab.nodes[2].start(command, net_testing.environment(
            KOLO_SECRET=secret, KOLO_CREATE_TIMEOUT_MS="20000"))

    def test_wrong_secret(self):
        job = self.delayed(KOLO_LOG="warn")
        stranger = self.connect("not what the others know")
        self.assert_forms(job, lambda: "secret" in job.running[0].texts()[1])
        done = stranger.wait(40)
        self.assertNotEqual(0, done.code)
        self.assertNotIn(RIGHT, done.out)
        said = "".join(running.texts()[1] for running in job.running)
        self.assertRegex(said, "secret")
        for secret in (net_testing.SECRET, "not what the others know"):
            self.assertNotIn(secret, said + done.err + done.out)
        self.assert_nothing_left()

    def test_no_secret(self):
        job = self.job(self.local, [NET_RANK, "bits", 1, 1], KOLO_SECRET="")
        for done in job.wait(30):
            self.assertNotEqual(0, done.code)
            self.assertRegex(done.out + done.err, "KOLO_SECRET_FILE")
        self.assert_nothing_left()

    def test_nobody_comes(self):
        """Creation ends at its deadline, with the ranks that never came."""
        command = [NET_RANK, "bits", 1, 1]
        job = self.job(self.local, command, launcher=["sh", "-c", '[ "$(hostname)" = node1 ] || exec "$@"', "sh"],
                       KOLO_CREATE_TIMEOUT_MS="1500")
        begin = time.monotonic()
        first = job.wait(30)[0]
        self.assertLess(time.monotonic() - begin, 1.5 + 10)
        self.assertRegex(first.out, r"uncreated\|0\|timeout\|.*2.*3")
        self.assert_nothing_left()

    def test_only_at_its_address(self):
        """Listeners are open at the addresses of the job's network, and at no other."""
        job = self.job(self.local, [NET_RANK, "loop", 8])
        self.assertTrue(lab.until(lambda: len(job.lines("looping")) == 4, 20))
        for node in self.lab.nodes[:2]:
            listed = subprocess.run(node.enter() + ["ss", "-tlnH"], capture_output=True, text=True, check=True).stdout
            places = [line.split()[3].rpartition(":")[0] for line in listed.splitlines()]
            self.assertEqual([node.address], places)  # the listener that its leader keeps
        for node in self.lab.nodes[:2]:
            node.kill()
        late = self.job(self.local, [NET_RANK, "bits", 1, 1], KOLO_CREATE_TIMEOUT_MS="30000",
                        launcher=["sh", "-c", '[ "$(hostname)" = node1 ] || exec "$@"', "sh"])
        seen = set()

        def listens():
            listed = subprocess.run(self.lab.nodes[0].enter() + ["ss", "-tlnH"], capture_output=True, text=True,
                                    check=True).stdout
            seen.update(line.split()[3] for line in listed.splitlines())
            return seen
        self.assertTrue(lab.until(listens, 20), late.running[0].texts())
        self.assertEqual({f"{self.lab.nodes[0].address}:{net_testing.PORT}"}, seen)
        self.lab.nodes[0].kill()


if __name__ == "__main__":
    net_testing.main()
