"""How long each library takes from exec of its launcher to the first result of an all-reduce of 8 bytes, on rank 0, and how
much memory rank 0 has then: its own, and its part of what processes share (Pss)."""

import contextlib
import json
import statistics
import time

from compare import processes, tables


def once(plan, launch):
    """(seconds, KiB), or what went wrong in words."""
    with processes.own_folder() as folder:
        gate, out = folder / "gate", folder / "out"
        gate.touch(mode=0o600)
        begin_s = time.monotonic()
        _code, error = launch.run(["--gate", str(gate), "--out", str(out), "--sizes", "8", "--first"], plan.timeout_s)
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            told = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])
            return error or (told["first_s"] - begin_s, told["memory_kib"])
        return error or "has told nothing"


def measure(plan, peers, ranks, progress):
    """What the results have of so many ranks: the libraries take turns. The first round, which reads files, does not count."""
    taken, failed = {peer.key: [] for peer in peers}, {}
    for number in range(plan.rounds + 1):
        for peer in peers:
            if peer.key not in failed:
                progress(f"start, {ranks} ranks, {peer.title}")
                result = once(plan, peer.launches(ranks, len(plan.cpus))[0])
                if isinstance(result, str):
                    failed[peer.key] = result
                elif number > 0:
                    taken[peer.key].append(result)
    return {"ranks": ranks, "failed": failed,
            "rows": [{"key": key, "ms": statistics.median(each[0] for each in found) * 1e3,
                      "ms_min": min(found)[0] * 1e3, "memory_kib": statistics.median(each[1] for each in found)}
                     for key, found in taken.items() if found]}


def table(results):
    """As lines; none where nothing of it was measured."""
    header = ["ranks", "library", "ms", "least", "MiB"]
    lines = [[str(start["ranks"]), results["libraries"][row["key"]]["title"], f"{row['ms']:.1f}", f"{row['ms_min']:.1f}",
              f"{row['memory_kib'] / 1024:.1f}"] for start in results["starts"] for row in start["rows"]]
    return "\n".join(["from exec of the launcher to the first result, median; memory of rank 0",
                      *tables.plain(header, lines),
                      *(f"{results['libraries'][key]['title']}, {start['ranks']} ranks: {text}"
                        for start in results["starts"] for key, text in start["failed"].items()),
                      *tables.absent_lines(results)])
