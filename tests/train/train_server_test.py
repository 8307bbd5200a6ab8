"""Training with a parameter server: the synchronous mode has the bits of an all-reduce, the others reach the same; and
what is known of the generated problems is reached."""

import fcntl
import itertools
import json
import os
import signal
import sys
import unittest

import training
from training import launching

SPARSE = ("logistic", "factorization")


class GeneratedTest(training.TrainingTest):
    def generated(self, ranks, problem, *options):
        """The JSON of a run that must go well."""
        done = training.run(ranks, "--problem", problem, "--json", self.json, "--quiet", *options)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        return json.loads(self.json.read_text(encoding="utf-8"))


class Server(GeneratedTest):
    def digits(self, ranks, *options):
        return self.report(ranks, "--hidden", 40, "--batch", 31, "--steps", 40, *options)

    def test_synchronous_is_the_allreduce(self):
        """Bit by bit, whoever applies what is pushed."""
        for workers in 1, 2, 3:
            plain = self.digits(workers, "--no-compare")
            for servers in 0, 2:
                with self.subTest(workers=workers, servers=servers):
                    table = self.digits(workers + servers, "--server", "bsp", "--servers", servers)
                    self.assertEqual(plain["losses"], table["losses"])
                    self.assertEqual(plain["test_accuracy"], table["test_accuracy"])
                    self.assertEqual(("bsp", 0, workers, servers), tuple(table[key] for key in (
                        "server", "staleness", "workers", "servers")))
            self.assertEqual(plain["losses"], self.digits(workers, "--server", "none")["losses"])

    def test_synchronous_is_the_allreduce_where_rows_are_sparse(self):
        for problem, workers in itertools.product(SPARSE, (2, 3)):
            with self.subTest(problem=problem, workers=workers):
                none, bsp = (self.generated(workers, problem, "--server", server, "--rule", "sgd", "--rate", 0.5,
                                            "--steps", 40) for server in ("none", "bsp"))
                self.assertEqual(40, len(none["losses"]))
                self.assertEqual(none["losses"], bsp["losses"])
                self.assertEqual([each["loss"] for each in none["evaluations"]],
                                 [each["loss"] for each in bsp["evaluations"]])

    def test_synchronous_is_the_same_from_run_to_run(self):
        for rule in "adagrad", "adam", "momentum":
            first, again = (self.generated(3, "logistic", "--server", "bsp", "--rule", rule, "--steps", 60)["losses"]
                            for _ in range(2))
            self.assertEqual(first, again)

    def test_reaches_what_is_known(self):
        """A little above it, as there are so many examples; by chance a little below."""
        for problem, options in itertools.product(SPARSE, (("bsp",), ("ssp", "--staleness", 5), ("asp",))):
            with self.subTest(problem=problem, options=options):
                report = self.generated(2, problem, "--server", *options)
                self.assertAlmostEqual(1, report["loss"] / report["known_loss"], delta=0.04)
                self.assertGreater(report["evaluations"][0]["loss"], 1.1 * report["known_loss"])
                self.assertEqual({"logistic": "loss", "factorization": "RMSE"}[problem], report["measure"])

    def test_digits_learn_in_all_modes(self):
        for options in (("ssp",), ("asp", "--rule", "sgd"), ("asp", "--hogwild"), ("ssp", "--servers", 1),
                        ("bsp", "--backup-workers", 1), ("ssp", "--rule", "adam", "--rate", 0.003)):
            with self.subTest(options=options):
                report = self.report(3, "--hidden", 40, "--batch", 30, "--steps", 150, "--server", *options)
                self.assertGreater(report["test_accuracy"], 0.8)
                self.assertLess(report["loss"], 0.6)

    def test_a_killed_worker(self):
        """The others go on where nobody has to wait for it, else end with an error that names it."""
        for server, goes_on in ("ssp", True), ("bsp", False):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # so that no job ends before its lines are read
            job = self.start_training(3, "--problem", "logistic", "--server", server, "--step-ms", 1, "--steps", 1000,
                                      "--every", 1, launcher=("--on-failure", "continue"), stdout=writer)
            os.close(writer)
            with open(reader, encoding="utf-8") as output:
                for _ in range(8):  # until it trains
                    output.readline()
                os.kill(launching.children(job.pid)[1], signal.SIGKILL)
                printed = output.read()
            errors = job.communicate(timeout=60)[1]
            with self.subTest(server=server):
                self.assertRegex(errors, r"rank 1 \(pid \d+\) (was killed by signal 9|has ended)")
                self.assertEqual(goes_on, "lost           1 rank; the others went on" in printed)
                self.assertEqual(goes_on, "after 1000 clocks" in printed)

    def test_the_worker_that_evaluates_is_killed(self):
        """Then nobody has the parameters, nor says how good they are."""
        job = self.start_training(3, "--data", self.data, "--server", "ssp", "--step-ms", 1, "--steps", 1000, "--hidden", 40,
                                  "--json", self.json, "--every", 1, launcher=("--on-failure", "continue"))
        for _ in range(8):  # until it trains
            job.stdout.readline()
        os.kill(launching.children(job.pid)[0], signal.SIGKILL)
        printed, errors = job.communicate(timeout=training.SECONDS_MAX)
        self.assertIn("the worker that evaluated the loss has ended", errors)
        self.assertIn("lost           1 rank; the others went on", printed)
        self.assertNotIn("test accuracy", printed)
        report = json.loads(self.json.read_text(encoding="utf-8"))
        self.assertEqual((None, None), (report["loss"], report["test_accuracy"]))

    def test_losses_are_means_where_a_worker_is_left_out(self):
        losses = self.report(2, "--server", "bsp", "--hidden", 40, "--batch", 100, "--steps", 20, "--backup-workers", 1, "--slow",
                             "1:5", "--step-ms", 4)["losses"]
        for before, after in itertools.pairwise(losses[:12]):
            self.assertAlmostEqual(1, after / before, delta=0.3)

    def test_a_worker_that_takes_longer_than_the_limit(self):
        """Those who are done wait for it, however long."""
        environment = {**training.ENVIRONMENT, "KOLO_TIMEOUT_MS": "2500"}
        done = training.run(3, "--problem", "logistic", "--server", "asp", "--steps", 500, "--slow", "2:10", "--step-ms", 1,
                            "--quiet", "--json", self.json, env=environment)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        report = json.loads(self.json.read_text(encoding="utf-8"))
        self.assertEqual([500] * 3, [each["steps"] for each in report["times"]])

    def test_prints_progress_and_summary(self):
        done = training.run(3, "--problem", "factorization", "--server", "ssp", "--servers", 1, "--steps", 100, "--until", 0.01)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for pattern in (r"^problem factorization: 512 rows, 2048 parameters, \d+ examples, batch of 256\n",
                        r"\nserver  ssp, staleness 3, 1 server; 2 workers, rule adagrad, rate 0\.2\n",
                        r"(\n +\d+ +\d+ +\d+\.\d{3} +\d+\.\d{6}){20}\n", r"\n  RMSE +[\d.]+ after 100 clocks, 200 iterations",
                        r"\n  known +0\.25\d+ of the noise", r"\n  until 0.01 +not reached\n",
                        r"\nworker 0 +100( +[\d.]+){6}\nworker 1 +100( +[\d.]+){6}\n$"):
            self.assertRegex(done.stdout, pattern)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_tells_that_training_diverged(self):
        done = training.run(2, "--problem", "factorization", "--server", "bsp", "--rule", "sgd", "--rate", 100, "--quiet",
                            "--json", self.json)
        self.assertEqual(1, done.returncode)
        self.assertEqual(1, done.stderr.count("training diverged; try a smaller --rate than 100"), done.stderr)
        self.assertIsNone(json.loads(self.json.read_text(encoding="utf-8"))["loss"])

    def test_refuses_what_does_not_go_together(self):
        for status, pattern, *options in (
                (2, "--slow: is for training with --server or --problem", "--slow", "1:5"),
                (2, "--server 'bps': give none, bsp, ssp or asp", "--server", "bps"),
                (2, "--slow '4294967297:5': give RANK:FACTOR", "--server", "asp", "--slow", "4294967297:5"),
                (2, "--slow '1:x': give RANK:FACTOR or any:FACTOR", "--server", "asp", "--slow", "1:x"),
                (2, "--server: workers push rows in steps of their own; leave out --fused", "--server", "bsp", "--fused"),
                (2, "--staleness: only ssp", "--server", "asp", "--staleness", "2"),
                (2, "--backup-workers: only bsp", "--server", "ssp", "--backup-workers", "1"),
                (2, "--hogwild: bsp applies", "--server", "bsp", "--hogwild"),
                (2, "--hogwild: adds in place", "--server", "asp", "--hogwild", "--rule", "adam"),
                (2, "--servers: an all-reduce has none", "--problem", "logistic", "--servers", "1"),
                (2, "--rule adagrad: only tables", "--server", "none", "--rule", "adagrad"),
                (2, "--features: is for", "--server", "bsp", "--features", "100"),
                (2, "--data, --hidden: are for the digits", "--problem", "logistic", "--hidden", "8"),
                (1, "--servers 2: 2 ranks are there, so no worker is left", "--server", "asp", "--servers", "2"),
                (1, "--slow: there is no worker 2 of 2", "--server", "asp", "--slow", "2:5"),
                (1, "--backup-workers 2: must be less", "--server", "bsp", "--backup-workers", "2"),
                (1, "--batch 1 has not a row", "--problem", "logistic", "--server", "bsp", "--batch", "1")):
            with self.subTest(options=options):
                done = training.run(2, *options)
                self.assertEqual((status, ""), (done.returncode, done.stdout))
                self.assertIn(pattern, done.stderr)


class Ratios(GeneratedTest):
    def test_a_slow_worker(self):
        """Delays all where they wait for it in each step, and less where they need not. It sleeps, so that nothing depends
        on the number of processors."""
        def to_loss(*options):
            report = self.generated(3, "logistic", "--server", *options, "--slow", "2:5", "--step-ms", 10, "--until", 0.42,
                                    "--every", 1)
            self.assertLessEqual(report["reached"]["loss"], 0.42)
            self.assertEqual((2, 5, 10), (report["slow_rank"], report["slow_factor"], report["step_ms"]))
            return report
        bsp, ssp, asp = to_loss("bsp"), to_loss("ssp", "--staleness", 10), to_loss("asp")
        for report in bsp, ssp, asp:
            self.assertTrue(all(each["evaluate_seconds"] <= each["seconds"] for each in report["times"]), report)
        for report in ssp, asp:
            self.assertLess(report["reached"]["seconds"], 0.8 * bsp["reached"]["seconds"])
        steps = [each["steps"] for each in bsp["times"]]
        self.assertEqual(max(steps), min(steps))
        self.assertGreater(bsp["times"][0]["waited_seconds"], 2 * bsp["times"][0]["compute_seconds"])
        steps = [each["steps"] for each in ssp["times"]]
        self.assertLessEqual(max(steps) - min(steps), 11)
        steps = [each["steps"] for each in asp["times"]]
        self.assertGreater(steps[0], 2 * steps[2])
        self.assertEqual(0, asp["times"][0]["waited_seconds"])

    def test_workers_that_are_slow_in_turn(self):
        """Nobody is behind for long, so that a small bound suffices."""
        seconds = {}
        for server in "bsp", "ssp":
            report = self.generated(3, "logistic", "--server", server, "--slow", "any:5", "--step-ms", 4, "--steps", 40)
            self.assertEqual("any", report["slow_rank"])
            seconds[server] = report["times"][0]["seconds"]
            busy = [each["compute_seconds"] + each["evaluate_seconds"] for each in report["times"]]  # a step holds both
            slow_steps = sum(each - 40 * 0.004 for each in busy) / (4 * 0.004)
            self.assertGreater(slow_steps, 39.9)
        self.assertLess(seconds["ssp"], 0.85 * seconds["bsp"])


if __name__ == "__main__":
    # How much less time is waited: with --latency these, without it all others.
    unittest.main(argv=[sys.argv[0], "Ratios" if sys.argv[1:] == ["--latency"] else "Server"], verbosity=2)
