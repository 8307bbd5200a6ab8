"""tools/quickstart: its options, and what it does where nothing is installed. The tests' own installation is left
alone: the script runs in a folder of its own, and finds no more programs than it is given."""

import errno
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(os.environ["TOOLS"])
ALWAYS_THERE = ("awk", "bash", "cat", "cp", "dirname", "env", "fold", "head", "id", "mkdir", "nproc", "realpath", "sed",
                "sleep", "sort", "tail")
PACKAGES = "gcc libc6-dev cmake ninja-build pkg-config liburing-dev libsodium-dev libopenblas-serial-dev"
APT_GET = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/../apt-get.calls"\nexit ${APT_GET_STATUS:-0}\n'
# It notes how it is called, and builds programs that do nothing, each only where it is asked for.
CMAKE = """#!/bin/bash
echo "$@" >>"${0%/*}/../cmake.calls"
[ "$1" != --version ] || echo cmake version 3.25.1
[ "$1" != --build ] || while [ $# -gt 4 ]; do
    mkdir -p build/release/bin
    cp "${0%/*}/true" build/release/bin/"${5##*/}"
    shift
done
"""


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-quickstart-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("tools", "bin"):
            (self.folder / name).mkdir()
        for name in ("quickstart", "progress.sh"):
            shutil.copy(TOOLS / name, self.folder / "tools" / name)
        for name in ALWAYS_THERE:
            (self.folder / "bin" / name).symlink_to(shutil.which(name))

    def run_script(self, *arguments, **variables):
        return subprocess.run([self.folder / "tools" / "quickstart", *arguments], capture_output=True, text=True,
                              timeout=200, check=False, cwd="/", env={"PATH": str(self.folder / "bin"), **variables})

    def add_apt_get(self):
        path = self.folder / "bin" / "apt-get"
        path.write_text(APT_GET, encoding="ascii")
        path.chmod(0o755)
        return self.folder / "apt-get.calls"

    def assert_refused(self, message, *arguments):
        done = self.run_script(*arguments)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn(message, done.stderr)
        self.assertFalse((self.folder / "build").exists())

    def test_help(self):
        done = self.run_script("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for word in ("--ranks", "--data", "--python", "--help", "examples:"):
            self.assertIn(word, done.stdout)

    def test_refuses_wrong_options(self):
        self.assert_refused("--ranks '0' is not", "--ranks", "0")
        self.assert_refused("--ranks '2x' is not", "--ranks", "2x")
        self.assert_refused("--ranks '' is not", "--ranks")
        self.assert_refused("--ranks 257 is more than 256", "--ranks", "257")
        self.assert_refused("--data '/nonexistent' is not a file", "--data", "/nonexistent")
        self.assert_refused("no option 'spare'", "spare")

    def test_python_needs_more(self):
        self.assert_refused("--data is for kolo-train", "--python", "--data", "/dev/null")
        done = self.run_script("--python")
        self.assertRegex(done.stderr, f"please install what is missing .*:\n +{PACKAGES} g[+][+] python3-venv python3-dev\n")

    def test_without_apt_says_what_to_install(self):
        done = self.run_script()
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, f"please install what is missing .*:\n +{PACKAGES}\n")

    @unittest.skipIf(os.getuid() == 0, "root may install")
    def test_as_user_says_how_to_install(self):
        calls = self.add_apt_get()
        done = self.run_script()
        self.assertEqual(1, done.returncode)
        self.assertIn(f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {PACKAGES}\n",
                      done.stderr)
        self.assertFalse(calls.exists())

    @unittest.skipUnless(os.getuid() == 0, "only root may install")
    def test_as_root_installs(self):
        calls = self.add_apt_get()
        done = self.run_script()
        update, install = calls.read_text(encoding="ascii").splitlines()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.endswith(f" install -y --no-install-recommends {PACKAGES}"), install)
        self.assertEqual(1, done.returncode)  # for this apt-get did nothing
        self.assertIn(f"still missing after installing: {PACKAGES}", done.stderr)

    @unittest.skipUnless(os.getuid() == 0, "only root may install")
    def test_shows_the_log_of_a_failure(self):
        self.add_apt_get()
        done = self.run_script(APT_GET_STATUS="100")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, r"'apt-get update' failed. The end of build/quickstart.log:")

    def add_all(self):
        """All that is needed is there, and does nothing."""
        texts = {"cmake": CMAKE, "python3": '#!/bin/sh\necho "${0%/*}"\n'}  # the folder of its headers
        for name in ("true", "cc", "ninja", "pkg-config", "c++", "python3", "Python.h", "cmake"):
            (self.folder / "bin" / name).write_text(texts.get(name, "#!/bin/sh\n"), encoding="ascii")
            (self.folder / "bin" / name).chmod(0o755)

    def calls_of_cmake(self):
        calls = (self.folder / "cmake.calls").read_text(encoding="ascii").splitlines()
        return [call for call in calls if call != "--version"]

    def test_builds_what_it_shows(self):
        self.add_all()
        done = self.run_script("--ranks", "2")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        shown = [line.split("build/release/bin/")[1:] for line in done.stdout.splitlines() if line.startswith("$ ")]
        used = {words.split()[0] for line in shown for words in line}
        configured, built = self.calls_of_cmake()
        self.assertEqual("--preset release", configured)
        self.assertRegex(built, "^--build --preset release --target ")
        self.assertEqual(used, set(built.split()[4:]))
        trains = next(number for number, line in enumerate(shown) if any("kolo-train" in words for words in line))
        self.assertEqual(1, trains, "training comes behind nothing that takes long")

    def test_python_builds_what_it_installs(self):
        self.add_all()
        environment = self.folder / "build/quickstart-env/bin"
        environment.mkdir(parents=True)
        shutil.copy(self.folder / "bin/true", environment / "python3")
        done = self.run_script("--python", "--ranks", "2")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        _, built, *installed = self.calls_of_cmake()
        self.assertEqual({"kolorun", "kolo-trace", "kolo", "lib/bindings/torch/all"}, set(built.split()[4:]))
        self.assertEqual(["lib", "python", "torch"], [call.split("--component ")[1] for call in installed])
        self.assertLessEqual({"kolorun", "kolo-trace"}, {path.name for path in environment.iterdir()})


def read_all(controller):
    """What was written to a terminal that is closed: one read may give only a part of it."""
    shown = b""
    try:
        while part := os.read(controller, 1 << 16):
            shown += part
    except OSError as error:  # how Linux tells the end
        if error.errno != errno.EIO:
            raise
    return shown.decode()


class Progress(unittest.TestCase):
    """tools/progress.sh, as quickstart and check use it."""

    def run_command(self, command, stdout):
        with tempfile.NamedTemporaryFile(prefix="kolo-progress-test-") as log:
            script = f'SECONDS=0; source {TOOLS}/progress.sh; progress_run build {log.name} bash -c "{command}"'
            done = subprocess.run(["bash", "-euc", script], stdout=stdout, stderr=subprocess.PIPE, text=True,
                                  timeout=100, check=False)
            self.assertEqual("", done.stderr)
            return done, log.read().decode()

    def test_shows_the_last_step_on_a_terminal(self):
        controller, terminal = os.openpty()
        self.addCleanup(os.close, controller)
        _, log = self.run_command("echo [7/9] Compiling b; echo noise; sleep 4", terminal)
        os.close(terminal)
        shown = read_all(controller)
        self.assertRegex(shown, r"\r\x1b\[K\[build +[1-9] s\] \[7/9\] Compiling b")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown)
        self.assertEqual("[7/9] Compiling b\nnoise\n", log)

    def test_shows_what_changes(self):
        """A path's folders would leave no room for the file."""
        folders = "lib/CMakeFiles/kolo_objects.dir/internode/assembly"
        done, _ = self.run_command(f"echo [123/480] Building C object {folders}/subtrees.c.o; sleep 16", subprocess.PIPE)
        self.assertRegex(done.stdout, r"^\[build +\d+ s\] \[123/480\] Building C object subtrees.c.o\n$")

    def test_adds_lines_elsewhere(self):
        done, _ = self.run_command("echo pmstatus:gcc:41.8:Unpacking gcc; sleep 16", subprocess.PIPE)
        self.assertRegex(done.stdout, r"^\[build +1[0-9] s\] 41 %: Unpacking gcc\n$")

    def test_gives_the_status(self):
        self.assertEqual(3, self.run_command("exit 3", subprocess.PIPE)[0].returncode)


if __name__ == "__main__":
    unittest.main(verbosity=2)
