"""The plots of bench/staleness, one of each problem: seconds and iterations to the loss against the slowdown, a line for
each bound."""

from compare import figures
from staleness.staleness_command import SHOWN, SLOW, medians, name_of


def looks(part):
    """{staleness: (colour, marker)}"""
    bounds = [staleness for staleness in part["stalenesses"] if staleness != 0]
    return {0: ("#000000", "o"), **{staleness: figures.look(index) for index, staleness in enumerate(bounds)}}


def draw_panel(axes, part, key):
    lines = {}
    for staleness, (colour, marker) in looks(part).items():
        found = [(slowdown, medians(part, staleness, slowdown)) for slowdown in part["slowdowns"]]
        points = [(slowdown, each[key]) for slowdown, each in found if each]
        if points:
            line, = axes.plot(*zip(*points), color=colour, marker=marker, linewidth=2, markersize=7)
            lines[f"s = {name_of(staleness)}"] = line
    axes.set_xticks(part["slowdowns"])
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.grid(True, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    return lines


def draw_problem(results, parts):
    """The panels of a row have one scale."""
    part = parts[0]
    figure, axes = figures.begin(results, f"{part['problem'].capitalize()}: a slow worker, and how long others wait for it",
                                 f"{part['workers']} workers, steps of {part['step_ms']:g} ms (mostly slept), "
                                 f"until the {part['measure']} is {part['until']:g}", "bench/staleness")
    axes.remove()
    panels = figure.subplots(len(SHOWN), len(parts), squeeze=False, sharex="col", sharey="row")
    figure.subplots_adjust(hspace=0.12, wspace=0.08, bottom=0.2, top=0.8)
    named = {}
    for row, (key, _) in zip(panels, SHOWN):
        row[0].set_ylabel(key)
        for axes, part in zip(row, parts):
            named.update(draw_panel(axes, part, key))
    for axes, part in zip(panels[0], parts):
        axes.set_title(SLOW[part["straggler"]], fontsize=15)
    for axes in panels[-1]:
        axes.set_xlabel("times as long for a slow step")
    figure.legend(named.values(), named, loc="center left", bbox_to_anchor=(0.795, 0.5), frameon=False, fontsize=13)
    return figure


def draw_all(results, folder):
    drawn = []
    for problem in dict.fromkeys(part["problem"] for part in results["parts"]):
        parts = [part for part in results["parts"] if part["problem"] == problem]
        drawn.append({"place": problem, "title": f"{problem}: seconds and iterations to the loss",
                      "file": figures.save(draw_problem(results, parts), folder / f"staleness-{problem}", ("png", "svg"))})
    return drawn
