"""Ranks that die, nodes that die, hang or are cut off, connections that are closed, reset, halved or stall: every rank
on every node ends with the right error, naming whom it should, in time, and nothing is left.

What is closed is found within CLOSED_S; what is silent within the silence limit, here SILENCE_S; a rank that does not
come, at the deadline of its call, here TIMEOUT_S. GRACE_S is for a machine that is busy with other things."""

import collections
import itertools
import os
import random
import signal
import time

import lab
import net_testing
from net_testing import NET_RANK, Late, until_in_time

CLOSED_S, SILENCE_S, TIMEOUT_S, CREATE_S, GRACE_S = 1, 2, 4, 8, 1
SETTINGS = {"KOLO_NET_SILENCE_MS": str(SILENCE_S * 1000), "KOLO_TIMEOUT_MS": str(TIMEOUT_S * 1000),
            "KOLO_CREATE_TIMEOUT_MS": str(CREATE_S * 1000)}
SIZES = (8, 4096, 200000, 20000000)
TRANSPORTS = ("uring", "poll")
STREAMS = 2
THREADS = (1, 2)
GREETING_BYTES = {"out": 320, "back": 128}  # before what they cut a connection is given up, and made anew

Report = collections.namedtuple("Report", "what rank status culprit ns message")


def reports(job):
    lines = [line.split("|", 5) for line in job.texts().splitlines() if line.startswith(("failed|", "uncreated|"))]
    return [Report(what, int(rank), status, int(culprit), int(ns), message)
            for what, rank, status, culprit, ns, message in lines]


class Failures(net_testing.NetTest):
    """Looping jobs on three nodes, to which something happens."""

    nodes = 3
    local = [2, 1, 2]
    node_of = [0, 0, 1, 2, 2]

    def begin(self, nbytes, **variables):
        """A job that loops, and its ranks' pids."""
        self.addCleanup(self.assert_nothing_left)
        job = self.job(self.local, [NET_RANK, "loop", nbytes], **{**SETTINGS, **variables})
        self.assertTrue(lab.until(lambda: len(job.lines("looping")) == len(self.node_of), 20),
                        [running.texts() for running in job.running])
        time.sleep(random.Random(net_testing.seed).uniform(0, 0.1))
        return job, self.ranks()

    def ranks(self):
        """{rank: pid}, as the machine counts processes."""
        found = {}
        for node in self.lab.nodes:
            for pid in node.pids():
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = dict(each.split(b"=", 1) for each in file.read().split(b"\0") if b"=" in each)
                with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                    if file.read().strip() == "net_rank":
                        found[int(variables[b"KOLO_RANK"])] = pid
        self.assertEqual(list(range(len(self.node_of))), sorted(found))
        return found

    def assert_failed(self, job, pids, since_ns, survivors, limit_s, culprits, statuses):
        """Each survivor has returned an error of `statuses` by limit_s that names one of `culprits`, and ended."""
        in_time = lab.until(lambda: {report.rank for report in reports(job)} >= set(survivors), limit_s + GRACE_S + 20)
        found = {report.rank: report for report in reports(job)}
        self.assertTrue(in_time, f"no end of {set(survivors) - set(found)}: {[r.texts() for r in job.running]}")
        for rank in survivors:
            self.assertIn(found[rank].status, statuses, found[rank])
            self.assertIn(found[rank].culprit, culprits(rank), found[rank])
            self.assertRegex(found[rank].message, rf"rank {found[rank].culprit}\b|node")
        last_s = max(found[rank].ns - since_ns for rank in survivors) * 1e-9
        print(f"  {self.id().rpartition('.')[2]}: all returned after {last_s:.3f} s", flush=True)
        self.assertTrue(lab.until(lambda: not any(lab.is_running(pids[rank]) for rank in survivors), 20))
        if last_s >= limit_s + GRACE_S:
            raise Late(f"{last_s:.3f} s instead of {limit_s}: {found}")

    def each(self, kinds, count, check):
        """check(one of kinds, job, pids) for a sample of the cases."""
        cases = list(itertools.product(kinds, SIZES, TRANSPORTS, THREADS))
        for kind, nbytes, transport, threads in net_testing.sample(cases, count):
            variables = {"KOLO_NET": f"{transport},threads:{threads}"}
            with self.subTest(kind, nbytes=nbytes, transport=transport, threads=threads, seed=net_testing.seed):
                until_in_time(lambda case=(kind, nbytes, variables): check(case[0], *self.begin(case[1], **case[2])),
                              self.end)

    def end(self):
        for node in self.lab.nodes:
            node.kill()
        self.doCleanups()

    def on_nodes(self, *nodes):
        return [rank for rank, node in enumerate(self.node_of) if node in nodes]

    def others(self, ranks):
        return [rank for rank in range(len(self.node_of)) if rank not in ranks]

    def test_rank_killed(self):
        def check(victim, job, pids):
            since_ns = time.monotonic_ns()
            os.kill(pids[victim], signal.SIGKILL)
            self.assert_failed(job, pids, since_ns, self.others([victim]), CLOSED_S, lambda rank: {victim},
                               {"peer dead"})
        self.each(range(5), 4, check)

    def test_node_killed(self):
        def check(victim, job, pids):
            since_ns = time.monotonic_ns()
            self.lab.nodes[victim].kill()
            dead = self.on_nodes(victim)
            self.assert_failed(job, pids, since_ns, self.others(dead), CLOSED_S, lambda rank: dead, {"peer dead"})
        self.each(range(3), 3, check)

    def test_rank_stopped(self):
        """A leader that is stopped is silent; another rank is missed at the deadline of the call, and who finds that
        from afar can only name its node."""
        def check(victim, job, pids):
            since_ns = time.monotonic_ns()
            os.kill(pids[victim], signal.SIGSTOP)
            its_node = self.on_nodes(self.node_of[victim])
            self.assert_failed(job, pids, since_ns, self.others([victim]), TIMEOUT_S, lambda rank: its_node,
                               {"timeout", "peer dead"})
        self.each(range(5), 3, check)

    def test_node_stopped(self):
        def check(victim, job, pids):
            stopped = self.on_nodes(victim)
            since_ns = time.monotonic_ns()
            for rank in stopped:
                os.kill(pids[rank], signal.SIGSTOP)
            self.assert_failed(job, pids, since_ns, self.others(stopped), SILENCE_S, lambda rank: stopped,
                               {"timeout", "peer dead"})
            for rank in stopped:
                os.kill(pids[rank], signal.SIGCONT)
            self.assertTrue(lab.until(lambda: len(reports(job)) == len(self.node_of)), job.texts())
            for report in reports(job):
                self.assertRegex(report.message, rf"node {victim} .*KOLO_NET_SILENCE_MS")
        self.each(range(3), 2, check)

    def test_cable_cut(self):
        """Both sides find the silence, and each names the other one."""
        def check(victim, job, pids):
            cut = self.on_nodes(victim)
            rest = self.others(cut)
            since_ns = time.monotonic_ns()
            self.lab.nodes[victim].plug(False)
            try:
                self.assert_failed(job, pids, since_ns, range(5), SILENCE_S, lambda rank: rest if rank in cut else cut,
                                   {"timeout", "peer dead"})
            finally:
                self.lab.nodes[victim].plug(True)
        self.each(range(3), 3, check)

    def test_while_created(self):
        """Whom the others wait for in vain they name, at once where it was connected, or at the creation's deadline."""
        delays_s = [0.005 * step for step in range(60)]
        for how, victim, delay_s in net_testing.sample(itertools.product(("killed", "cut off"), range(3), delays_s), 4):
            with self.subTest(how, victim=victim, delay_s=delay_s, seed=net_testing.seed):
                self.addCleanup(self.assert_nothing_left)
                job = self.job(self.local, [NET_RANK, "loop", 4096], **{**SETTINGS, "KOLO_CREATE_TIMEOUT_MS": "3000"})
                self.assertTrue(lab.until(self.lab.nodes[victim].pids))
                time.sleep(delay_s)
                since_ns = time.monotonic_ns()
                if how == "killed":
                    self.lab.nodes[victim].kill()
                else:
                    self.lab.nodes[victim].plug(False)
                try:
                    survivors = set(self.others(self.on_nodes(victim)))
                    lab.until(lambda: {report.rank for report in reports(job)} >= survivors, CREATE_S + 20)
                    found = [report for report in reports(job) if report.rank in survivors]
                    self.assertEqual(survivors, {report.rank for report in found}, [r.texts() for r in job.running])
                    for report in found:
                        self.assertIn(report.status, {"timeout", "peer dead", "system call failed"}, report)
                        self.assertLess(report.ns - since_ns, (3 + SILENCE_S + 5 * GRACE_S) * 1e9, report)
                finally:
                    self.lab.nodes[victim].plug(True)
                    self.end()

    def test_cable_cut_for_a_moment(self):
        """What comes back in time is no failure."""
        silence_s = 3 * SILENCE_S  # for what waits longer and longer before it sends again
        job, _ = self.begin(200000, KOLO_NET_SILENCE_MS=str(silence_s * 1000), KOLO_TIMEOUT_MS="20000")
        self.lab.nodes[1].plug(False)
        time.sleep(0.5)
        self.lab.nodes[1].plug(True)
        time.sleep(silence_s * 1.2)
        self.assertEqual([], reports(job))
        for node in self.lab.nodes:
            node.kill()


class Linking(net_testing.NetTest):
    """Leaders whose listeners others cannot reach, for a while or for good."""

    nodes = 3
    CLOSED = f"tcp dport != {net_testing.PORT} tcp flags & (syn | ack) == syn"

    def begin(self, how=None, **variables):
        """A job; node 0's firewall does that with all connections but those to the rendezvous."""
        self.addCleanup(self.end_all)
        self.addCleanup(self.lab.nodes[0].block, [], None)
        if how:
            self.lab.nodes[0].block(self.lab.nodes[1:], f"{self.CLOSED} {how}", both=False)
        return self.job([1, 1, 1], [NET_RANK, "loop", 4096], **{**SETTINGS, **variables})

    def check_for_a_while(self, how, for_s):
        job = self.begin(how, KOLO_CREATE_TIMEOUT_MS="60000", KOLO_NET_SILENCE_MS="1000")
        time.sleep(for_s)
        self.assertEqual([], job.lines("looping"))
        self.lab.nodes[0].block([], None)
        self.assertTrue(lab.until(lambda: len(job.lines("looping")) == 3, 30), job.texts())
        time.sleep(2)
        failed = "".join(job.lines("failed"))
        if "has sent nothing for" in failed:  # a node that was held up
            raise Late(failed)
        self.assertEqual("", failed)

    def test_for_a_while(self):
        """Longer than KOLO_NET_SILENCE_MS: then all is as ever."""
        for case in ("drop", 3), ("reject with tcp reset", 1.2):
            with self.subTest(case):
                until_in_time(lambda case=case: self.check_for_a_while(*case), self.end_all)

    def test_for_good(self):
        """All ranks are told which address cannot be reached, before the time for the creation is over; soon, where it
        refuses."""
        place = {self.lab.nodes[0].address: {}, "10.99.0.1": {"KOLO_NET_ADDR": "10.99.0.1"}}
        lab.run(self.lab.nodes[0].enter() + ["ip", "addr", "replace", "10.99.0.1/32", "dev", "lo"])
        for address, how in ((self.lab.nodes[0].address, "drop"), (self.lab.nodes[0].address, "reject with tcp reset"),
                             ("10.99.0.1", None)):
            with self.subTest(address=address, how=how):
                begin = time.monotonic()
                job = self.begin(how, variables_of=lambda node, own=place[address]: {} if node else own,
                                 **({"KOLO_CREATE_TIMEOUT_MS": "60000"} if how and "reject" in how else {}))
                job.wait()
                self.assertLess(time.monotonic() - begin, CREATE_S)
                found = reports(job)
                self.assertEqual([0, 1, 2], sorted(report.rank for report in found), job.texts())
                for report in found:
                    self.assertRegex(report.message, rf"rank [12] cannot reach rank 0, which listens at {address}:\d+ ")
                self.end_all()


class Relayed(net_testing.NetTest):
    """Two nodes, between which a relay does things to one connection, at one byte, when the job is created or later."""

    nodes = 2
    local = [2, 2]
    node_of = [0, 0, 1, 1]
    actions = ("reset", "close", "half", "stall")
    joins = 2  # connections of node 1's ranks to rank 0, before those of its leader to the other one

    def all_loop(self, job):
        return len(job.lines("looping")) == len(self.node_of)

    def check(self, connection, direction, byte, action, transport, threads):
        relay = net_testing.RelayRunning(self.lab.nodes[1], f"{connection} {direction} {byte} {action}")
        self.addCleanup(relay.close)
        begin_ns = time.monotonic_ns()
        job = self.job(self.local, [NET_RANK, "loop", 2000000],
                       KOLO_NET=f"{transport},streams:{STREAMS},threads:{threads}", **SETTINGS)
        limit_s = TIMEOUT_S if action == "stall" else CLOSED_S
        lab.until(lambda: any(line.endswith(action) for line in relay.lines()) or reports(job), 10)
        if not any(line.endswith(action) for line in relay.lines()):
            self.assertEqual([], reports(job))  # fewer bytes go there than that
            return False
        hit_ns = time.monotonic_ns()
        patience_s = limit_s if self.all_loop(job) else CREATE_S
        everyone = set(range(len(self.node_of)))
        harmless = connection < self.joins or byte < GREETING_BYTES[direction]

        def ended():
            return {report.rank for report in reports(job)} == everyone
        lab.until(lambda: ended() or (harmless and self.all_loop(job)), patience_s + GRACE_S)
        if harmless and self.all_loop(job) and not reports(job):
            return True
        lab.until(ended, limit_s + 20)
        found = reports(job)
        self.assertTrue(ended(), f"{len(found)} of 4 ranks ended: {found} {[r.texts() for r in job.running]}")
        for report in found:
            self.assertIn(report.status, {"timeout", "peer dead", "system call failed"}, report)
            self.assertGreater(report.ns, begin_ns)
            if report.what == "failed":
                self.assertGreaterEqual(report.culprit, 0, report)
        last_s = (max(report.ns for report in found) - hit_ns) * 1e-9
        if last_s >= patience_s + GRACE_S:
            raise Late(f"{last_s:.3f} s instead of {patience_s}: {found}")
        return True

    def end(self):
        for node in self.lab.nodes:
            node.kill()
        self.doCleanups()
        self.assert_nothing_left()

    def test_verdict_lost(self):
        """Who does not learn that it was let in comes again, and takes the place of its first connection."""
        connections = range(self.joins + THREADS[-1] * (1 + STREAMS))
        cases = list(itertools.product(connections, ("close", "half", "reset"), TRANSPORTS))
        for connection, action, transport in net_testing.sample(cases, 2):
            with self.subTest(connection=connection, action=action, transport=transport, seed=net_testing.seed):
                case = (connection, "back", 100, action, transport, THREADS[-1])
                until_in_time(lambda case=case: self.check(*case), self.end)

    def test_at_every_byte(self):
        bytes_ = (0, 1, 40, 100, 150, 250, 330, 1000, 100000, 3000000)
        cases = [(connection, *case, threads) for threads in THREADS
                 for connection in range(self.joins + threads * (1 + STREAMS))
                 for case in itertools.product(("out", "back"), bytes_, self.actions, TRANSPORTS)]
        reached = 0
        for case in net_testing.sample(cases, 8):
            with self.subTest(case, seed=net_testing.seed):
                reached += until_in_time(lambda case=case: self.check(*case), self.end)
        self.assertGreater(reached, 0, f"seed {net_testing.seed}: no case did anything")

    def test_slow_connections(self):
        """Bytes that come one by one, or late, are no failure, neither while the job is created nor later."""
        rules = ["* out 0 dribble 7 1", "* out 700 full", "* back 0 dribble 3 1", "* back 600 full",
                 "* out 5000 delay 200", "3 back 100000 dribble 100 1", "3 back 120000 full"]
        relay = net_testing.RelayRunning(self.lab.nodes[1], *rules)
        self.addCleanup(relay.close)
        for transport in TRANSPORTS:
            with self.subTest(transport):
                job = self.job(self.local, [NET_RANK, "bits", net_testing.seed, 60],
                               KOLO_NET=f"{transport},streams:{STREAMS}", **{**SETTINGS, "KOLO_TIMEOUT_MS": "20000"})
                lines = [line.split("|")[2:] for line in self.results(job).splitlines()]
                self.assertEqual([lines[0]] * 4, lines)
        relay.close()
        self.assert_nothing_left()


if __name__ == "__main__":
    net_testing.main()
