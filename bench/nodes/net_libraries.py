"""kolo, Open MPI over TCP and Gloo on the same cables, in turn, by the same driver as bench/compare."""

import statistics

import lab
from comparison.summary import ratio_text, size_text, us_text
from nodes import net_measuring

FAILURES_MAX = 2


def measure(options, configurations, progress):
    """For each configuration its rows of all rounds, what failed, and the library's own name."""
    found = [{"key": each.key, "title": each.title, "configuration": each.configuration, "library": "", "rows": [],
              "failures": []} for each in configurations]
    driver_options = ["--sizes", ",".join(map(str, options.sizes)), "--budget-ms", str(options.budget_ms)]
    with net_measuring.make_lab(options.nodes, options.rate) as machines:
        for number in range(options.rounds):
            first = number * len(found) // options.rounds
            order = list(zip(found, configurations))
            for entry, configuration in order[first:] + order[:first]:
                progress.show(f"round {number + 1}: {entry['title']}, {entry['configuration']}")
                if len(entry["failures"]) < FAILURES_MAX:
                    library, rows, error = net_measuring.run_driver(machines, options.nodes, options.ranks,
                                                                    configuration, driver_options, options.timeout)
                    entry["library"] = library or entry["library"]
                    entry["rows"] += rows
                    entry["failures"] += [error] if error else []
                progress.step()
        return {"nodes": options.nodes, "ranks": options.ranks, "rate_mbit": options.rate,
                "burst_bytes": lab.burst_bytes(options.rate), "congestion": machines.congestion, "series": found}


def steps(options, configurations):
    return options.rounds * len(configurations)


def times(part):
    """{key: {bytes: (median in us, configuration)}}, of each library's fastest configuration."""
    best = {}
    for series in part["series"]:
        by_size = {}
        for row in series["rows"]:
            by_size.setdefault(row["bytes"], []).append(row["median_us"])
        for size, values in by_size.items():
            median = statistics.median(values)
            own = best.setdefault(series["key"], {})
            if size not in own or median < own[size][0]:
                own[size] = (median, series["configuration"])
    return best


def cable_us(part, size):
    """The time below which no all-reduce can fall that moves no more than it must: 2(M-1)K/M over each cable."""
    nodes = part["nodes"]
    return 2 * (nodes - 1) / nodes * size / (part["rate_mbit"] * 1e6 / 8) * 1e6


def titles(part):
    return {series["key"]: series["title"] for series in part["series"]}


def cells(part):
    best = times(part)
    others = [key for key in titles(part) if key != "kolo"]
    header = ["size", "kolo", *(titles(part)[key] for key in others), "best / kolo", "kolo's share of the cable"]
    lines = []
    for size in sorted({size for sizes in best.values() for size in sizes}):
        ours = best.get("kolo", {}).get(size, (None,))[0]
        theirs = [best.get(key, {}).get(size, (None, ""))[0] for key in others]
        fastest = min((us for us in theirs if us is not None), default=None)
        lines.append([size_text(size), us_text(ours), *map(us_text, theirs),
                      ratio_text(fastest / ours if fastest and ours else None),
                      f"{cable_us(part, size) / ours * 100:.0f}%" if ours else "-"])
    return header, lines


def notes(part):
    found = [f"{part['nodes']} nodes, ranks on each: {part['ranks']}, cables of {part['rate_mbit']} Mbit/s in each "
             f"direction, congestion control: {part['congestion']}; microseconds a call. A cable lets "
             f"{part.get('burst_bytes', lab.BURST_BYTES) / 1000:.0f} kB pass at once before its rate counts."]
    for series in part["series"]:
        wrong = sorted({row["bytes"] for row in series["rows"] if row.get("wrong")})
        if wrong:
            found.append(f"{series['title']}, {series['configuration']}: wrong results at "
                         + ", ".join(map(size_text, wrong)))
        found += [f"{series['title']}, {series['configuration']}: {error}"
                  for error in dict.fromkeys(series["failures"])]
    return found
