"""The plots of kolo-perf waits, from its JSON: how late each KOLO_WAIT ends a wait, and for how much CPU time."""

from compare import figures

WAYS = ("auto", "spin", "yield", "sleep")  # the first is what kolo does by itself
PLOTS = (("delay", "delay_us", "How late a wait ends", "from the late rank's call to the others' return"),
         ("cpu", "cpu_us", "CPU time of a wait", "of a rank that waits, in its call"))


def draw(rows, name, title, what):
    first = rows[0]
    machine = {**first, "machine": f"{first['cpu']}, host {first['host']}"}
    figure, axes = figures.begin(machine, title, f"{what}; {first['ranks']} ranks", "kolo-perf waits, medians")
    lines = []
    for number, way in enumerate(way for way in WAYS if any(row["way"] == way for row in rows)):
        points = [(row["wait_us"], max(row[name]["median"], 1e-3)) for row in rows if row["way"] == way]
        colour, marker = figures.OUR_LOOK if way == WAYS[0] else figures.look(number - 1)
        lines.append(figures.draw_line(axes, way, colour, marker, points))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(figures.FuncFormatter(figures.time_text))
    axes.set_xlabel("wait")
    axes.minorticks_off()
    figures.set_times(axes)
    figures.name_lines(axes, lines)
    return figure


def draw_all(rows, folder):
    return [{"place": place, "title": title,
             "file": figures.save(draw(rows, name, title, what), folder / f"waits-{place}", ("png", "svg"))}
            for place, name, title, what in PLOTS]
