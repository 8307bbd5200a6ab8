"""The results in words: plain tables for the terminal, and the Markdown report."""

import collections
import itertools
import os
import pathlib
import re
import string
import textwrap

from compare import machine
from compare.summary import (FLOOR_FACTOR, LEVEL, OURS, ROWS_MIN, bound_text, case_text, is_allreduce, is_rival, place_of,
                             ratio_text, size_text, state_text, summarize, troubles, us_text, wrong_results)

CONFIGURATION_MARKS = "abcdefghijklmnopqrstuvwxyz"
FEW_MARK = "?"  # beside a time of too few rows
COLUMNS = 80  # of a terminal
SHOWN_MAX = 9  # sizes of the report's overview
BOUND_COLUMN = 4  # of it


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
    header = ["size", "kolo", *(results["libraries"][peer]["title"] for peer in peers), "best / kolo", "holds",
              "% of bound"]
    lines = []
    for row in summarize(case, state)["rows"]:
        times = [time_cell(row["kolo"], "")]
        for peer in peers:
            time = row["peers"].get(peer)
            times.append(time_cell(time, marks.get((peer, time.configuration), "") if time else ""))
        lines.append([size_text(row["bytes"]), *times, ratio_text(row["ratio"]), row["holds"] or "-",
                      bound_text(row)])
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
    behind = [size_text(row["bytes"]) for row in summary["rows"] if row["holds"] == "none"]
    if behind:
        text += f"; neither at least {LEVEL} nor within {FLOOR_FACTOR:.2f} of the floor at {', '.join(behind)}"
    return f"{text}; {missing}" if missing else text


def faults(case, results):
    """Lines on what went wrong."""
    titles = {key: library["title"] for key, library in results["libraries"].items()}
    return ([f"WRONG RESULTS: {line}" for line in wrong_results(case, titles)] + troubles(case, titles)
            + list(dict.fromkeys(f"no bound: {bound['error']}" for bound in case["bounds"] if bound["error"]))
            + case["notes"])


def left_out(cases):
    """A line on the measurements that no table counts, or none."""
    mixed = sum(case["mixed_rows"] for case in cases)
    count = sum(len(rows) for case in cases for series in case["series"] for rows in series["rounds"])
    return [f"{mixed} of {count} measurements count nowhere: the exchange changed meanwhile, is a rare one, or is not "
            "known"] if mixed else []


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
    said = [line for each in legend(case, results) + faults(case, results) + left_out([case]) for line in folded(each)]
    if not parts:
        parts = [f"{case_text(case)}: nothing was measured in one state"]
    elif not said:
        parts.pop()
    return "\n".join(parts + said) + "\n"


def absent_lines(results):
    """Commands stand on lines of their own, to be copied."""
    return [line for peer in results["absent"]
            for line in [*folded(f"not measured: {peer['title']}: {peer['reason']}"), f"  to install: {peer['install']}"]]


def lanes_cells(results):
    """(header, lines) of all-reduces of kolo's by ranks with several threads, which the MPIs have no like of."""
    lines = [[str(row["ranks"]), str(row["threads"]), size_text(row["bytes"]), us_text(row["time_us"]["median"]),
              f"{row['busbw_gbps']:.2f}"] for row in results.get("lanes", []) if "time_us" in row]
    return ["ranks", "threads of each", "size", "us", "busbw GB/s"], lines


def terminal(results):
    blocks = folded(machine.in_a_line(results["machine"]))
    blocks += [case_table(case, results) for case in results["cases"]]
    header, lines = lanes_cells(results)
    blocks += ["all-reduce in lanes", *plain(header, lines), ""] if lines else []
    return "\n".join(blocks + absent_lines(results))


def markdown_table(header, lines):
    rows = ["| " + " | ".join(line) + " |" for line in [header, *lines]]
    return [rows[0], "|" + "---:|" * len(header), *rows[1:]]


def compared(results):
    """[(case, state, summary)] of the states in which there is anything to compare."""
    found = [(case, state, summarize(case, state)) for case in results["cases"] for state in case["states"]]
    return [each for each in found if each[2]["worst"] is not None]


def shown_sizes(rows):
    """Those that at least half of the overview's rows have; every second of them where these are many."""
    counts = collections.Counter(row["bytes"] for _, _, summary in rows for row in summary["rows"])
    sizes = sorted(size for size, count in counts.items() if 2 * count >= len(rows))
    return sizes if len(sizes) <= SHOWN_MAX else sizes[::2]


def letters_of(results):
    """{key: letter} of the other libraries."""
    return dict(zip((key for key in results["libraries"] if is_rival(key)), string.ascii_uppercase))


def overview_cell(row, letters):
    """kolo's time and, where it can be compared, how many times that the fastest other library took, and which."""
    if row is None or row["ratio"] is None:
        return us_text(row and row["kolo"] and row["kolo"].us)
    fastest = min(filter(is_rival, row["peers"]), key=lambda peer: row["peers"][peer].us)
    return f"{us_text(row['kolo'].us)} ({ratio_text(row['ratio'])} {letters[fastest]})"


def bounds_text(summary):
    percents = [row["bound_percent"] for row in summary["rows"] if row["bound_percent"] is not None]
    return f"{min(percents):.0f}-{max(percents):.0f}%" if percents else "-"


def common_words(results):
    """What the titles of all cases have in common, where there are several."""
    first, *others = [case_text(case).split(", ") for case in results["cases"]] or [[]]
    return [word for word in first if others and all(word in each for each in others)]


def own_text(case, common):
    return ", ".join(word for word in case_text(case).split(", ") if word not in common)


def overview(results):
    """A line for each state of each case. What all cases have in common stands above it."""
    rows, letters, common = compared(results), letters_of(results), common_words(results)
    sizes = shown_sizes(rows)
    lines = []
    for case, state, summary in rows:
        by_size = {row["bytes"]: row for row in summary["rows"]}
        of_sizes = f" ({sizes_text(summary)})" if sizes_text(summary) else ""
        lines.append([own_text(case, common), f"{state['exchange_ns']:.0f} ns" if state["exchange_ns"] else "-",
                      ratio_text(summary["geomean"]) + of_sizes,
                      f"{summary['worst']:.2f} ({size_text(summary['worst_bytes'])})", bounds_text(summary),
                      *(overview_cell(by_size.get(size), letters) for size in sizes)])
    what = "all-reduce (sum)" if all(map(is_allreduce, results["cases"])) else "collective (sums)"
    header = [what, "exchange", "geometric mean", "worst", "% of bound", *map(size_text, sizes)]
    if all(line[BOUND_COLUMN] == "-" for line in lines):
        header, lines = select(header, lines, [column for column in range(len(header)) if column != BOUND_COLUMN])
    table = markdown_table(header, lines)
    table[1] = table[1].replace("---:", ":---", 1)
    return ([f"All: {', '.join(common)}.", ""] if common else []) + table


def how_measured(results):
    plan = results["plan"]
    bound = "bound to a CPU each" if plan["pinned"] else "not bound to CPUs"
    if plan["pinned"] and any(case["ranks"] > len(plan["cpus"]) for case in results["cases"]):
        bound += ", in turn where there are more ranks than CPUs"
    return [f"Microseconds a call of kolo, the median of {plan['rounds']} rounds of {plan['budget_ms']:g} ms for each "
            "size; in parentheses how many times that the fastest other library took, in the fastest of its "
            f"configurations, and its letter. Processes are {bound}. The geometric mean and the worst of these ratios, and "
            "the range of *% of bound*, are over all sizes. `bench/compare/README.md` tells what was "
            "measured, and what *exchange* and *bound* are."]


def library_lines(results, letters=None):
    """With the letters, {key: letter}, that stand for libraries."""
    lines = []
    for key, library in results["libraries"].items():
        name = library["version"] or "version unknown"
        letter = f"{letters[key]}: " if letters and key in letters else ""
        lines.append(f"- {letter}{library['title']}: {name}")
    return lines + [f"- {peer['title']}: not measured: {peer['reason']}" for peer in results["absent"]]


def added_words(words, base):
    """The words that `words` has more than `base`, or None where it lacks some of those."""
    left = list(words)
    for word in base:
        if word not in left:
            return None
        left.remove(word)
    return left


def how_started(results):
    """Each library's first command and variables, and what configurations add to it, also with more ranks."""
    bases, ranks_of = {}, {}  # {title: words}, {(title, configuration, text): [ranks]}
    for case in results["cases"]:
        for series in case["series"]:
            title = results["libraries"][series["peer"]]["title"]
            words = re.sub(rf"-n {case['ranks']}\b", "-n N", series["how"]).split()
            added = added_words(words, bases.setdefault(title, words))
            text = f"`{' '.join(words)}`" if not added else f"adds `{' '.join(added)}`"
            loose = "" if series["pinned"] else ", not bound to CPUs"
            ranks = ranks_of.setdefault((title, series["configuration"] + loose, text), [])
            ranks += [case["ranks"]] if case["ranks"] not in ranks else []
    alike = {}  # {(configuration, ranks, text): [titles]}
    for (title, configuration, text), ranks in ranks_of.items():
        alike.setdefault((configuration, ", ".join(map(str, ranks)), text), []).append(title)
    return [f"- {', '.join(titles)}: {configuration} ({ranks} ranks): {text}"
            for (configuration, ranks, text), titles in alike.items()]


def image_lines(images, report_path):
    """`images`: [(title, file)]."""
    base = pathlib.Path(report_path).resolve().parent
    return [line for title, path in images for line in (f"![{title}]({os.path.relpath(path, base)})", "")]


def first_section(results, images):
    """All sizes and libraries of the overview's first line, if that is of an all-reduce."""
    case, state, _ = compared(results)[0]
    lines = [f"## {case_text(case)}{state_text(state)}", "", f"Times in microseconds; {verdict(case, state, results)}.",
             "", *images(case, state), *markdown_table(*cells(case, state, results)), ""]
    return lines + [f"- {line}" for line in legend(case, results)] + [""]


def remarks(results):
    """What is to be said of the cases: each remark once, with all whom it is about."""
    common, shown = common_words(results), [case for case, _, _ in compared(results)]
    found, lacking, others = {}, {}, []
    for case in results["cases"]:
        title, peers, said = own_text(case, common), peers_of(case, results), faults(case, results)
        for line in said:
            who, _, what = line.partition(": ")
            found.setdefault((title, what), []).append(who)
        absent = [library["title"] for key, library in results["libraries"].items()
                  if is_rival(key) and key not in peers and not any(library["title"] in line for line in said)]
        if absent:
            lacking.setdefault(" and ".join(absent), []).append(title)
        for state in case["states"]:
            text = preloaded_text(summarize(case, state))[2:] if case in shown else verdict(case, state, results)
            others += [f"{title}{state_text(state)}: {text}"] if text else []
    return [f"- {line}" for line in
            [*(f"not measured: {who}: {'; '.join(titles)}" for who, titles in lacking.items()), *others,
             *(f"{title}: {'; '.join(who)}: {what}" for (title, what), who in found.items()),
             *left_out(results["cases"])]]


def report_begin(title, results, command):
    return [f"# {title}", "",
            f"Measured on {results['date']} with kolo {results['kolo_version']} by `{command}"
            f"{' ' + results['arguments'] if results['arguments'] else ''}`.", ""]


def report(results, report_path, images):
    """`images`: {place: [(title, file)]}."""
    def images_of(case, state):
        return image_lines(images.get(place_of(results["cases"].index(case), state), []), report_path)
    lines = [*report_begin("How kolo compares", results, "python3 bench/compare"),
             f"Machine: {machine.in_a_line(results['machine'])}.", "", "## Overview", "", *how_measured(results), ""]
    rows = compared(results)
    lines += [*overview(results), ""] if rows else []
    lines += [*library_lines(results, letters_of(results)), *remarks(results), ""]
    lines += first_section(results, images_of) if rows and is_allreduce(rows[0][0]) else []
    lines += [line for case, state, _ in rows[1:] for line in images_of(case, state)]
    header, lanes = lanes_cells(results)
    lines += ["## All-reduce in lanes", "", *markdown_table(header, lanes), ""] if lanes else []
    lines += ["## How the libraries were started", "", "The last word of each command, the driver, is left out.", "",
              *how_started(results)]
    return "\n".join(lines) + "\n"
