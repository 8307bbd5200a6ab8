"""The hardware's bounds of a case, from `kolo-perf limits`, and the state that the machine was in meanwhile."""

import json
import os
import subprocess

from compare import processes

TIMEOUT_S = 300
QUICK_BUDGET_MS = 10  # who gives the calls of a size less time than this has no use for exact bounds

_taken = {}  # {what of cases they are for: [(exchanges, rows, error)]}: all collectives are bounded at once


def kind(plan, case):
    return case.ranks, case.buffers, case.in_place, max(plan.sizes)


def limits(plan, case, kolo_perf):
    """(The bounds' rows of all collectives; None, or why there is none.)"""
    max_bytes = 1 << (max(plan.sizes) - 1).bit_length()
    with processes.own_folder() as folder:
        out = folder / "limits"
        command = [kolo_perf, "limits", "all", "--ranks", str(case.ranks), "--buffers", case.buffers, "--min", "4",
                   "--max", str(max_bytes), "--factor", "2", "--json", str(out)]
        if case.in_place:
            command.append("--in-place")
        if plan.budget_ms < QUICK_BUDGET_MS:
            command.append("--quick")
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
                           preexec_fn=lambda: os.sched_setaffinity(0, plan.cpus[:case.ranks]))
            rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        except subprocess.CalledProcessError as error:
            return [], processes.quoted(error.stderr)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return [], str(error)
    return [row for row in rows if row.get("limit") == "bound"], None


def of_case(case, taken):
    """A measurement, as the results have it: the exchange before and after it, as a row of a driver has it; {bytes: us}
    below which the hardware does not allow this case's calls, and of what they take in sum; the bytes as text as in
    JSON."""
    exchanges, rows, error = taken
    rows = [row for row in rows if row["of"] == case.collective]
    return {"exchange_ns": exchanges[0], "exchange_after_ns": exchanges[1], "error": error,
            "us": {str(row["bytes"]): row["bound_us"] for row in rows},
            "sum_us": {str(row["bytes"]): row["bound_sum_us"] for row in rows}}


def measure(plan, case, kolo_perf, exchange_now):
    before_ns = exchange_now()
    rows, error = limits(plan, case, kolo_perf)
    taken = (before_ns, exchange_now()), rows, error
    _taken.setdefault(kind(plan, case), []).append(taken)
    return of_case(case, taken)


def earlier(plan, case):
    """Those that were measured for other collectives."""
    return [of_case(case, taken) for taken in _taken.get(kind(plan, case), ())]


def in_state(bounds, name, what="us"):
    """{bytes: us} of a state, each the lowest that was measured; empty where none was."""
    lowest = {}
    for bound in bounds:
        for size, us in bound.get(what, {}).items() if bound["state"] == name else ():
            lowest[size] = min(lowest.get(size, us), us)
    return lowest
