"""The hardware's bound of a case, from `kolo-perf limits`, and the state that the machine was in meanwhile."""

import json
import os
import pathlib
import subprocess
import tempfile

from compare import processes

TIMEOUT_S = 300


def limits(plan, case, kolo_perf):
    """({bytes: us} below which the hardware does not allow this case's calls, the bytes as text as in JSON; None, or
    why there is none). It is known for all-reduces."""
    if case.collective != "allreduce":
        return {}, None
    max_bytes = 1 << (max(plan.sizes) - 1).bit_length()
    with tempfile.TemporaryDirectory(prefix="kolo-compare-") as folder:
        out = pathlib.Path(folder) / "limits"
        command = [kolo_perf, "limits", "--ranks", str(case.ranks), "--buffers", case.buffers, "--min", "4", "--max",
                   str(max_bytes), "--factor", "2", "--json", str(out)]
        if case.in_place:
            command.append("--in-place")
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
                           preexec_fn=lambda: os.sched_setaffinity(0, plan.cpus[:case.ranks]))
            rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        except subprocess.CalledProcessError as error:
            return {}, processes.quoted(error.stderr)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return {}, str(error)
    return {str(row["bytes"]): row["bound_us"] for row in rows if row.get("limit") == "bound"}, None


def measure(plan, case, kolo_perf, exchange_now):
    """One measurement, with the exchange before and after it, as a row of a driver has it."""
    before_ns = exchange_now()
    us, error = limits(plan, case, kolo_perf)
    return {"exchange_ns": before_ns, "exchange_after_ns": exchange_now(), "us": us, "error": error}


def in_state(bounds, name):
    """{bytes: us} of a state, each the lowest that was measured; empty where none was."""
    lowest = {}
    for bound in bounds:
        for size, us in bound["us"].items() if bound["state"] == name else ():
            lowest[size] = min(lowest.get(size, us), us)
    return lowest
