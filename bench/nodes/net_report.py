"""The tables of a run, for the terminal and as a report in Markdown."""

import os
import pathlib

from comparison import machine
from comparison.tables import folded, markdown_table, plain, report_begin
from nodes import net_architectures, net_libraries, net_transports

TITLES = {"transports": "io_uring and poll", "libraries": "kolo and other libraries",
          "architectures": "Parameter servers, mesh and ring"}
KEYS = {"architectures": 2}  # columns that tell rows apart
TRANSPORT_NOTES = ["CPU seconds are of all processes of the job, for each GB that its nodes sent; the kernel's work "
                   "for the cables and the switch is in them only where it is done in the sender's time.",
                   "Costs are those of more calls without those of few, so that start and end are not in them."]


def part_cells(name, part):
    """(header, lines, notes) of one part."""
    if name == "transports":
        return *net_transports.cells(part), TRANSPORT_NOTES
    if name == "libraries":
        return *net_libraries.cells(part), net_libraries.notes(part)
    return *net_architectures.cells(part), net_architectures.notes(part)


def terminal(results):
    lines = [*folded(machine.in_a_line(results["machine"])), ""]
    for name, part in results["parts"].items():
        header, rows, notes = part_cells(name, part)
        notes = [line for note in notes for line in folded(note)]
        lines += [TITLES[name], *plain(header, rows, KEYS.get(name, 1)), *notes, ""]
    return "\n".join([*lines, *(line for absent in absent_lines(results) for line in folded(absent))])


def absent_lines(results):
    return [f"not measured: {title}: {reason}" for title, reason in results["absent"].items()]


def library_lines(results):
    part = results["parts"].get("libraries", {"series": []})
    names = {series["title"]: series["library"] for series in part["series"]}
    return [f"- {title}: {name or 'version unknown'}" for title, name in names.items()]


def markdown(results, path, images):
    """`images`: {part: [(title, file)]}."""
    base = pathlib.Path(path).resolve().parent
    lines = [*report_begin("The all-reduce between nodes", results, "bench/net"),
             f"Machine: {machine.in_a_line(results['machine'])}. All nodes are network namespaces of it, and share its "
             "CPUs.", "", "`bench/nodes/README.md` says what the columns mean.", ""]
    for name, part in results["parts"].items():
        header, rows, notes = part_cells(name, part)
        lines += [f"## {TITLES[name]}", ""]
        for title, image in images.get(name, []):
            lines += [f"![{title}]({os.path.relpath(image, base)})", ""]
        lines += [*markdown_table(header, rows), "", *(f"- {note}" for note in notes), ""]
    libraries = library_lines(results) + [f"- {line}" for line in absent_lines(results)]
    return "\n".join([*lines, *(["Libraries:", "", *libraries] if libraries else [])]).rstrip() + "\n"
