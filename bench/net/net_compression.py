"""What compression of buckets saves between nodes: bytes on the wire and the time of a step, beside none, over cables
with a limit and without one."""

import json

from compare.bench_command import Cut
from compare.summary import size_text
from net import net_measuring
from net.net_launches import by_kolorun, wait
from net.net_transports import rate_text

NAME, TITLE, KEYS = "compression", "Compression of buckets", 2
SIZES, QUICK_SIZES = (1 << 20, 16 << 20, 64 << 20), (4 << 20,)
TENSORS = 16


def sizes(options):
    return QUICK_SIZES if options.quick else SIZES


def steps(options, _present):
    return 2 * len(sizes(options))


def run(machines, options, built, nbytes):
    """A row for each compression."""
    folder = machines.folder
    program = [built.kolo_program("kolo-perf-compression"), "--bytes", nbytes, "--tensors", TENSORS, "--steps",
               3 if options.quick else 9, "--json", folder / "compression"]
    _, error = wait(by_kolorun(machines, options.nodes, options.ranks, built.kolo_program("kolorun"), program, {}),
                    options.timeout)
    if error:
        raise Cut(f"kolo failed: {error}")
    return [json.loads(line) for line in (folder / "compression").read_text(encoding="utf-8").splitlines()]


def measure(options, built, _present, progress):
    rows = []
    for rate_mbit in (options.rate, None):
        with net_measuring.make_lab(options.nodes, rate_mbit) as machines:
            for nbytes in sizes(options):
                progress.show(f"{size_text(nbytes)}, {rate_text(rate_mbit)}")
                rows += [{"rate_mbit": rate_mbit, **row} for row in run(machines, options, built, nbytes)]
                progress.step()
    return rows


def cells(rows, _titles):
    header = ["cable", "size", "compression", "ms a step", "times as fast", "a node sends", "share of none"]
    lines, none = [], None
    for row in rows:
        none = row if row["compression"] == "none" else none
        lines.append([rate_text(row["rate_mbit"]), size_text(row["bytes"]), row["compression"],
                      f"{row['step_ms']:.2f}", f"{none['step_ms'] / row['step_ms']:.2f}",
                      f"{row['net_sent_bytes'] / 1e6:.3f} MB", f"{row['net_sent_bytes'] / none['net_sent_bytes']:.3f}"])
    return header, lines


def notes(rows, _titles):
    row = rows[0]
    return [f"{row['ranks']} ranks on {row['nodes']} nodes; {row['tensors']} tensors of f32, all ready at once; topk sends "
            f"{row['share']:g} of each.",
            "The nodes share the machine's CPUs, which also compress: between machines that have their own, the times "
            "without a limit are shorter."]
