"""kolorun's command line: what it prints on request, and what it says to a wrong one."""

import pathlib
import subprocess
import tempfile

import launching
from launching import kolorun


class Options(launching.LaunchingTest):
    def assert_refused(self, pattern, *arguments, code=125):
        done = kolorun(*arguments)
        self.assertEqual((code, ""), (done.returncode, done.stdout), done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertLessEqual(done.stderr.count("\n"), 2, done.stderr)

    def test_help(self):
        for option in ("--help", "-h"):
            done = kolorun(option)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            for text in ("Usage:", "-n", "--bind", "--tag-output", "--on-failure", "--timeout", "--grace", "Example",
                         "125", "-np", "--output", "KOLO_LOG", "--nnodes", "--node-rank", "--rendezvous", "KOLO_SECRET_FILE",
                         "-x, --export VAR[=VALUE]", "-wdir, --wdir DIR", "--report-bindings"):
                self.assertIn(text, done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        with tempfile.TemporaryDirectory(prefix="kolo-options-") as folder:
            made = next(line for line in done.stdout.splitlines() if "> FILE" in line)  # the secret, as kolo reads it
            subprocess.run(["sh", "-c", f"umask 022; {made}"], check=True, cwd=folder)
            self.assertEqual(0o600, pathlib.Path(folder, "FILE").stat().st_mode & 0o777)

    def test_np(self):
        for words in (("-np", "2"), ("--np", "2"), ("--np=2",), ("-n2",), ("--ranks", "2")):
            done = kolorun(*words, "sh", "-c", "echo $KOLO_SIZE")
            self.assertEqual((0, "2\n2\n", ""), (done.returncode, done.stdout, done.stderr))
        self.assert_refused("^kolorun: option '-np' needs a value", "-np")
        self.assert_refused("^kolorun: -np '2x': give a whole number", "-np", "2x", "true")

    def test_no_program(self):
        for words in ((), ("-n", "1"), ("-n", "1", "--"), ("-np", "1", "--timeout", "2")):
            self.assert_refused("^kolorun: there is no program to run.*\nusage: kolorun -n N .* PROGRAM ", *words)

    def test_version(self):
        done = kolorun("--version")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"^kolorun \d+\.\d+\.\d+\n$")

    def test_rank_count(self):
        for count in ("0", "-1", "1025", "2x", "", "99999999999999999999"):
            self.assert_refused(f"^kolorun: -n '{count}': give a whole number from 1 to 1024", "-n", count, "true")
        self.assert_refused("-n N", "true")

    def test_machines(self):
        several = ("--nnodes", "3", "--node-rank", "1", "--rendezvous", "a:1")
        for count, words in (("2,x,1", "'2,x,1': give a whole number from 1 to 1024, or up to 1024 with commas"),
                             ("2,3,", "give a whole number"), ("2,0,1", "give a whole number"), ("2 3 1", "give a whole number"),
                             ("2,3", "-n has 2 numbers for 3 machines"), ("2,3,1,1", "4 numbers for 3"),
                             ("342", "-n on 3 machines makes more than 1024"), ("1000,1000,1000", "more than")):
            self.assert_refused(words, *several, "-n", count, "true")
        self.assert_refused("-n has 2 numbers for 1 machine;", "-n", "2,3", "true")
        self.assert_refused("--node-rank is for jobs on several", "--node-rank", "0", "-n", "1", "true")
        self.assert_refused("--rendezvous is for jobs on several", "--rendezvous", "a:1", "-n", "1", "true")
        self.assert_refused("needs a --node-rank from 0 to 2", "--nnodes", "3", "-n", "1", "true")
        self.assert_refused("needs a --node-rank from 0 to 2", "--nnodes", "3", "--node-rank", "3", "-n", "1", "true")
        self.assert_refused("--nnodes '0': give", "--nnodes", "0", "-n", "1", "true")
        self.assert_refused("--node-rank '-1': give", "--nnodes", "2", "--node-rank", "-1", "-n", "1", "true")
        self.assert_refused("needs --rendezvous HOST:PORT", "--nnodes", "2", "--node-rank", "0", "-n", "1", "true")
        self.assert_refused("needs --rendezvous HOST:PORT", "--nnodes", "2", "--node-rank", "0", "--rendezvous", "head",
                            "-n", "1", "true")

    def test_seconds(self):
        for option in ("--timeout", "--grace"):
            for seconds in ("-1", "1s", "", "nan", "1e10", "1.2.3", "10000000000"):
                self.assert_refused(f"{option} '{seconds}'", "-n", "1", option, seconds, "true")
        self.assert_refused("--timeout '0'", "-n", "1", "--timeout", "0", "true")

    def test_wrong_words(self):
        self.assert_refused("--bind 'socket'", "-n", "1", "--bind", "socket", "true")
        for mode in ("ignore", "restarts", "restart:", "restart:0", "restart:-1", "restart: 5", "restart:2x", "restart:9999999", "end:1"):
            self.assert_refused(f"--on-failure '{mode}': give end, continue, restart or restart:N", "-n", "1", "--on-failure", mode,
                                "true")
        self.assert_refused("'--verbose' is unknown", "-n", "1", "--verbose", "true")
        self.assert_refused(r"'--timeot' is unknown \(did you mean --timeout\?\)", "-n", "1", "--timeot", "3", "true")
        self.assert_refused("'--n' is ambiguous", "-n", "1", "--n", "3", "true")
        self.assert_refused("'--tag-output' takes no value", "-n", "1", "--tag-output=yes", "true")
        self.assert_refused("--output and --tag-output", "-n", "1", "--tag-output", "--output", "x", "true")
        self.assert_refused("'-q' is unknown", "-n", "1", "-q", "true")
        self.assert_refused("'--bind' needs a value", "-n", "1", "--bind")
        self.assert_refused("'-n' needs a value", "-n")

    def test_export(self):
        show = ("sh", "-c", 'echo "$A/$B"')
        for words, expected in ((("-x", "A=1=2", "--export", "B"), "1=2/of kolorun"), (("-xA=", "--export=B= b "), "/ b "),
                                (("-x", "B=1", "-x", "B=2"), "a/2")):
            done = kolorun("-n", "2", *words, *show, env=launching.environment(A="a", B="of kolorun"))
            self.assertEqual((0, f"{expected}\n" * 2, ""), (done.returncode, done.stdout, done.stderr))
        self.assert_refused("^kolorun: -x 'NOT_SET': give VAR=VALUE, or a variable that is set;", "-n", "1", "-x", "NOT_SET", "true")
        for word in ("", "=", "=1"):
            self.assert_refused(f"-x '{word}': give VAR=VALUE", "-n", "1", "-x", word, "true")
        for word in ("KOLO_RANK=1", "KOLO_LOCAL_SIZE=2", "KOLO_SHM_FD=9"):
            self.assert_refused(f"--export '{word}': give another variable: kolorun sets", "-n", "1", "--export", word, "true")

    def test_export_is_as_if_set_before(self):
        self.assert_refused("KOLO_RENDEZVOUS is set", "-n", "1", "-x", "KOLO_RENDEZVOUS=a:1", "true")
        done = kolorun("-n", "1", "-x", "KOLO_LOG=off", "-x", "KOLO_NOTHING=1", "sh", "-c", "echo $KOLO_LOG")
        self.assertEqual((0, "off\n", ""), (done.returncode, done.stdout, done.stderr))
        done = kolorun("-n", "1", "-x", "KOLO_JOB=kolorun-mine", "-x", "MASTER_ADDR", "-x", "MASTER_PORT=7", "sh", "-c",
                       "echo $KOLO_JOB $RANK$MASTER_ADDR:$MASTER_PORT",  # another launcher's place is taken away
                       env=launching.environment(RANK="0", WORLD_SIZE="1", MASTER_ADDR="a", MASTER_PORT="1"))
        self.assertEqual((0, "kolorun-mine a:7\n"), (done.returncode, done.stdout), done.stderr)
        done = kolorun("-n", "1", "-x", "KOLO_TIMOUT_MS=1", "true")
        self.assertRegex(done.stderr, "^kolorun: KOLO_TIMOUT_MS .*KOLO_TIMEOUT_MS")

    def test_wdir(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder).resolve()
            (folder / "here").mkdir()
            program = folder / "here/own"
            program.write_text('#!/bin/sh\necho "$PWD $(/bin/pwd)"\n', encoding="utf-8")
            program.chmod(0o700)
            for word in ("-wdir", "--wdir"):
                done = kolorun("-n", "2", word, "here", "--output", "files", "./own", cwd=folder)
                self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
                for rank in range(2):  # in the folder that kolorun is in
                    self.assertEqual(f"{folder}/here {folder}/here\n", (folder / f"files/rank-{rank}.out").read_text())
            done = kolorun("-n", "1", "--trace", "t", "--wdir", "here", "sh", "-c", "echo $KOLO_TRACE", cwd=folder)
            self.assertEqual(f"{folder}/t\n", done.stdout)
            for name, why in (("none", "No such file or directory"), ("here/own", "Not a directory")):
                done = kolorun("-n", "3", "--wdir", name, "true", cwd=folder)
                self.assertEqual((125, "", f"kolorun: --wdir: cannot enter '{name}': {why}\n"),
                                 (done.returncode, done.stdout, done.stderr))
        self.assert_refused("-wdir '': give DIR", "-n", "1", "-wdir", "", "true")

    def test_options_end_at_the_program(self):
        done = kolorun("-n", "1", "echo", "-n", "--bind", "x", "--help")
        self.assertEqual((0, "--bind x --help", ""), (done.returncode, done.stdout, done.stderr))
        done = kolorun("-n", "1", "--", "echo", "x")
        self.assertEqual((0, "x\n", ""), (done.returncode, done.stdout, done.stderr))

    def test_several_machines_by_accident(self):
        # Each machine's ranks would be a job of their own, and nobody would notice.
        done = kolorun("-n", "2", "true", env=launching.environment(KOLO_RENDEZVOUS="head:1"))
        self.assertEqual((125, "kolorun: KOLO_RENDEZVOUS is set, so this is one of several machines: give\n"
                          "         --nnodes M --node-rank R too; or else unset KOLO_RENDEZVOUS; see kolorun --help\n"),
                         (done.returncode, done.stderr))
        for words in (("-n", "2"), ("-n", "2", "--nnodes", "1", "--node-rank", "0")):
            value = "head:1" if "--nnodes" in words else ""
            done = kolorun(*words, "sh", "-c", "echo $KOLO_RENDEZVOUS", env=launching.environment(KOLO_RENDEZVOUS=value))
            self.assertEqual((0, "\n\n", ""), (done.returncode, done.stdout, done.stderr))

    def test_program_not_found(self):
        for ranks in ("1", "5"):
            self.assert_refused("^kolorun: cannot run 'no-such-program': not found in PATH$", "-n", ranks,
                                "no-such-program", code=127)
            self.assert_refused("cannot run '/no/such': there is no such file", "-n", ranks, "--tag-output", "/no/such",
                                code=127)

    def test_program_not_executable(self):
        self.assert_refused(r"^kolorun: cannot run '/dev/null': is not executable \(chmod \+x\)$", "-n", "3", "/dev/null",
                            code=126)
        self.assert_refused("^kolorun: cannot run '/tmp': is a folder$", "-n", "3", "/tmp", code=126)

    def test_program_in_this_folder(self):
        with tempfile.TemporaryDirectory(prefix="kolorun-test-") as folder:
            program = pathlib.Path(folder, "kolo-own")
            program.write_text("#!/no/such/interpreter\n")
            program.chmod(0o700)
            done = kolorun("-n", "2", "kolo-own", cwd=folder)
            self.assertEqual((127, "kolorun: cannot run 'kolo-own': not found in PATH; the one in this folder is "
                              "./kolo-own\n"), (done.returncode, done.stderr))
            pathlib.Path(folder, "sub").mkdir()
            for name in "sub", "":
                done = kolorun("-n", "2", name, cwd=folder)
                self.assertEqual((127, f"kolorun: cannot run '{name}': not found in PATH\n"), (done.returncode, done.stderr))
            done = kolorun("-n", "2", "./kolo-own", cwd=folder)
            self.assertEqual((127, "kolorun: cannot run './kolo-own': it is there, but not its interpreter (its first line, "
                              "'#!')\n"), (done.returncode, done.stderr))


if __name__ == "__main__":
    launching.main()
