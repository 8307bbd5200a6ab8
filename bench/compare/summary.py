"""From the rows of all rounds to what the tables, the plots and the report show. Works on the JSON alone."""

import collections
import math
import statistics

from compare import bounds

OURS = "kolo"
PRELOADED = "+kolo"  # ends the keys of MPIs whose collectives are kolo's, which are no rivals
SLOW_CALL_US = 1e6  # as in driver.c
ROWS_MIN = 2  # fewer are marked
AHEAD, LEVEL = 1.25, 1.0  # best peer / kolo
FLOOR_FACTOR = 1.1  # kolo's time, at most, of the floor's
RIVAL_FACTOR = 1.5  # who took longer than that many times the fastest's time elsewhere is not the fastest here

Time = collections.namedtuple("Time", "us configuration rows")


def medians(series, state=None):
    """{bytes: Time} of one configuration, the median of its rows' medians; with no state, of all rows."""
    by_size = {}
    for rows in series["rounds"]:
        for row in rows:
            if state is None or state == row["state"]:
                by_size.setdefault(row["bytes"], []).append(row["median_us"])
    return {size: Time(statistics.median(values), series["configuration"], len(values))
            for size, values in by_size.items()}


def best_by_peer(case, state):
    """{peer: {bytes: Time}}, each peer in its best configuration for the size."""
    best = {}
    for series in case["series"]:
        sizes = best.setdefault(series["peer"], {})
        for size, time in medians(series, state).items():
            if size not in sizes or time.us < sizes[size].us:
                sizes[size] = time
    return best


def bound_at(bound_us, size):
    """The hardware's bound; between measured sizes on a straight line between their logarithms."""
    known = sorted((int(key), us) for key, us in bound_us.items() if us > 0)
    if str(size) in bound_us:
        return bound_us[str(size)] or None
    for (low, low_us), (high, high_us) in zip(known, known[1:]):
        if low <= size <= high:
            part = math.log(size / low) / math.log(high / low)
            return math.exp((1 - part) * math.log(low_us) + part * math.log(high_us))
    return None


def is_rival(peer):
    return peer != OURS and not peer.endswith(PRELOADED)


def unseen_rivals(best_of, state, size, fastest):
    """Keys of the peers that were measured in other states only and may well be faster than the fastest of this one."""
    def times(peer):
        return {name: best[peer][size].us for name, best in best_of.items() if size in best.get(peer, {})}

    found = []
    for peer in dict.fromkeys(peer for best in best_of.values() for peer in best if is_rival(peer)):
        own, rival = times(peer), times(fastest) if fastest else {}
        shared = own.keys() & rival.keys()
        is_slower = shared and all(own[name] > RIVAL_FACTOR * rival[name] for name in shared)
        if own and state not in own and not is_slower:
            found.append(peer)
    return found


def holds(ratio, us, bound_us, fastest_us):
    """What can be said for kolo. A floor that another library is below is none."""
    floor_us = min(bound_us, fastest_us or bound_us) if bound_us else None
    if ratio and ratio >= AHEAD:
        return f"{AHEAD}x"
    if us and floor_us and us <= FLOOR_FACTOR * floor_us:
        return "floor"
    return f"{LEVEL}x" if ratio and ratio >= LEVEL else "none" if ratio else None


def row_of(best_of, state, bound, sums, size):
    best = best_of[state]
    peers = {peer: sizes[size] for peer, sizes in best.items() if peer != OURS and size in sizes}
    ours = best.get(OURS, {}).get(size)
    fastest = min(filter(is_rival, peers), key=lambda peer: peers[peer].us, default=None)
    preloaded = [time.us for peer, time in peers.items() if not is_rival(peer)]
    unseen = ([] if ours else [OURS]) + unseen_rivals(best_of, state, size, fastest)
    bound_us, sum_us = bound_at(bound, size), bound_at(sums, size)
    ratio = peers[fastest].us / ours.us if fastest and not unseen else None
    return {"bytes": size, "kolo": ours, "peers": peers, "unseen": unseen,
            "ratio": ratio,
            "holds": holds(ratio, ours and ours.us, bound_us, fastest and peers[fastest].us),
            "preloaded": max(preloaded) / ours.us if preloaded and ours else None,
            "preloaded_ratio": peers[fastest].us / max(preloaded) if preloaded and fastest and not unseen else None,
            "bound_us": bound_us,
            "bound_percent": 100 * bound_us / ours.us if bound_us and ours else None,
            "sum_percent": 100 * sum_us / ours.us if sum_us and ours else None}


def wrong_results(case, titles):
    """Lines that name each configuration with wrong results."""
    lines = []
    for series in case["series"]:
        sizes = sorted({row["bytes"] for rows in series["rounds"] for row in rows if row.get("wrong")})
        if sizes:
            lines.append(f"{titles[series['peer']]}, {series['configuration']}: wrong results at "
                         f"{', '.join(map(size_text, sizes))}")
    return lines


def failures_of_ours(cases, starts=()):
    """Lines on kolo's own failures."""
    ours = [series for case in cases for series in case["series"] if series["peer"] == OURS]
    failed = [failure for series in ours for failure in series["failures"]]
    failed += [start["failed"][OURS] for start in starts if OURS in start["failed"]]
    wrong = any(row.get("wrong") for series in ours for rows in series["rounds"] for row in rows)
    return [*(f"kolo failed: {text}" for text in failed[:1]),
            *(["kolo's results were wrong; the tables name the sizes"] if wrong else [])]


def ended_early(case, series):
    """Why the largest sizes are missing where nothing failed, or None."""
    measured = medians(series)
    if series["failures"] or not measured or max(measured) >= case["sizes"][-1]:
        return None
    last = max(measured)
    if measured[last].us < SLOW_CALL_US:
        return f"gave nothing above {size_text(last)}"
    return f"left out above {size_text(last)}, where a call took {measured[last].us * 1e-6:.1f} s"


def troubles(case, titles):
    """Lines that name each configuration that failed, or was not measured to the end."""
    lines = []
    for series in case["series"]:
        found = list(dict.fromkeys(series["failures"]))
        if series["stopped"]:
            measured = sum(1 for rows in series["rounds"] if rows)
            found.append(f"{series['stopped']}" + (f"; no more after round {measured}" if measured else ""))
        found.append(ended_early(case, series))
        lines += [f"{titles[series['peer']]}, {series['configuration']}: {text}" for text in found if text]
    return lines


def summarize(case, state):
    """What was measured in one of the case's states, which is all that is compared with one another. There is a ratio
    only where kolo and whoever may be the fastest of the others were measured in it."""
    best_of = {each["name"]: best_by_peer(case, each["name"]) for each in case["states"]}
    best = best_of[state["name"]]
    bound = bounds.in_state(case["bounds"], state["name"])
    sums = bounds.in_state(case["bounds"], state["name"], "sum_us")
    rows = [row_of(best_of, state["name"], bound, sums, size) for size in case["sizes"]
            if any(size in sizes for sizes in best.values())]
    ratios = [(row["ratio"], row["bytes"]) for row in rows if row["ratio"]]
    geomean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios)) if ratios else None
    worst, worst_bytes = min(ratios) if ratios else (None, None)
    preloaded = [(row["preloaded"], row["bytes"]) for row in rows if row["preloaded"]]
    preloaded_ratios = [(row["preloaded_ratio"], row["bytes"]) for row in rows if row["preloaded_ratio"]]
    return {"rows": rows, "worst": worst, "worst_bytes": worst_bytes, "geomean": geomean, "ratios": len(ratios),
            "preloaded": max(preloaded, default=None), "preloaded_worst": min(preloaded_ratios, default=None),
            "unseen": list(dict.fromkeys(key for row in rows for key in row["unseen"]))}


def state_text(state):
    """Of a title, after the case."""
    return f", exchange about {state['exchange_ns']:.0f} ns" if state["exchange_ns"] else ""


def place_of(number, state):
    """Where in a report the plots of a case in a state belong."""
    return f"{number} {state['name']}"


def is_allreduce(case):
    """Runs that know no other collective don't name it."""
    return case.get("collective", "allreduce") == "allreduce"


def case_text(case):
    collective = "" if is_allreduce(case) else f"{case['collective']}, "
    place = "one buffer" if collective == "broadcast, " else "in place" if case["in_place"] else "out of place"
    return f"{collective}{case['ranks']} ranks, {case['dtype']}, {case['buffers']} buffers, {place}"


def size_text(size):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def us_text(us):
    if us is None:
        return "-"
    return f"{us:.3f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def bound_text(row):
    """Of a row: the share of the bound, and of the sum of its terms."""
    percent, of_sum = row["bound_percent"], row["sum_percent"]
    return ("-" if percent is None else f"{percent:.0f}%") + ("" if of_sum is None else f" ({of_sum:.0f}%)")
