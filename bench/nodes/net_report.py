"""The tables of a run, for the terminal and as a report in Markdown."""

from comparison import machine
from comparison.tables import (absent_lines, folded, image_lines, library_lines, markdown_table, plain,
                               report_begin)
from nodes import net_architectures, net_libraries, net_transports

TITLES = {"transports": "io_uring and poll", "libraries": "kolo and other libraries",
          "architectures": "Parameter servers, mesh and ring"}
KEYS = {"architectures": 2}  # columns that tell rows apart
TRANSPORT_NOTES = ["CPU seconds are of all processes of the job, for each GB that its nodes sent; the kernel's work "
                   "for the cables and the switch is in them only where it is done in the sender's time.",
                   "Costs are those of more calls without those of few, so that start and end are not in them."]


def part_cells(name, results):
    """(header, lines, notes) of one part."""
    part = results["parts"][name]
    titles = {key: library["title"] for key, library in results["libraries"].items()}
    if name == "transports":
        return *net_transports.cells(part), TRANSPORT_NOTES
    if name == "libraries":
        return *net_libraries.cells(part, titles), net_libraries.notes(part, titles)
    return *net_architectures.cells(part), net_architectures.notes(part)


def terminal(results):
    lines = [*folded(machine.in_a_line(results["machine"])), ""]
    for name in results["parts"]:
        header, rows, notes = part_cells(name, results)
        notes = [line for note in notes for line in folded(note)]
        lines += [TITLES[name], *plain(header, rows, KEYS.get(name, 1)), *notes, ""]
    return "\n".join([*lines, *absent_lines(results)])


def report(results, path, images):
    """`images`: {part: [(title, file)]}."""
    lines = [*report_begin("The all-reduce between nodes", results, "bench/net"),
             f"Machine: {machine.in_a_line(results['machine'])}. All nodes are network namespaces of it, and share its "
             "CPUs.", "", "`bench/nodes/README.md` says what the columns mean.", ""]
    for name in results["parts"]:
        header, rows, notes = part_cells(name, results)
        lines += [f"## {TITLES[name]}", "", *image_lines(images.get(name, []), path), *markdown_table(header, rows), "",
                  *(f"- {note}" for note in notes), ""]
    libraries = ["Libraries:", "", *library_lines(results)] if "libraries" in results["parts"] else []
    return "\n".join([*lines, *libraries]).rstrip() + "\n"
