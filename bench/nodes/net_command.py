"""What bench/net measures, and how it is shown."""

import lab
from comparison import peers, rounds
from comparison.bench_command import Command, Cut, prepare, save
from nodes import net_architectures, net_libraries, net_options, net_report, net_transports

SKIPPED = 77


class Net(Command):
    name, results_format, plots, what = "net", 2, "nodes.net_plots", "parts"

    def parse(self, arguments):
        return net_options.parse(arguments)

    def begin(self, options, built):
        wanted = options.peers if "libraries" in options.parts else []
        self.present, known = prepare([peer for peer in peers.all_peers("torch") if peer.key in wanted], built)
        return {**known, "parts": {}}

    def measure_libraries(self, results, options, progress):
        all_series, part = net_libraries.measure(options, self.present, progress)
        rounds.name_libraries(results, all_series)
        return part

    def measure_into(self, results, options, built):
        steps = {"transports": net_transports.steps(options), "architectures": len(net_architectures.wanted(options)),
                 "libraries": options.rounds * len(net_libraries.series_of(options, self.present))}
        progress = rounds.Progress(sum(steps[name] for name in options.parts))
        parts = {"transports": lambda: net_transports.measure(options, built, progress),
                 "libraries": lambda: self.measure_libraries(results, options, progress),
                 "architectures": lambda: net_architectures.measure(options, built, progress)}
        try:
            for name in options.parts:
                results["parts"][name] = parts[name]()
                save(results, options.json)
        except lab.Missing as error:
            raise Cut(f"nodes cannot be made here: {error}", SKIPPED) from error
        finally:
            progress.end()

    def terminal(self, results):
        return net_report.terminal(results)

    def report(self, results, path, images):
        return net_report.report(results, path, images)

    def place_of(self, plot):
        return plot["part"]

    def cases(self, results):
        return [part for name, part in results["parts"].items() if name == "libraries"]
