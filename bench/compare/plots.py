"""The plots of bench/compare: for each case and state of the machine the time against the size, and the other
libraries' time divided by kolo's."""

from compare import figures
from compare.summary import OURS, case_text, is_allreduce, place_of, state_text, summarize


def curves(case, state, results):
    """(title, colour, marker, [(size, time)]) of kolo and of each peer."""
    rows = summarize(case, state)["rows"]
    ours = [(row["bytes"], row["kolo"].us) for row in rows if row["kolo"]]
    found = [("kolo", *figures.OUR_LOOK, ours)] if ours else []
    peers = [key for key in results["libraries"] if key != OURS]
    for index, key in enumerate(peers):
        points = [(row["bytes"], row["peers"][key].us) for row in rows if key in row["peers"]]
        if points:
            title = results["libraries"][key]["title"]
            found.append((title, *figures.look(index), points))
    return found


def begin(results, case, state, title):
    figure, axes = figures.begin(results, title, f"{'all-reduce (sum), ' if is_allreduce(case) else ''}{case_text(case)}"
                                 f"{state_text(state)}",
                                 "each library in its best configuration at each size")
    figures.set_sizes(axes, case["sizes"])
    return figure, axes


def draw_times(results, case, state):
    figure, axes = begin(results, case, state, "Time of one call")
    named = [figures.draw_line(axes, *line) for line in curves(case, state, results)]
    bound = [(row["bytes"], row["bound_us"]) for row in summarize(case, state)["rows"] if row["bound_us"]]
    if bound:
        named.append(figures.draw_bound(axes, "hardware's bound", bound))
    figures.set_times(axes)
    figures.name_lines(axes, named)
    return figure


def draw_ratios(results, case, state):
    figure, axes = begin(results, case, state, "Other libraries' time as a multiple of kolo's")
    lines = curves(case, state, results)
    ours = dict(next((points for title, _, _, points in lines if title == "kolo"), []))
    named = []
    for title, colour, marker, points in lines:
        ratios = [(size, us / ours[size]) for size, us in points if size in ours]
        if title != "kolo" and ratios:
            named.append(figures.draw_line(axes, title, colour, marker, ratios))
    axes.axhline(1, color=figures.OUR_COLOUR, linewidth=4)
    named.append(("kolo", figures.OUR_COLOUR, [(case["sizes"][-1], 1)]))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.7), max(high, 3))
    axes.set_ylabel("time / kolo's time (above 1: kolo is faster)")
    figures.set_numbers(axes, "{:g}\u00d7".format)
    figures.name_lines(axes, named)
    return figure


def file_name(case, state, kind):
    place = "in-place" if case["in_place"] else "out-of-place"
    which = f"-{state['name']}" if len(case["states"]) > 1 else ""
    collective = "" if is_allreduce(case) else f"-{case['collective']}"
    return f"{kind}{collective}-{case['ranks']}-ranks-{case['dtype']}-{case['buffers']}-{place}{which}"


def draw_case(results, number, case, state, folder):
    """The plots of a case in a state, as they are listed."""
    drawn = []
    for kind, draw in (("time", draw_times), ("ratio", draw_ratios)):
        figure = draw(results, case, state)
        drawn.append({"place": place_of(number, state), "title": f"{kind}, {case_text(case)}{state_text(state)}",
                      "file": figures.save(figure, folder / file_name(case, state, kind))})
    return drawn


def draw_all(results, folder):
    return [image for number, case in enumerate(results["cases"]) for state in case["states"]
            if curves(case, state, results) for image in draw_case(results, number, case, state, folder)]

