"""kolorun on one of several machines: what its ranks are told, and what it says of them."""

import re

import launching
from launching import kolorun

PLACE = "echo $KOLO_RANK/$KOLO_SIZE $KOLO_LOCAL_RANK/$KOLO_LOCAL_SIZE $KOLO_RENDEZVOUS"


def machine(node, counts="2,3,1", nodes=3):
    return ("--nnodes", str(nodes), "--node-rank", str(node), "--rendezvous", "head:29500", "-n", counts)


class Machines(launching.LaunchingTest):
    def assert_places(self, arguments, expected, **variables):
        done = kolorun(*arguments, "sh", "-c", PLACE, env=launching.environment(**variables))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(expected, sorted(done.stdout.splitlines()))

    def test_places(self):
        self.assert_places(machine(0), ["0/6 0/2 head:29500", "1/6 1/2 head:29500"])
        self.assert_places(machine(1), ["2/6 0/3 head:29500", "3/6 1/3 head:29500", "4/6 2/3 head:29500"])
        self.assert_places(machine(2), ["5/6 0/1 head:29500"])
        self.assert_places(machine(2, counts="2"), ["4/6 0/2 head:29500", "5/6 1/2 head:29500"])

    def test_rendezvous_by_variable(self):
        arguments = ("--nnodes", "2", "--node-rank", "1", "-n", "1")
        self.assert_places(arguments, ["1/2 0/1 [fd00::1]:9"], KOLO_RENDEZVOUS="[fd00::1]:9")

    def test_one_machine_meets_nowhere(self):
        self.assert_places(("-n", "2"), ["0/2 0/2", "1/2 1/2"], KOLO_RENDEZVOUS="head:1")
        self.assert_places(machine(0, counts="1", nodes=1), ["0/1 0/1"])

    def test_tags(self):
        done = kolorun("--tag-output", *machine(1), "sh", "-c", "echo $KOLO_RANK; echo $KOLO_LOCAL_RANK >&2")
        self.assertEqual(["[2] 2", "[3] 3", "[4] 4"], sorted(done.stdout.splitlines()))
        self.assertEqual(["[2] 0", "[3] 1", "[4] 2"], sorted(done.stderr.splitlines()))

    def test_names_the_rank_that_fails(self):
        done = kolorun(*machine(1), "sh", "-c", "test $KOLO_RANK != 3 || exit 7; exec sleep 60")
        self.assertEqual(7, done.returncode)
        self.assertTrue(re.fullmatch(r"kolorun: rank 3 \(pid \d+\) exited with code 7\n", done.stderr), done.stderr)

    def test_names_the_ranks_that_take_too_long(self):
        done = kolorun("--timeout", "0.5", *machine(1), "sleep", "60")
        self.assertEqual(124, done.returncode)
        self.assertIn("ending ranks 2-4\n", done.stderr)

    def test_only_rank_0_reads(self):
        for node, expected in ((0, "0 heard\n1\n"), (1, "2\n3\n4\n")):
            with open(__file__, "rb") as text:
                done = kolorun(*machine(node), "sh", "-c", "read line && heard=' heard'; echo $KOLO_RANK$heard", stdin=text)
            self.assertEqual(expected, "".join(sorted(done.stdout.splitlines(keepends=True))))


if __name__ == "__main__":
    launching.main()
