"""Checks the models of the flag protocols with spin, and that each model's controls are refuted.

A control is the same model with one store, fence or wait removed (-DWITHOUT_...): if spin finds no fault in it, the
model shows nothing, and this test fails. The opening comment of each model says what it models and what its
controls remove.

What a search finds depends on the model and the search's parameters alone. The large ones are in the file `searched`
with a digest of these, once they were made: they are made again where the digest differs, by --write, and by --whole.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(__file__).resolve().parent
SEARCHED = MODELS / "searched"  # of each large search: digest, states, what was searched
MEMORY_MIB = 2048
DEPTH = 200_000

# How pan is compiled and run. A process that may die does so by `unless`, in whose scope no step is local: such models
# are searched without partial-order reduction.
STATES = ("-DSAFETY", "-DNOCLAIM")  # assertions and invalid end states
COMPACT = (*STATES, "-DCOLLAPSE")  # the same in half the memory and twice the time
CLAIM = ()  # a claim of the model's, over fair runs
LIVE = {STATES: (), COMPACT: (), CLAIM: ("-a", "-f")}


@dataclasses.dataclass(frozen=True)
class Check:
    """One search: of a model with `bounds`, for the faults that `mode` finds."""

    model: str
    bounds: tuple
    mode: tuple = STATES
    reduced: bool = False
    control: str = ""  # what is removed
    large: bool = False  # about a million states: compilers' optimisation takes less time than it saves

    @property
    def label(self):
        return " ".join(self.bounds).replace("=", " ").lower() or "default bounds"

    @property
    def digest(self):
        asked = repr((self.bounds, self.mode, self.reduced, self.control, DEPTH))
        return hashlib.sha256((MODELS / f"{self.model}.pml").read_bytes() + asked.encode()).hexdigest()


def small(model, *bounds, mode=STATES, reduced=False):
    return Check(model, bounds, mode, reduced)


def large(model, *bounds, mode=STATES, reduced=False, control=""):
    return Check(model, bounds, mode, reduced, control, large=True)


def controls(names, model, *bounds, mode=STATES, reduced=False):
    return [Check(model, bounds, mode, reduced, name) for name in names.split()]


DEFAULT = [
    large("lines", "RANKS=2", "CALLS=4", "LINES=2", "DEATHS=2"),
    large("lines", "RANKS=3", "CALLS=3", "LINES=1", "DEATHS=1"),
    *controls("RELEASE SECOND_SET", "lines", "RANKS=2", "CALLS=4", "LINES=2", "DEATHS=0"),
    *controls("READING_ALL", "lines", "RANKS=3", "CALLS=4", "LINES=1", "DEATHS=0"),
    large("lines", "RANKS=2", "CALLS=4", "LINES=1", "DEATHS=1", "PASSES=1"),
    *controls("DUE_ROUND", "lines", "RANKS=2", "CALLS=4", "LINES=1", "DEATHS=0", "PASSES=1"),
    large("slots", "RANKS=2", "CALLS=5", "CHUNKS=1", reduced=True),
    large("slots", "RANKS=2", "CALLS=2", "CHUNKS=5", reduced=True),
    large("slots", "RANKS=3", "CALLS=1", "CHUNKS=3", reduced=True),
    large("slots", "RANKS=2", "CALLS=2", "CHUNKS=2", "DEATHS=2"),
    *controls("CLAIM FOURTH_SLOT REDUCED_WAIT", "slots", "RANKS=2", "CALLS=2", "CHUNKS=5", reduced=True),
    *controls("CALL_STEP PRESENT_STAMP", "slots", "RANKS=2", "CALLS=5", "CHUNKS=1", reduced=True),
    small("wake", "RANKS=2", "ROUNDS=2", "DEATHS=0"),
    small("wake", "RANKS=2", "ROUNDS=2", "DEATHS=2"),
    small("wake", "RANKS=2", "ROUNDS=2", "DEATHS=0", "PUBLISHERS_FENCE"),
    *controls("MEMBARRIER LOOK RING RINGS_FIRST WAKE", "wake", "RANKS=2", "ROUNDS=2", "DEATHS=0"),
    *controls("PUBLISHER_FENCE", "wake", "RANKS=2", "ROUNDS=2", "DEATHS=0", "PUBLISHERS_FENCE"),
    small("channels", "MESSAGES=2", reduced=True),
    *controls("ASKING RELEASE CREDIT CHUNK_CREDIT NUMBER_FIRST PLACE_FIRST LAST_CHUNK", "channels", "MESSAGES=2",
              reduced=True),
    small("abort", "RANKS=2", "CALLS=2"),
    small("abort", "RANKS=2", "CALLS=2", mode=CLAIM),
    *controls("SWAP FIELDS_FIRST LAST_LOOK", "abort", "RANKS=2", "CALLS=2"),
    *controls("FAILURE", "abort", "RANKS=2", "CALLS=1", "DEATHS=0", "STOPS=0", mode=CLAIM),
    *controls("CHECK", "abort", "RANKS=2", "CALLS=1", "DEATHS=1", "STOPS=0", mode=CLAIM),
    large("agreement", "RANKS=3", "DEATHS=2"),
    large("agreement", "RANKS=3", "DEATHS=0", "LATE=2"),
    large("agreement", "RANKS=3", "DEATHS=0", "STOPS=1"),
    small("agreement", "RANKS=3", "DEATHS=0", "LACKS=1"),
    *controls("DECISION_SWAP JOB_SWAP SECOND_PROPOSAL", "agreement", "RANKS=3", "DEATHS=0", "LATE=1"),
    *controls("OUTCOME_SWAP", "agreement", "RANKS=3", "DEATHS=0", "LACKS=2"),
    *controls("RECHECK", "agreement", "RANKS=3", "DEATHS=0", "LATE=2"),
    large("agreement", "RANKS=3", "DEATHS=0", "LATE=2", "LACKS=1", control="SECOND_LOOK"),
    *controls("ATTACHED GONE LOOK", "agreement", "RANKS=3", "DEATHS=1"),
    large("nodes_agreement", "ATTEMPTS=2", "CUTS=1"),
    small("nodes_agreement", "REST0=1", "DEATHS=1"),
    large("nodes_agreement", "REST0=2", "REST2=1", "CUTS=1"),
    small("nodes_agreement", "NODES=2", "REST0=1", "CUTS=1", "DEATHS=1"),
    *controls("END", "nodes_agreement", "ATTEMPTS=1"),
    *controls("QUORUM REFUSAL", "nodes_agreement", "CUTS=1"),
    *controls("TIE", "nodes_agreement", "NODES=2", "CUTS=1"),
    *controls("NODE", "nodes_agreement", "REST0=1"),
    *controls("ALL", "nodes_agreement", "ATTEMPTS=2"),
    large("groups", "DEATHS=1", "JOINERS_DEATHS=1"),
    small("groups", "DEATHS=0", "LATE=1", "LACKS=1"),
    small("groups", "DEATHS=0", "STOPS=1"),
    small("groups", "GROUPS=2", "JOINERS=0", "DEATHS=2"),
    small("groups", "GROUPS=2", "JOINERS=0", "DEATHS=0", "LATE=1", "LACKS=1"),
    *controls("MOVING EXCHANGE LACKS MESSAGE DROP AHEAD", "groups", "DEATHS=0", "LACKS=1"),
    *controls("ORDER ABORT SWAP SECOND_LOOK LAST_LOOK", "groups", "DEATHS=1"),
    *controls("AGREEMENT AHEAD", "groups", "GROUPS=2", "JOINERS=0", "DEATHS=0", "LACKS=1"),
    *controls("FAILURE DROP", "groups", "GROUPS=2", "JOINERS=0", "DEATHS=1"),
    small("table_versions"),
    *controls("RELEASE WRITER_FENCE LOOK READER_FENCE OTHER", "table_versions", "DEATHS=0"),
    large("table_writers", "WORKERS=3", "DEATHS=2"),
    large("table_writers", "WORKERS=2", "UPDATES=2", "DEATHS=1"),
    *controls("LOOK SECOND_TRY", "table_writers", "WORKERS=3", "DEATHS=0"),
    *controls("RECORD PLACE_LAST ONE_WORD TAIL_LAST SETTLING DEATH SWAP", "table_writers", "WORKERS=3", "DEATHS=1"),
    *controls("ALL_PENDING", "table_writers", "WORKERS=2", "UPDATES=2", "DEATHS=1"),
    large("table_writers", "WORKERS=3", "DEATHS=2", control="CLEAR"),
    large("table_clock", "STALENESS=1"),
    large("table_clock", "STALENESS=2"),
    *controls("DRAIN DRAIN_LAST PUSH_FIRST BOUND", "table_clock", "STALENESS=1", "DEATHS=0", "LEAVES=0"),
    *controls("GONE LEAVING FINISHING TAKEOVER", "table_clock", "STALENESS=1"),
    small("table_fold", "CLOCKS=2", "PIECES=1"),
    small("table_fold", "CLOCKS=1", "PIECES=2"),
    large("table_fold", "WORKERS=3", "CLOCKS=1", "PIECES=1"),
    *controls("NOTE NOTE_FIRST ENDED", "table_fold", "CLOCKS=2", "PIECES=2"),
    *controls("DONE SECOND_LOOK SWAP CLOSING DEATH WAIT CLEARING", "table_fold", "CLOCKS=2", "PIECES=2", "DEATHS=0"),
    large("table_fold", "CLOCKS=2", "PIECES=2", control="ONE_WORD"),
]

MORE = [
    large("lines", "RANKS=2", "CALLS=5", "LINES=3", "DEATHS=2"),
    large("lines", "RANKS=3", "CALLS=4", "LINES=1", "DEATHS=1"),
    large("lines", "RANKS=3", "CALLS=5", "LINES=1", "DEATHS=0", reduced=True),
    large("lines", "RANKS=2", "CALLS=6", "LINES=1", "DEATHS=0", "PASSES=2"),
    large("slots", "RANKS=2", "CALLS=6", "CHUNKS=1", reduced=True),
    large("slots", "RANKS=2", "CALLS=3", "CHUNKS=3", reduced=True),
    large("slots", "RANKS=3", "CALLS=2", "CHUNKS=2", reduced=True),
    large("channels", "MESSAGES=2", "CELLS=2", reduced=True),
    large("wake", "RANKS=3", "ROUNDS=1", "DEATHS=0", reduced=True),
    large("wake", "RANKS=3", "ROUNDS=1", "DEATHS=0", "PUBLISHERS_FENCE", reduced=True),
    large("agreement", "RANKS=2", "DEATHS=1", "STOPS=1", "LATE=1", "LACKS=1"),
    large("agreement", "RANKS=3", "DEATHS=1", "LATE=1"),
    large("agreement", "RANKS=3", "DEATHS=1", "STOPS=1"),
    large("agreement", "RANKS=3", "DEATHS=1", "LACKS=1"),
    large("agreement", "RANKS=3", "DEATHS=0", "LATE=1", "LACKS=1"),
    large("agreement", "RANKS=4", "DEATHS=1", mode=COMPACT),
    large("groups", "DEATHS=2"),
    large("groups", "DEATHS=1", "LATE=1"),
    large("groups", "DEATHS=1", "LACKS=1"),
    large("groups", "DEATHS=0", "JOINERS_DEATHS=1", "LATE=1"),
    large("groups", "MEMBERS=2", "JOINERS=2", "DEATHS=1", "JOINERS_DEATHS=1"),
    large("groups", "GROUPS=2", "MEMBERS=4", "JOINERS=0", "DEATHS=1"),
    large("table_writers", "WORKERS=2", "UPDATES=2", "PIECES=2", "DEATHS=2"),
    large("table_writers", "WORKERS=2", "UPDATES=3", "ENTRIES=2", "DEATHS=1"),
    large("table_clock", "STALENESS=1", "CLOCKS=4", "LEAVES=0"),
    large("table_fold", "CLOCKS=2", "PIECES=2"),
    large("table_fold", "WORKERS=3", "CLOCKS=1", "PIECES=2"),
]


@dataclasses.dataclass
class Outcome:
    check: Check
    states: int
    depth: int
    fault: str  # "": none found
    trouble: str  # why the search says nothing; "": it does
    seconds: float

    @property
    def passed(self):
        return not self.trouble and bool(self.fault) == bool(self.check.control)


def run(command, folder):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def find(pattern, text, otherwise):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else otherwise


def compiler(check):
    """For small searches tcc: with any other they take less time than their compilation."""
    if not check.large and shutil.which("tcc"):
        return ["tcc"]
    return [os.environ.get("CC", "cc"), "-O1" if check.large else "-O0"]


def search(check, folder):
    """Runs spin, the compiler and pan; returns pan's output, or why there is none."""
    defines = [f"-D{bound}" for bound in check.bounds]
    if check.control:
        defines.append(f"-DWITHOUT_{check.control}")
    made = run(["spin", "-a", *defines, MODELS / f"{check.model}.pml"], folder)
    if made.returncode or not (pathlib.Path(folder) / "pan.c").exists():
        return "", "spin: " + made.stdout[-500:]
    flags = [*check.mode, f"-DMEMLIM={MEMORY_MIB}"]
    if not check.reduced:
        flags.append("-DNOREDUCE")
    made = run([*compiler(check), "-w", *flags, "-o", "pan", "pan.c"], folder)
    if made.returncode:
        return "", "compiler: " + made.stdout[-500:]
    output = run(["./pan", f"-m{DEPTH}", f"-w{24 if check.large else 21}", *LIVE[check.mode]], folder).stdout
    if not re.search(r"errors: \d+", output):
        return output, "pan: " + output[-500:]
    if re.search(r"max search depth too small|out of memory|reached -DMEMLIM|search not completed", output, re.I):
        if not check.control:
            return output, "pan: " + find(r"^(.*(?:depth too small|memory|MEMLIM|not completed).*)$", output, "?")
    return output, ""


def judge(check):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"kolo-{check.model}-") as folder:
        output, trouble = search(check, folder)
    faults = int(find(r"errors: (\d+)", output, "0"))
    return Outcome(check, int(find(r"^\s*(\d+) states, stored", output, "0")),
                   int(find(r"depth reached (\d+)", output, "0")),
                   find(r"^pan:\d+: (.*?)(?: \(at depth.*)?$", output, "a fault") if faults else "", trouble,
                   time.monotonic() - start)


def verdict(outcome):
    if outcome.trouble:
        return "no result"
    if outcome.check.control:
        return "refuted" if outcome.fault else "NOT REFUTED"
    return "FAULT" if outcome.fault else "holds"


def show(outcome):
    check = outcome.check
    kind = "survival" if check.mode == CLAIM else "safety"
    name = f"without {check.control.lower()}" if check.control else ""
    print(f"{check.model:<6} {kind:<8} {check.label:<48} {name:<24} {outcome.states:>9} {outcome.depth:>6} "
          f"{outcome.seconds:>6.1f}  {verdict(outcome)}", flush=True)
    if not outcome.passed:
        print(f"    {outcome.trouble or outcome.fault or 'the model shows nothing that needs what was removed'}")


def searched():
    """The lines of what was searched, by digest."""
    return {line.split()[0]: line for line in SEARCHED.read_text(encoding="ascii").splitlines()}


def write_searched(outcomes):
    """All large searches of DEFAULT that are known or among these, which passed."""
    lines = searched()
    for outcome in outcomes:
        check = outcome.check
        control = f", without {check.control.lower()}" if check.control else ""
        lines[check.digest] = f"{check.digest} {outcome.states:8} {check.model}: {check.label}{control}"
    wanted = [check.digest for check in DEFAULT if check.large]
    SEARCHED.write_text("".join(lines[digest] + "\n" for digest in wanted if digest in lines), encoding="ascii")


def choose(options):
    """The searches to make, and the large ones of a model that has changed, which this run does not make."""
    checks = [check for check in DEFAULT + (MORE if options.all else []) if options.model in (None, check.model)]
    if options.all or options.whole:
        return checks, []
    known = searched()
    unknown = [check for check in checks if check.large and check.digest not in known]
    if options.write:
        return unknown, []
    chosen = [check for check in checks if not check.large]
    print(f"{len(checks) - len(chosen) - len(unknown)} large searches were made of the same text, see {SEARCHED.name}")
    return chosen, unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="example: models_test.py --model slots")
    parser.add_argument("--all", action="store_true", help="larger bounds too: some minutes")
    parser.add_argument("--whole", action="store_true", help="the large searches, too, whether they were made or not")
    parser.add_argument("--write", action="store_true", help="make large searches of what has changed, and note them")
    parser.add_argument("--model", choices=sorted({check.model for check in DEFAULT}), help="only this one")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="searches at once")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("skipped: spin is not installed (apt-get install spin; tools/check does)")
        return 77
    checks, unknown = choose(options)
    print(f"{'model':<6} {'property':<8} {'bounds':<48} {'control':<24} {'states':>9} {'depth':>6} {'s':>6}  result")
    passed = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(judge, checks):
            show(outcome)
            if outcome.passed:
                passed.append(outcome)
    if options.write:
        write_searched(passed)
    print(f"{len(checks)} searches, {len(checks) - len(passed)} failed")
    for check in unknown:
        print(f"{check.model}, {check.label}: changed since it was searched; tests/models/models_test.py "
              f"--model {check.model} --write searches it")
    return 1 if unknown or len(passed) < len(checks) else 0


if __name__ == "__main__":
    sys.exit(main())
