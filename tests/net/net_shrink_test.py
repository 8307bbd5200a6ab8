"""Ranks on several nodes that go on without those they have lost: the larger part does, the other one learns that it cannot,
also where both are whole and only the cable between them is cut."""

import os
import signal
import subprocess
import sys
import time

import lab
import net_testing
from net_testing import NET_RANK, Late, until_in_time

SILENCE_S, TIMEOUT_S, GRACE_S = 2, 3, 3
SETTINGS = {"KOLO_NET_SILENCE_MS": str(SILENCE_S * 1000), "KOLO_TIMEOUT_MS": str(TIMEOUT_S * 1000)}

# usage: PLACE ...; holds more connections to each than the kernel lets wait. Every second one says hello.
STRANGER = """import resource, signal, socket, sys
COUNT = 5000
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
held = []
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    for number in range(COUNT):
        peer = socket.socket()
        held.append(peer)
        peer.settimeout(0.5)
        try:
            peer.connect((host, int(port)))
            if number % 2:
                peer.sendall(b"kolo\\1".ljust(64, b"\\0"))
        except TimeoutError:
            break
print("connected", flush=True)
signal.pause()"""


class Shrinking(net_testing.NetTest):
    """Looping jobs, to which something happens."""

    nodes = 4

    def begin(self, local):
        self.addCleanup(self.end_all)
        self.place(local)
        job = self.job(local, [NET_RANK, "shrink", 20000], **SETTINGS)
        self.assertTrue(lab.until(lambda: len(job.lines("looping")) == len(self.node_of), 20),
                        [running.texts() for running in job.running])
        return job

    def assert_ends(self, job, going_on, limit_s, failing=()):
        """Those ranks go on together, in their old order, and those fail; all within limit_s."""
        begin = time.monotonic()

        def ended():
            shrunk = {line.split("|")[1] for line in job.lines("shrunk") if int(line.split("|")[3]) == len(going_on)}
            return shrunk | {line.split("|")[1] for line in job.lines("unshrunk")} >= {*map(str, going_on),
                                                                                      *map(str, failing)}
        lab.until(ended, limit_s + GRACE_S)
        print(f"  {self.id().rpartition('.')[2]}: {time.monotonic() - begin:.3f} s", flush=True)
        said = [running.texts() for running in job.running]
        failed = sorted(int(line.split("|")[1]) for line in job.lines("unshrunk"))
        self.assertEqual(list(failing), failed, said)
        for line in job.lines("unshrunk"):
            self.assertRegex(line, "may be going on|went on without|see that rank's message")
        last = {}
        for line in job.lines("shrunk"):
            _, rank, new_rank, size, _ = line.split("|")
            last[int(rank)] = (int(new_rank), int(size))
        self.assertEqual({rank: (place, len(going_on)) for place, rank in enumerate(going_on)}, last, said)
        looping = len(self.node_of) + len(going_on)
        self.assertTrue(lab.until(lambda: len(job.lines("looping")) >= looping, 5), said)
        self.assertEqual([], job.lines("wrong"))

    def test_cable_cut_of_one_node(self):
        """Two of three nodes go on, whichever is cut off."""
        for cut in net_testing.sample(range(3), 2):
            with self.subTest(cut):
                job = self.begin([2, 1, 2])
                self.lab.nodes[cut].plug(False)
                rest = self.on_nodes(*({0, 1, 2} - {cut}))
                self.assert_ends(job, rest, 2 * SILENCE_S + TIMEOUT_S, self.on_nodes(cut))
                self.end_all()

    def test_cable_cut_between_two(self):
        """Of equal halves only that with the lowest rank goes on."""
        job = self.begin([2, 2])
        self.lab.nodes[1].plug(False)
        self.assert_ends(job, [0, 1], 2 * SILENCE_S + TIMEOUT_S, [2, 3])

    def test_firewall(self):
        """However two halves are cut, and for how long: of both together at most one goes on, the larger one."""
        cuts = [("reject with tcp reset", True, 0.3), ("reject", True, None), ("drop", True, None),
                ("reject with tcp reset", False, 0.3), ("reject", False, None)]
        for local, near in (([1, 1, 1, 1], {0, 1}), ([1, 1, 1], {0}), ([1, 1], {0})):
            for how, both, for_s in net_testing.sample(cuts, 2):
                with self.subTest(local=local, how=how, both=both):
                    job = self.begin(local)
                    far = set(range(len(local))) - near
                    going_on = far if len(far) > len(near) else near
                    nodes = [self.lab.nodes[i] for i in near], [self.lab.nodes[i] for i in far]
                    for mine, others in nodes, nodes[::-1]:
                        for node in mine:
                            node.block(others, how, both)
                    if for_s:
                        time.sleep(for_s)
                        for node in sum(nodes, []):
                            node.block([], None)
                    failing = self.on_nodes(*(near | far) - going_on)
                    self.assert_ends(job, self.on_nodes(*going_on), 4 * TIMEOUT_S, failing)
                    for node in sum(nodes, []):
                        node.block([], None)
                    self.end_all()

    def test_node_killed(self):
        for victim in net_testing.sample(range(3), 1):
            job = self.begin([2, 1, 2])
            self.lab.nodes[victim].kill()
            self.assert_ends(job, self.on_nodes(*({0, 1, 2} - {victim})), TIMEOUT_S)

    def check_strangers(self):
        job = self.begin([2, 1, 1])
        places = [subprocess.run(node.enter() + ["ss", "-tlnH"], capture_output=True, text=True, check=True).stdout.split()[3]
                  for node in self.lab.nodes[:3]]
        stranger = self.lab.nodes[3].start([sys.executable, "-c", STRANGER, *places])
        self.assertTrue(lab.until(lambda: stranger.texts()[0] or not stranger.is_running()))
        self.assertTrue(stranger.is_running(), stranger.texts()[1])
        self.lab.nodes[2].kill()
        begin = time.monotonic()
        self.assert_ends(job, self.on_nodes(0, 1), TIMEOUT_S)
        took_s = time.monotonic() - begin
        if took_s >= SILENCE_S / 2:
            raise Late(f"{took_s:.3f} s: as if somebody had to fall silent")

    def test_strangers(self):
        """Their connections fill no queue of the leaders' listeners, in which those of the other nodes would wait."""
        until_in_time(self.check_strangers, self.end_all)

    def test_node_stopped(self):
        """The others go on, also without the one that would gather them. A node that wakes up too late finds that."""
        for stopped in net_testing.sample(range(2), 1):
            with self.subTest(stopped):
                job = self.begin([1, 1, 1])
                pids = self.lab.nodes[stopped].pids()
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                rest = self.on_nodes(*({0, 1, 2} - {stopped}))
                self.assert_ends(job, rest, 2 * SILENCE_S + 1)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
                self.assert_ends(job, rest, 3 * TIMEOUT_S + 1, [stopped])
                for line in job.lines(f"failed|{stopped}|"):  # the others live
                    self.assertRegex(line, f"given up rank {stopped}|KOLO_NET_SILENCE_MS")
                self.end_all()


if __name__ == "__main__":
    net_testing.main()
