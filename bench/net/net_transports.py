"""io_uring beside poll: time, CPU and system calls of the same all-reduces, with and without a limit of the cables."""

import statistics

from compare.summary import size_text, us_text
from net import net_measuring

TRANSPORTS = ("uring", "poll")
TARGET_S = 1.5  # of the calls that are measured
CALLS_MAX = 3000
ROUNDS = 3
PAIR_BYTES_MIN = 4096  # below, shares of a GB say nothing


def calls_for(perf, variables, nbytes):
    row, _ = perf.run(variables, nbytes, 3)
    call_s = row["time_us"]["median"] * 1e-6 * row["calls_per_iter"]
    return max(3, min(CALLS_MAX, int(TARGET_S / max(call_s, 1e-6))))


def median_cost(costs):
    """Of several Costs, each figure's median."""
    def median(values):
        if isinstance(values[0], list):
            return list(map(median, zip(*values)))
        return None if values[0] is None else statistics.median(values)
    return {name: median(values) for name, values in zip(net_measuring.Cost._fields, zip(*costs))}


NAME, TITLE, KEYS = "transports", "io_uring and poll", 2


def repeated(options):
    return 1 if options.quick else ROUNDS


def steps(options, _present):
    return 2 * len(options.transport_sizes) * len(TRANSPORTS) * repeated(options)


def measure(options, built, _present, progress):
    """A row for each rate, size and transport."""
    variables = {name: {"KOLO_NET": f"{name},threads:{options.threads}"} for name in TRANSPORTS}
    rows = []
    for rate_mbit in (options.rate, None):
        with net_measuring.make_lab(options.nodes, rate_mbit) as machines:
            perf = net_measuring.Perf(machines, options.nodes, options.ranks, built, options.timeout, counts_calls=True)
            for nbytes in options.transport_sizes:
                calls = calls_for(perf, variables["poll"], nbytes)
                costs = {name: [] for name in TRANSPORTS}
                for _ in range(repeated(options)):
                    for name in TRANSPORTS:
                        progress.show(f"{name}, {size_text(nbytes)}, {rate_text(rate_mbit)}")
                        costs[name].append(perf.cost(variables[name], nbytes, calls))
                        progress.step()
                rows += [{"rate_mbit": rate_mbit, "bytes": nbytes, "transport": name, "calls": calls,
                          **median_cost(costs[name])} for name in TRANSPORTS]
    return rows


def rate_text(rate_mbit):
    return "no limit" if rate_mbit is None else f"{rate_mbit} Mbit/s"


def cells(rows, _titles):
    """A line for each cable and size, with both transports' figures in a cell."""
    header = ["cable", "size", "us a call", "CPU s / GB sent", "system calls a call", "CPUs busy"]
    found = {}
    for row in rows:
        sent = sum(row["sent"])
        large = row["bytes"] >= PAIR_BYTES_MIN and sent > 0
        calls = row["system_calls"]
        found.setdefault((rate_text(row["rate_mbit"]), size_text(row["bytes"])), []).append(
            [us_text(row["seconds"] * 1e6), f"{row['cpu_s'] / sent * 1e9:.2f}" if large else "-",
             "-" if calls is None else f"{calls:.1f}", f"{row['busy'] * 100:.0f}%"])
    return header, [[*key, *(", ".join(pair) for pair in zip(*pairs))] for key, pairs in found.items()]


def notes(_rows, _titles):
    return [f"Of each pair the first is {TRANSPORTS[0]}, the second {TRANSPORTS[1]}.",
            "CPU seconds are of all processes of the job, for each GB that its nodes sent; the kernel's work for the cables "
            "and the switch is in them only where it is done in the sender's time.",
            "Costs are those of more calls without those of few, so that start and end are not in them."]
