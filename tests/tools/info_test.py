"""kolo-info: its JSON, its tables, and what it says to wrong options and variables."""

import json
import os
import subprocess
import unittest

KOLO_INFO = os.environ["KOLO_INFO"]
COLUMNS_MAX = 80
MACHINE_KEYS = {"cpu_model", "isa", "kernels", "l1d_bytes", "l2_bytes", "l3_bytes", "cpus_online", "cpus_allowed",
                "quota_millicpus", "l3_domains", "numa_nodes", "memory_bytes", "shm_total_bytes", "shm_free_bytes",
                "io_uring", "membarrier", "pidfd", "several_machines"}


def run(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    return subprocess.run([KOLO_INFO, *arguments], env={**environment, **variables}, capture_output=True, text=True,
                          timeout=200, check=False)


class Info(unittest.TestCase):
    def output(self, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def assert_refused(self, status, pattern, *arguments, **variables):
        done = run(*arguments, **variables)
        self.assertEqual((status, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, pattern)

    def test_memory(self):
        rows = json.loads(self.output("--memory", "--ranks", "3", "--json"))["memory"]
        uses = [row["use"] for row in rows]
        self.assertEqual(["default", "background", "lanes"] + ["table"] * (len(uses) == 4), uses)
        by_use = {row["use"]: row for row in rows}
        self.assertEqual({3}, {row["ranks"] for row in rows})
        self.assertLess(0, min(row["own_bytes"] for row in rows))
        default = by_use["default"]["shared_bytes"]
        self.assertGreater(by_use["lanes"]["shared_bytes"], default)  # a segment for each lane
        if "table" in by_use:
            self.assertGreaterEqual(by_use["table"]["shared_bytes"] - default, (1 << 20) // 3 - 4096)
        smaller = json.loads(self.output("--memory", "--ranks", "3", "--json", KOLO_SLOT_BYTES="4096"))["memory"][0]
        self.assertLess(smaller["shared_bytes"], 100 << 10)
        shown = self.output("--memory", "--ranks", "3")
        self.assertLessEqual(max(map(len, shown.splitlines())), COLUMNS_MAX)
        self.assertEqual(uses, [line.split()[1] for line in shown.splitlines()[3:]])
        self.assert_refused(1, "no memory use of 2 ranks .default.*KOLO_ALGO", "--memory", "--ranks", "2", KOLO_ALGO="none")

    def test_memory_without_figures(self):
        """As where /proc or its fields are missing: what the processes share is the last file that may be open."""
        done = subprocess.run(["sh", "-c", 'ulimit -n 4; exec "$0" --memory --ranks 2', KOLO_INFO], capture_output=True,
                              text=True, timeout=200, check=False)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("no memory use of 2 ranks (default): no Pss_Anon and Pss_Shmem", done.stderr)

    def test_json(self):
        report = json.loads(self.output("--json", "--ranks", "3"))
        self.assertEqual({"version", "machine", "plan", "env", "unknown"}, report.keys())
        self.assertEqual(MACHINE_KEYS, report["machine"].keys())
        self.assertEqual(len(os.sched_getaffinity(0)), report["machine"]["cpus_allowed"])
        self.assertTrue(report["machine"]["kernels"])
        self.assertEqual(3, report["plan"]["ranks"])
        self.assertEqual(3 + 32, report["plan"]["descriptors"])
        self.assertGreater(report["plan"]["rank_bytes"], 4096)

    def test_plan(self):
        rows = json.loads(self.output("--json", "--ranks", "2"))["plan"]["rows"]
        self.assertEqual([8 * 4**i for i in range(15)], [row["bytes"] for row in rows])
        for row in rows:
            self.assertIn(row["algorithm"], {"oneshot", "mesh", "ring", "central", "tree"})
            self.assertGreaterEqual(row["chunk_bytes"] * row["chunks"], row["bytes"])
            self.assertGreater(row["segment_bytes"], 0)
            self.assertLessEqual(row["segment_bytes"], 2 * 8 << 20)
        self.assertEqual(1, len({row["segment_bytes"] for row in rows}))

    def test_plan_follows_variables(self):
        rows = json.loads(self.output("--json", "--ranks", "4", KOLO_ALGO="ring"))["plan"]["rows"]
        self.assertEqual({"ring"}, {row["algorithm"] for row in rows})

    def test_default_rank_count(self):
        report = json.loads(self.output("--json"))
        self.assertEqual(report["machine"]["cpus_allowed"], report["plan"]["ranks"])

    def test_env(self):
        awkward = 'a"b\\c\td\u00e9'
        entries = json.loads(self.output("--env", "--json", KOLO_JOB=awkward))["env"]
        values = {entry["name"]: entry["value"] for entry in entries}
        self.assertIsNone(values["KOLO_RANK"])
        self.assertEqual(awkward, values["KOLO_JOB"])
        for odd, shown in ((b"a\xe9b", "a\u00e9b"), (b"\xe0\x80\x80", "\u00e0\u0080\u0080"),
                           (b"\xf0\x9f\x98\x80", "\U0001f600")):
            entries = json.loads(self.output("--env", "--json", KOLO_JOB=os.fsdecode(odd)))["env"]
            self.assertIn(shown, [entry["value"] for entry in entries])
        table = self.output("--env", KOLO_TIMEOUT_MS="1234")
        shown = " ".join(table.split()).replace("=1234", "")
        for entry in entries:
            self.assertIn(f"{entry['name']} {entry['meaning']} (default: {entry['default']})", shown)
        self.assertRegex(table, r"(?m)^KOLO_TIMEOUT_MS=1234$")
        self.assertRegex(table, r"(?m)^KOLO_ALGO$")
        self.assertLessEqual(max(map(len, table.splitlines())), COLUMNS_MAX, table)

    def test_env_unknown(self):
        slips = {"KOLO_ALG": "KOLO_ALGO", "KOLO_TIMEOUT": "KOLO_TIMEOUT_MS", "KOLO_ALGORITHM": "KOLO_ALGO",
                 "KOLO_SILENCE_MS": "KOLO_NET_SILENCE_MS", "KOLO_RANKS": "KOLO_RANK", "KOLO_WIAT": "KOLO_WAIT",
                 "KOLO_SLOTBYTES": "KOLO_SLOT_BYTES", "KOLO_log": "KOLO_LOG", "KOLO_ZQXJ": None, "KOLO_": None,
                 "KOLO_" + 100 * "X": None}
        fine = {"KOLO_ALGO": "ring", "KOLO_RESTARTS": "0", "KOLO_TEST_OWN": "1", "KOLO_MPI_X": "1", "KOLO_TORCH_X": "1",
                "kolo_alg": "1", "XKOLO_ALG": "1"}
        report = json.loads(self.output("--env", "--json", **dict.fromkeys(slips, "1"), **fine))
        found = {entry["name"]: entry["nearest"] for entry in report["unknown"]}
        self.assertEqual({name[:63]: nearest for name, nearest in slips.items()}, found)
        self.assertEqual([], json.loads(self.output("--json", **fine))["unknown"])
        table = self.output("--env", KOLO_ALG="ring", KOLO_ZQXJ="1")
        self.assertIn("KOLO_ALG is not a variable of kolo; did you mean KOLO_ALGO?", table)
        self.assertIn("KOLO_ZQXJ is not a variable of kolo, and nothing reads it", table)

    def test_table(self):
        for ranks in ("2", "16", "128", "1024"):
            table = self.output("--ranks", ranks)
            self.assertLessEqual(max(map(len, table.splitlines())), COLUMNS_MAX, table)
        for word in ("processor", "topology", "memory", "kernel", "plan", "2 GiB"):
            self.assertIn(word, table)

    def test_help_and_version(self):
        self.assertIn("examples:", self.output("--help"))
        self.assertRegex(self.output("--version"), r"^kolo-info \d+\.\d+\.\d+\n$")

    def test_refuses_wrong_options(self):
        self.assert_refused(2, "--ranks '0': give a whole number from 1 to 1024", "--ranks", "0")
        self.assert_refused(2, "--ranks '2x'", "--ranks", "2x")
        self.assert_refused(2, "--ranks '1025'", "--ranks", "1025")
        self.assert_refused(2, "'spare': is not expected", "spare")
        self.assert_refused(2, "--help", "--nonsense")
        self.assert_refused(2, "give one of them", "--env", "--memory")
        self.assert_refused(2, "--ranks: --env and --stale show nothing of ranks", "--env", "--ranks", "2")

    def test_refuses_unreadable_variables(self):
        self.assert_refused(1, "KOLO_ALGO.*fastest", KOLO_ALGO="fastest")
        self.assert_refused(1, "KOLO_CPU.*z80", KOLO_CPU="z80")

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([KOLO_INFO], stdout=full, stderr=subprocess.PIPE, text=True, timeout=200, check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn("No space left", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
