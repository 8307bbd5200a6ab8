"""Ranks where there is too little of the machine for them, with every result checked: beside stress-ng, under a quota of
one processor, pinned to one, and 64 of them on two. What the machine lacks or forbids is skipped, and said.

usage: stress_test.py [--seconds S] [--seed N]: S seconds for each of the four (2), random by N (TEST_SEED, or 1).
example: KOLORUN=build/gcc/bin/kolorun STRESS_RANK=build/gcc/bin/stress_rank python3 tests/tools/stress_test.py
    --seconds 120"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

KOLORUN = os.environ["KOLORUN"]
STRESS_RANK = os.environ["STRESS_RANK"]
PATIENCE_S = 120  # beyond the seconds asked for: many ranks on little of a processor end late
QUOTA_US = PERIOD_US = 100000
V1, V2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")


class Skipped(Exception):
    """The machine lacks or forbids what a setting needs."""


def run_job(arguments, ranks, prepare=None):
    """A job of `ranks`; `prepare` runs in kolorun before it starts."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    command = [KOLORUN, "-n", str(ranks), "--", STRESS_RANK, str(arguments.seconds), str(arguments.seed)]
    done = subprocess.run(command, env={**environment, "KOLO_TUNE_FILE": "none"}, preexec_fn=prepare, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, check=False,
                          timeout=arguments.seconds + PATIENCE_S)
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def few_cpus(count):
    cpus = sorted(os.sched_getaffinity(0))[:count]
    return lambda: os.sched_setaffinity(0, cpus)


@contextlib.contextmanager
def quota_group():
    """A control group with a quota of one processor; a function that moves the caller into it."""
    is_v2 = (V2 / "cgroup.controllers").is_file()
    group = (V2 if is_v2 else V1) / f"kolo-stress-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"no control group can be made: {error}") from error
    try:
        try:
            if is_v2:
                (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}", encoding="ascii")
            else:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
                (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US), encoding="ascii")
        except OSError as error:
            raise Skipped(f"no quota can be set: {error}") from error
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    finally:
        remove(group)


def remove(group):
    """What was in it may take a moment to be gone."""
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)
    print(f"  {group} could not be removed", file=sys.stderr)


def beside_stress_ng(arguments):
    program = shutil.which("stress-ng")
    if program is None:
        raise Skipped("there is no stress-ng")
    load = subprocess.Popen([program, "--cpu", "2", "--switch", "2", "--vm", "1", "--vm-bytes", "64M", "--quiet",
                             "--timeout", str(int(arguments.seconds) + PATIENCE_S)],
                            stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return run_job(arguments, 4)
    finally:
        load.terminate()
        load.wait()


def under_quota(arguments):
    with quota_group() as enter:
        return run_job(arguments, 4, enter)


def pinned_to_one(arguments):
    return run_job(arguments, 4, few_cpus(1))


def many_on_two(arguments):
    return run_job(arguments, 64, few_cpus(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED", "1")))
    arguments = parser.parse_args()
    failures = 0
    print(f"seed {arguments.seed}, {arguments.seconds:g} s each")
    for setting in (beside_stress_ng, under_quota, pinned_to_one, many_on_two):
        begin_s = time.monotonic()
        try:
            outcome = setting(arguments)
        except Skipped as skipped:
            outcome = f"skipped: {skipped}"
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            failures += 1
            outcome = f"FAILED: {failure}"
        print(f"{setting.__name__:16} {outcome} ({time.monotonic() - begin_s:.1f} s)", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
