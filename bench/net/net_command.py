"""What bench/net measures, part after part, and how it is shown."""

import lab
from compare import machine, peers, rounds
from compare.bench_command import Command, Cut, prepare, save
from compare.tables import (absent_lines, folded, image_lines, library_lines, markdown_table, plain,
                               report_begin)
from net import net_architectures, net_compression, net_libraries, net_options, net_transports

SKIPPED = 77
PARTS = {part.NAME: part for part in (net_transports, net_libraries, net_architectures, net_compression)}


def parts_of(results):
    """(the part's module, its table's header and lines, its notes) of each."""
    titles = {key: library["title"] for key, library in results["libraries"].items()}
    return [(PARTS[name], *PARTS[name].cells(part, titles), PARTS[name].notes(part, titles))
            for name, part in results["parts"].items()]


class Net(Command):
    name, results_format, plots, what = "net", 2, "net.net_plots", "parts"

    def parse(self, arguments):
        return net_options.parse(arguments, PARTS)

    def begin(self, options, built):
        wanted = options.peers if net_libraries.NAME in options.parts else []
        self.present, known = prepare([peer for peer in peers.all_peers("torch") if peer.key in wanted], built)
        return {**known, "parts": {}}

    def measure_into(self, results, options, built):
        progress = rounds.Progress(sum(PARTS[name].steps(options, self.present) for name in options.parts))
        try:
            for name in options.parts:
                part = results["parts"][name] = PARTS[name].measure(options, built, self.present, progress)
                if name == net_libraries.NAME:
                    rounds.name_libraries(results, part.pop("names"))
                save(results, options.json)
        except lab.Missing as error:
            raise Cut(f"nodes cannot be made here: {error}", SKIPPED) from error
        finally:
            progress.end()

    def terminal(self, results):
        lines = [*folded(machine.in_a_line(results["machine"])), ""]
        for part, header, rows, notes in parts_of(results):
            lines += [part.TITLE, *plain(header, rows, part.KEYS), *(line for note in notes for line in folded(note)), ""]
        return "\n".join([*lines, *absent_lines(results)])

    def report(self, results, path, images):
        lines = [*report_begin("The all-reduce between nodes", results, "python3 bench/net"),
                 f"Machine: {machine.in_a_line(results['machine'])}. All nodes are network namespaces of it, and share its "
                 "CPUs.", "", "`bench/net/README.md` says what the columns mean.", ""]
        for part, header, rows, notes in parts_of(results):
            lines += [f"## {part.TITLE}", "", *image_lines(images.get(part.NAME, []), path),
                      *markdown_table(header, rows), "", *(f"- {note}" for note in notes), ""]
        libraries = ["Libraries:", "", *library_lines(results)] if net_libraries.NAME in results["parts"] else []
        return "\n".join([*lines, *libraries]).rstrip() + "\n"

    def cases(self, results):
        return [part for name, part in results["parts"].items() if name == net_libraries.NAME]
