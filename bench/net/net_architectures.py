"""Parameter servers, mesh and ring: what each has to move over the busiest cable, by formula and as counted, and how
long that takes, for more and more workers, one rank on a node.

N workers sum K bytes over cables of B bytes a second in each direction. Ring and mesh move 2(N-1)K/N into each worker
and as much out of it. With S servers, which are the first S of the workers, each owns K/S: a server gets that from N-1
workers, and K/S from each of the S-1 others as the results of theirs, and sends as much. Pushing and pulling overlap,
chunk by chunk, as cables go both ways at once; where a program pulls only after all has been pushed, it takes twice as
long."""

import statistics

from compare.summary import size_text
from net import net_measuring

# What the example is: ten workers with 300M parameters on links of 1 GB/s.
EXAMPLE_BYTES, EXAMPLE_RATE, EXAMPLE_WORKERS = 1.2e9, 1e9, 10
SERVERS = {"1 server": 1, "3 servers": 3}
VARIABLES = {"1 server": {"KOLO_NET_ALGO": "central", "KOLO_NET": "streams:1,servers:1"},
             "3 servers": {"KOLO_NET_ALGO": "central", "KOLO_NET": "streams:1,servers:3"},
             "mesh": {"KOLO_NET_ALGO": "mesh"}, "ring": {"KOLO_NET_ALGO": "ring"}}
# One connection between two nodes: over several, chunks would share the cable with later ones, and a server, which goes
# on only with all of a chunk, would wait for both.
STREAMS = {"KOLO_NET": "streams:1"}
PAYLOAD_SHARE = 1448 / 1514  # of a cable's rate: what a full Ethernet frame carries for TCP
BUSY_MAX = 0.9  # beyond, the CPUs may be what limits


def busiest(architecture, workers):
    """Bytes in, and as many out, of the busiest cable, as a multiple of K."""
    servers = min(SERVERS.get(architecture, workers), workers)
    return ((workers - 1) + (servers - 1)) / servers


def predicted_s(architecture, workers, nbytes, rate):
    return busiest(architecture, workers) * nbytes / rate


def payload_rate(rate_mbit):
    """Of a cable, in bytes a second."""
    return rate_mbit * 1e6 / 8 * PAYLOAD_SHARE


def possible(workers):
    """Three servers are two where there are two workers."""
    return [name for name in VARIABLES if SERVERS.get(name, 0) <= workers]


NAME, TITLE = "architectures", "Parameter servers, mesh and ring"
KEYS = 1  # columns that tell rows apart


def steps(options, _present):
    return len(wanted(options))


def wanted(options):
    return [(workers, name) for workers in options.workers for name in possible(workers)]


def measure(options, built, _present, progress):
    rows = []
    rate = payload_rate(options.worker_rate)
    with net_measuring.make_lab(max(options.workers), options.worker_rate) as machines:
        for workers, name in wanted(options):
            progress.show(f"{workers} workers, {name}")
            perf = net_measuring.Perf(machines, workers, 1, built, options.timeout)
            cost = perf.cost({**STREAMS, **VARIABLES[name]}, options.worker_bytes, options.calls)
            rows.append({"workers": workers, "architecture": name, "bytes": options.worker_bytes,
                         "rate_mbit": options.worker_rate, "factor": busiest(name, workers),
                         "sent": cost.sent, "received": cost.received, "seconds": cost.seconds,
                         "predicted_s": predicted_s(name, workers, options.worker_bytes, rate), "busy": cost.busy})
            progress.step()
    return rows


def scaled_s(row):
    """The example's time, from what was measured: times go as K/B."""
    return row["seconds"] * (EXAMPLE_BYTES / EXAMPLE_RATE) / (row["bytes"] / payload_rate(row["rate_mbit"]))


def cells(rows, _titles):
    """A line for each number of workers."""
    names = [name for name in VARIABLES if any(row["architecture"] == name for row in rows)]
    found = {}
    for row in rows:
        counted = max(*row["received"], *row["sent"]) / row["bytes"]
        cell = f"{row['seconds']:.3f} ({row['seconds'] / row['predicted_s']:.3f}, {counted:.3f})"
        found.setdefault(row["workers"], {})[row["architecture"]] = cell + (" !" if row["busy"] > BUSY_MAX else "")
    return ["workers", *names], [[str(workers), *(by_name.get(name, "-") for name in names)]
                                 for workers, by_name in found.items()]


def notes(rows, _titles):
    """What the figures are, what the example comes to, and what to beware of."""
    if not rows:
        return []
    found = [f"Seconds (measured / predicted; bytes on the busiest cable, x K, as counted). K is "
             f"{size_text(rows[0]['bytes'])}; predicted are the formula's bytes at what TCP with full frames leaves of "
             f"{rows[0]['rate_mbit']} Mbit/s, {PAYLOAD_SHARE * 100:.1f}%. Counted bytes are those of frames as large as "
             "the kernel makes them."]
    scaled = {row["architecture"]: scaled_s(row) for row in rows if row["workers"] == EXAMPLE_WORKERS}
    if scaled:
        each = [f"{name} {predicted_s(name, EXAMPLE_WORKERS, EXAMPLE_BYTES, EXAMPLE_RATE):.2f} ({seconds:.2f})"
                for name, seconds in scaled.items()]
        found.append(f"{EXAMPLE_WORKERS} workers with 1.2 GB on 1 GB/s, seconds predicted (measured and scaled): "
                     f"{', '.join(each)}. A program that pulls only when all has been pushed takes twice a server's time.")
    by_name = {name: [row["seconds"] / row["predicted_s"] for row in rows if row["architecture"] == name]
               for name in VARIABLES}
    found.append("measured / predicted: " + "; ".join(
        f"{name} {min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}"
        for name, ratios in by_name.items() if ratios))
    found.append(f"The CPUs were busy for {max(row['busy'] for row in rows) * 100:.0f}% at most.")
    if any(row["busy"] > BUSY_MAX for row in rows):
        found.append("! the CPUs were busy: they may have been the limit, not the cables; use a lower rate")
    return found
