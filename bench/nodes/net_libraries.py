"""kolo, Open MPI over TCP and Gloo on the same cables, in turn, by the same driver as bench/compare."""

import lab
from comparison import rounds
from comparison.summary import best_by_peer, ratio_text, size_text, us_text, wrong_at
from nodes import net_measuring


def measure(options, configurations, progress):
    """For each configuration its rows of all rounds, what failed, and the library's own name."""
    found = [{"key": each.key, "title": each.title, "configuration": each.configuration, "library": "", "rows": [],
              "failures": []} for each in configurations]
    driver_options = ["--sizes", ",".join(map(str, options.sizes)), "--budget-ms", str(options.budget_ms)]
    with net_measuring.make_lab(options.nodes, options.rate) as machines:
        for number in range(options.rounds):
            for entry, configuration in rounds.rotated(list(zip(found, configurations)), number, options.rounds):
                progress.show(f"round {number + 1}: {entry['title']}, {entry['configuration']}")
                if len(entry["failures"]) < rounds.FAILURES_MAX:
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
    """{key: {bytes: Time}}, of each library's fastest configuration."""
    series = [{"peer": each["key"], "configuration": each["configuration"], "rounds": [each["rows"]]}
              for each in part["series"]]
    return {key: sizes for key, sizes in best_by_peer({"series": series}, None).items() if sizes}


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
        us = {key: sizes[size].us for key, sizes in best.items() if size in sizes}
        ours = us.pop("kolo", None)
        fastest = min(us.values(), default=None)
        lines.append([size_text(size), us_text(ours), *(us_text(us.get(key)) for key in others),
                      ratio_text(fastest / ours if fastest and ours else None),
                      f"{cable_us(part, size) / ours * 100:.0f}%" if ours else "-"])
    return header, lines


def notes(part):
    found = [f"{part['nodes']} nodes, ranks on each: {part['ranks']}, cables of {part['rate_mbit']} Mbit/s in each "
             f"direction, congestion control: {part['congestion']}; microseconds a call. A cable lets "
             f"{part.get('burst_bytes', lab.BURST_BYTES) / 1000:.0f} kB pass at once before its rate counts."]
    for series in part["series"]:
        wrong = wrong_at(series["rows"])
        if wrong:
            found.append(f"{series['title']}, {series['configuration']}: wrong results at {wrong}")
        found += [f"{series['title']}, {series['configuration']}: {error}"
                  for error in dict.fromkeys(series["failures"])]
    return found
