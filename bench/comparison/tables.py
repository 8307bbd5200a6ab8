"""The results in words: plain tables for the terminal, and the Markdown report."""

import itertools
import os
import pathlib
import textwrap

from comparison import machine
from comparison.summary import (OURS, ROWS_MIN, case_text, is_allreduce, percent_text, place_of, ratio_text, size_text,
                                state_text, summarize, troubles, us_text, wrong_results)

CONFIGURATION_MARKS = "abcdefghijklmnopqrstuvwxyz"
FEW_MARK = "?"  # beside a time of too few rows
COLUMNS = 80  # of a terminal


def peers_of(case, results):
    """Keys of the peers with any measurement in a case, in the order of the run."""
    measured = {series["peer"] for series in case["series"] if any(series["rounds"])}
    return [key for key in results["libraries"] if key in measured and key != OURS]


def marks_of(case, peers):
    """{(peer, configuration): mark} for the peers that had more than one."""
    marks = {}
    for peer in peers:
        configurations = list(dict.fromkeys(s["configuration"] for s in case["series"] if s["peer"] == peer))
        if len(configurations) > 1:
            for mark, configuration in zip(CONFIGURATION_MARKS, configurations):
                marks[peer, configuration] = mark
    return marks


def time_cell(time, mark):
    if time is None:
        return us_text(None)
    mark += FEW_MARK if time.rows < ROWS_MIN else ""
    return us_text(time.us) + (f" {mark}" if mark else "")


def cells(case, state, results):
    """(header, lines) of the table of a case in a state."""
    peers = peers_of(case, results)
    marks = marks_of(case, peers)
    header = ["size", "kolo", *(results["libraries"][peer]["title"] for peer in peers), "best / kolo", "% of bound"]
    lines = []
    for row in summarize(case, state)["rows"]:
        times = [time_cell(row["kolo"], "")]
        for peer in peers:
            time = row["peers"].get(peer)
            times.append(time_cell(time, marks.get((peer, time.configuration), "") if time else ""))
        lines.append([size_text(row["bytes"]), *times, ratio_text(row["ratio"]), percent_text(row["bound_percent"])])
    return header, lines


def legend(case, results):
    """What the marks beside the times mean."""
    peers = peers_of(case, results)
    marks = marks_of(case, peers)
    lines = []
    for peer in peers:
        own = [f"{mark} {configuration}" for (key, configuration), mark in marks.items() if key == peer]
        if own:
            lines.append(f"{results['libraries'][peer]['title']}: {', '.join(own)}")
    if any(FEW_MARK in cell for state in case["states"] for line in cells(case, state, results)[1] for cell in line):
        lines.append(f"{FEW_MARK} measured once only")
    return lines


def sizes_text(summary):
    """Of how many sizes the geometric mean is, where that is not all."""
    return "" if summary["ratios"] == len(summary["rows"]) else f"{summary['ratios']} of {len(summary['rows'])} sizes"


def preloaded_text(summary):
    """How the MPIs that kolo was preloaded into compare with kolo's own calls, and with the MPIs without it."""
    if not summary["preloaded"]:
        return ""
    most, most_bytes = summary["preloaded"]
    text = f"; in an MPI {most:.2f} times kolo's own time at most ({size_text(most_bytes)})"
    if summary["preloaded_worst"]:
        worst, worst_bytes = summary["preloaded_worst"]
        text += f", best peer / that: {worst:.2f} at worst ({size_text(worst_bytes)})"
    return text


def verdict(case, state, results):
    summary = summarize(case, state)
    return compared_text(summary, results) + preloaded_text(summary)


def compared_text(summary, results):
    titles = [results["libraries"][key]["title"] for key in summary["unseen"]]
    missing = f"no ratio where {' or '.join(titles)} was not measured in this state" if titles else ""
    if summary["worst"] is None:
        return missing or "nothing to compare"
    of_sizes = f" of {sizes_text(summary)}" if sizes_text(summary) else ""
    text = (f"best peer / kolo: {summary['geomean']:.2f} in the geometric mean{of_sizes}, {summary['worst']:.2f} at "
            f"worst ({size_text(summary['worst_bytes'])})")
    return f"{text}; {missing}" if missing else text


def notes(case, results):
    titles = {key: library["title"] for key, library in results["libraries"].items()}
    lines = [f"WRONG RESULTS: {line}" for line in wrong_results(case, titles)] + troubles(case, titles)
    lines += dict.fromkeys(f"no bound: {bound['error']}" for bound in case["bounds"] if bound["error"])
    if case["mixed_rows"]:
        count = sum(len(rows) for series in case["series"] for rows in series["rounds"])
        lines.append(f"{case['mixed_rows']} of {count} measurements count nowhere: the exchange changed meanwhile, is "
                     "a rare one, or is not known")
    return lines + case["notes"]


def folded(line):
    """The lines of a terminal that a line of text takes."""
    return textwrap.wrap(line, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]


def joined(header, lines, gap):
    """Columns flush right, as wide as their longest word: titles take several lines, the last of which they share."""
    words = [title.replace("/ ", "/").split() for title in header]
    widths = [max(map(len, [*title, *(line[column] for line in lines)])) for column, title in enumerate(words)]
    titles = [textwrap.wrap(" ".join(title), width, break_on_hyphens=False)[::-1] for title, width in zip(words, widths)]
    heads = list(itertools.zip_longest(*titles, fillvalue=""))[::-1]
    return [gap.join(cell.rjust(width) for cell, width in zip(line, widths)) for line in [*heads, *lines]]


def select(header, lines, columns):
    return [header[column] for column in columns], [[line[column] for column in columns] for line in lines]


def plain(header, lines, keys=1):
    """A table: with fewer blanks where it is too wide for a terminal, or in parts that all begin with `keys` columns."""
    for gap, blank in (("  ", " "), (" ", " "), (" ", "")):
        table = joined(header, [[cell.replace(" ", blank) for cell in line] for line in lines], gap)
        if max(map(len, table)) <= COLUMNS:
            return table
    for end in range(len(header) - 1, keys, -1):
        first = joined(*select(header, lines, range(end)), "  ")
        if max(map(len, first)) <= COLUMNS:
            return [*first, "", *plain(*select(header, lines, [*range(keys), *range(end, len(header))]), keys)]
    return table


def case_table(case, results):
    parts = []
    for state in case["states"]:
        title = f"{case_text(case)}{state_text(state)}: us a call"
        parts += [title, *plain(*cells(case, state, results)), *folded(verdict(case, state, results)), ""]
    said = [line for each in legend(case, results) + notes(case, results) for line in folded(each)]
    if not parts:
        parts = [f"{case_text(case)}: nothing was measured in one state"]
    elif not said:
        parts.pop()
    return "\n".join(parts + said) + "\n"


def absent_lines(results):
    """Commands stand on lines of their own, to be copied."""
    return [line for peer in results["absent"]
            for line in [*folded(f"not measured: {peer['title']}: {peer['reason']}"), f"  to install: {peer['install']}"]]


def terminal(results):
    blocks = folded(machine.in_a_line(results["machine"]))
    blocks += [case_table(case, results) for case in results["cases"]]
    return "\n".join(blocks + absent_lines(results))


def markdown_table(header, lines):
    rule = ["---:"] * len(header)
    return ["| " + " | ".join(line) + " |" for line in [header, rule, *lines]]


def summary_table(results):
    """The states in which there is anything to compare."""
    lines = []
    for case, state in ((case, state) for case in results["cases"] for state in case["states"]):
        summary = summarize(case, state)
        if summary["worst"] is not None:
            of_sizes = f" ({sizes_text(summary)})" if sizes_text(summary) else ""
            lines.append([case_text(case) + state_text(state), ratio_text(summary["geomean"]) + of_sizes,
                          f"{summary['worst']:.2f} ({size_text(summary['worst_bytes'])})"])
    what = "all-reduce (sum)" if all(map(is_allreduce, results["cases"])) else "collective (sums)"
    table = markdown_table([what, "geometric mean", "worst"], lines)
    table[1] = "| :--- | ---: | ---: |"
    return table


def how_measured(results):
    plan = results["plan"]
    bound = "bound to a CPU each" if plan["pinned"] else "not bound to CPUs"
    if plan["pinned"] and any(case["ranks"] > len(plan["cpus"]) for case in results["cases"]):
        bound += ", in turn where there are more ranks than CPUs"
    return [f"Every library runs the same loop on the same kind of buffers, its processes {bound}. In each of "
            f"{plan['rounds']} rounds every configuration of every library is started once, in rotated order, and "
            f"measures all sizes, about {plan['budget_ms']:g} ms each, and then the shorter ones once more. A time is "
            "the median of these measurements' medians; a sample is the time of the slowest process; warm messages up "
            "to 4 KiB are timed in batches. All results were compared with the exact ones. For each library the "
            "fastest of its configurations counts at each size. `bench/comparison/README.md` has the details.", "",
            "*Exchange* is the time in which two cores exchange a cache line, taken before and after each measurement. "
            "Where it has two values, because the machine moves its virtual CPUs, there is a table for each, and times "
            "are only compared with times of the same.", "",
            "*best / kolo* is the time of the fastest other library divided by kolo's: above 1 kolo is faster. *% of "
            "bound* is the time below which this hardware does not allow the call (`bench/README.md`, from `kolo-perf "
            "limits` in the same run), divided by kolo's."]


def library_lines(results):
    lines = []
    for library in results["libraries"].values():
        name = library["version"] or "version unknown"
        lines.append(f"- {library['title']}: {name}")
    return lines + [f"- {peer['title']}: not measured: {peer['reason']}" for peer in results["absent"]]


def how_started(results):
    """Each configuration's command and variables, for each number of ranks."""
    seen = {}
    for case in results["cases"]:
        for series in case["series"]:
            loose = "" if series["pinned"] else ", not bound to CPUs"
            key = (case["ranks"], results["libraries"][series["peer"]]["title"], series["configuration"] + loose)
            seen.setdefault(key, series["how"])
    return [f"- {ranks} ranks, {title}, {configuration}: `{how}`"
            for (ranks, title, configuration), how in seen.items()]


def image_lines(images, report_path):
    """`images`: [(title, file)]."""
    base = pathlib.Path(report_path).resolve().parent
    return [line for title, path in images for line in (f"![{title}]({os.path.relpath(path, base)})", "")]


def state_section(case, state, results, images):
    return [f"### {case_text(case)}{state_text(state)}", "", f"Times in microseconds; {verdict(case, state, results)}.",
            "", *images, *markdown_table(*cells(case, state, results)), ""]


def case_section(case, results, images_of):
    """A table for each state with something to compare; what is to be said of them follows the last."""
    lines, idle = [], []
    for state in case["states"]:
        if summarize(case, state)["worst"] is not None:
            lines += state_section(case, state, results, images_of(state))
        else:
            idle.append(f"{case_text(case)}{state_text(state)}: {verdict(case, state, results)}")
    if not lines:
        lines = [f"### {case_text(case)}", "", "Nothing was measured in one state.", ""]
    return lines + [f"- {line}" for line in idle + legend(case, results) + notes(case, results)] + [""]


def report_begin(title, results, command):
    return [f"# {title}", "",
            f"Measured on {results['date']} with kolo {results['kolo_version']} by `{command}"
            f"{' ' + results['arguments'] if results['arguments'] else ''}`.", ""]


def report(results, report_path, images):
    """`images`: {place: [(title, file)]}."""
    lines = [*report_begin("How kolo compares", results, "bench/compare"),
             f"Machine: {machine.in_a_line(results['machine'])}.", "", "## Summary", "",
             "The fastest other library's time divided by kolo's, over all sizes:", ""]
    lines += summary_table(results) + ["", "## How it was measured", ""] + how_measured(results)
    lines += ["", "Libraries:", "", *library_lines(results), "", "## Tables", ""]
    for number, case in enumerate(results["cases"]):
        def images_of(state, number=number):
            return image_lines(images.get(place_of(number, state), []), report_path)
        lines += case_section(case, results, images_of)
    lines += ["## How the libraries were started", "", "The last word of each command, the driver, is left out.", "",
              *how_started(results)]
    return "\n".join(lines) + "\n"
