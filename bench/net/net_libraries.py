"""kolo, Open MPI over TCP and Gloo on the same cables, in turn, by the same driver and rounds as bench/compare."""

import lab
from compare import rounds
from compare.summary import best_by_peer, ratio_text, size_text, troubles, us_text, wrong_results
from net import net_launches, net_measuring


NAME, TITLE, KEYS = "libraries", "kolo and other libraries", 1


def series_of(options, present, machines=None):
    place = machines, options.nodes, options.ranks
    return [rounds.Series(peer, launch) for peer in present
            for launch in net_launches.launches(peer, place, options.threads)]


def steps(options, present):
    return options.rounds * len(series_of(options, present))


def measure(options, _built, present, progress):
    """For each configuration its rows of all rounds, as of a case of bench/compare."""
    case = rounds.Case(options.nodes * options.ranks, "f32", "warm", False)
    with net_measuring.make_lab(options.nodes, options.rate) as machines:
        plan = rounds.Plan(options.sizes, options.rounds, options.budget_ms, options.timeout, folder=machines.folder)
        all_series = series_of(options, present, machines)
        rounds.measure_planned(plan, case, all_series, progress)
        return {"nodes": options.nodes, "ranks": options.ranks, "rate_mbit": options.rate,
                "burst_bytes": lab.burst_bytes(options.rate), "congestion": machines.congestion,
                "sizes": options.sizes, "series": [series.as_json() for series in all_series],
                "names": {series.peer.key: series.library for series in all_series if series.library}}


def times(part):
    """{key: {bytes: Time}}, of each library's fastest configuration."""
    return {key: sizes for key, sizes in best_by_peer(part, None).items() if sizes}


def cable_us(part, size):
    """The time below which no all-reduce can fall that moves no more than it must: 2(M-1)K/M over each cable."""
    nodes = part["nodes"]
    return 2 * (nodes - 1) / nodes * size / (part["rate_mbit"] * 1e6 / 8) * 1e6


def cells(part, titles):
    best = times(part)
    others = [key for key in titles if key != "kolo"]
    header = ["size", "kolo", *(titles[key] for key in others), "best / kolo", "kolo's share of the cable"]
    lines = []
    for size in sorted({size for sizes in best.values() for size in sizes}):
        us = {key: sizes[size].us for key, sizes in best.items() if size in sizes}
        ours = us.pop("kolo", None)
        fastest = min(us.values(), default=None)
        lines.append([size_text(size), us_text(ours), *(us_text(us.get(key)) for key in others),
                      ratio_text(fastest / ours if fastest and ours else None),
                      f"{cable_us(part, size) / ours * 100:.0f}%" if ours else "-"])
    return header, lines


def notes(part, titles):
    return [f"{part['nodes']} nodes, ranks on each: {part['ranks']}, cables of {part['rate_mbit']} Mbit/s in each "
            f"direction, congestion control: {part['congestion']}; microseconds a call. A cable lets "
            f"{part['burst_bytes'] / 1000:.0f} kB pass at once before its rate counts.",
            *wrong_results(part, titles), *troubles(part, titles)]
