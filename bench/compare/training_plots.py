"""The plots of kolo-train --ways, from its JSON: the ways' losses beside the plain one's, and where the time of a step
goes in each."""

from compare import figures

PARTS = (("compute", figures.COLOURS[0]), ("wait", figures.COLOURS[4]), ("update", figures.COLOURS[1]))
SMOOTHED_SHARE = 40  # a point of a curve is the mean of that part of the steps
WITHOUT = "-no-feedback"


def looks(names):
    """{name: (colour, style)}, the plain way first; one without error feedback is dashed, in the colour of that with."""
    kinds = list(dict.fromkeys(name.removesuffix(WITHOUT) for name in names))
    colours = dict(zip(kinds, (figures.OUR_COLOUR, *figures.COLOURS)))
    return {name: (colours[name.removesuffix(WITHOUT)], "--" if name.endswith(WITHOUT) else "-") for name in names}


def begin(results, title, note="kolo-train --ways"):
    where = f"{results['ranks']} ranks" + (f" on {results['nodes']} nodes" if results["nodes"] > 1 else "")
    rows = results["batch"] * results["accumulate"]
    return figures.begin({**results, "machine": f"{results['cpu']}, {results['cpus_online']} CPUs"}, title,
                         f"{results['optimizer']}, {results['parameters']:,} parameters, {rows} rows a step, {where}",
                         note)


def smoothed(losses):
    """[(step, mean loss of the steps about it)]"""
    length = max(1, len(losses) // SMOOTHED_SHARE)
    pieces = [losses[first:first + length] for first in range(0, len(losses), length)]
    return [(number * length + (len(piece) + 1) / 2, sum(piece) / len(piece)) for number, piece in enumerate(pieces)]


def draw_losses(results):
    curves = {way["way"]: smoothed(way["losses"]) for way in results["ways"]}
    plain, *others = curves
    same = [name for name in others if curves[name] == curves[plain]]  # one line
    figure, axes = begin(results, "Loss of the ways to take a step",
                         f"the same bits as plain: {', '.join(same) or 'no other'}")
    named = []
    for name, (colour, style) in looks([name for name in curves if name not in same]).items():
        axes.plot(*zip(*curves[name]), color=colour, linestyle=style, linewidth=6 if name == plain else 2)
        named.append((f"{name} and {len(same)} more" if name == plain and same else name, colour, curves[name]))
    figures.set_numbers(axes)
    axes.set_xlabel("step")
    axes.set_ylabel("loss (lower is better)")
    figures.name_lines(axes, named)
    return figure


def draw_steps(results):
    figure, axes = begin(results, "Time of a step")
    names = [way["way"] for way in results["ways"]]
    left = [0.0] * len(names)
    for part, colour in PARTS:
        widths = [1e3 * way[f"{part}_seconds"] for way in results["ways"]]
        axes.barh(names, widths, left=left, color=colour, label=part)
        left = [a + b for a, b in zip(left, widths)]
    for at, (way, end) in enumerate(zip(results["ways"], left)):
        hidden = f", {1e3 * way['hidden_seconds']:.3g} ms hidden" if way.get("hidden_seconds") else ""
        axes.text(end, at, f"  {way['gain']:.2f}\u00d7{hidden}", va="center", fontsize=13)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel("ms (lower is better); with fused the update is a part of the wait")
    axes.legend(loc="lower left", bbox_to_anchor=(1.01, 0), frameon=False)
    figure.subplots_adjust(left=0.21)
    return figure


def draw_all(results, folder):
    return [{"place": name, "title": title,
             "file": figures.save(draw(results), folder / f"training-{name}", ("png", "svg"))}
            for name, title, draw in (("losses", "losses of the ways", draw_losses),
                                      ("steps", "time of a step", draw_steps))]
