"""Running one job of a library to its end, or to the end of one's patience, and leaving nothing of it behind; and the
steps of a build or an installation."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SET_CHILD_SUBREAPER = 36  # prctl: what a killed launcher leaves becomes our child, and can be found
GRACE_S = 2
STEP_TIMEOUT_S = 1800
SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER_PREFIX = "kolo-compare-"
# What a launcher may have left in our environment, and what would choose a library's configuration.
FOREIGN = ("KOLO_", "OMPI_", "PMI", "PRTE_", "MPIR_CVAR_", "I_MPI_", "HYD", "SLURM_", "MASTER_")


def environment(variables):
    """Ours, without what is foreign, and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "OMPI_MCA_btl_base_warn_component_unused": "0", **variables}


def adopt_leftovers():
    ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def interrupt_on_signals():
    """From now on the signals that end a program do what Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)


def shared_folder():
    """Where the gate lies: in memory, as a disk's pages are written back, and stall, now and then."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextlib.contextmanager
def own_folder(place=None):
    """A temporary folder, by default a shared one, which says whose it is."""
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=place or shared_folder()) as folder:
        yield pathlib.Path(folder)


def remove_stale_folders():
    """Of runs that were killed."""
    for path in pathlib.Path(shared_folder() or tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}[0-9]*-*"):
        if not os.path.exists(f"/proc/{path.name[len(FOLDER_PREFIX):].partition('-')[0]}"):
            shutil.rmtree(path, ignore_errors=True)


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid):
    found = []
    waiting = children(pid)
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += children(each)
    return found


def end(process):
    """Ends a job: first its launcher is asked, which as a rule ends the ranks, then whatever is left is killed."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    reap()


def reap():
    """Leftover processes that have come to us; they were killed, so each ends soon."""
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return


def quoted(text):
    """The line that tells most of a failure: the first that is not a launcher's frame."""
    lines = [line.strip() for line in text.splitlines() if any(c.isalnum() for c in line)]
    telling = [line for line in lines if "driver:" in line] or lines
    return telling[0][:300] if telling else "it said nothing"


def ending(code):
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"ended with {code}"


def run(command, environment, timeout_s):
    """Returns (exit code, None where it took too long; what went wrong in words, None where nothing did)."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       env=environment, start_new_session=True)
        except OSError as error:
            return 127, f"cannot be started: {error}"
        code = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout_s)
        finally:
            end(process)
        output.seek(0)
        said = quoted(output.read(1 << 20).decode("utf-8", "replace"))
    if code is None:
        return None, f"was not done after {timeout_s:.0f} s: {said}"
    return code, None if code == 0 else f"{ending(code)}: {said}"


def relative(path):
    """A path as a report shows it: within the source tree, without the way there."""
    return path.relative_to(SOURCE) if path.is_relative_to(SOURCE) else path


class StepError(Exception):
    """A step of a build or an installation failed; carries the end of what it said."""


def run_step(command, log, variables=None):
    """All that it says goes to the log. Raises StepError."""
    command = list(map(str, command))
    with open(log, "a", encoding="utf-8") as file:
        file.write("$ " + " ".join(command) + "\n")
        file.flush()
        try:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           env={**os.environ, **(variables or {})}, timeout=STEP_TIMEOUT_S, check=True)
        except subprocess.CalledProcessError as error:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
            raise StepError("\n  ".join([f"{' '.join(command[:3])} ... failed ({relative(log)} has all of it):",
                                         *tail])) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StepError(f"{command[0]}: {error}") from error
