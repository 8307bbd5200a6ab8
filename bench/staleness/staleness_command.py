"""What bench/staleness measures, and how it is shown."""

import json
import shlex
import statistics

from compare import machine, processes, rounds
from compare.bench_command import Command, Cut, save
from compare.tables import folded, image_lines, markdown_table, plain, report_begin
from staleness import staleness_options
from staleness.staleness_options import PROBLEMS, UNBOUNDED

NOT_REACHED = "-"
SLOW = {"last": "one worker is slow", "any": "in each step another worker is slow"}
SHOWN = (("seconds", "{:.2f}"), ("iterations", "{:.0f}"))


def modes(staleness):
    """The options of kolo-train for a bound."""
    if staleness == 0:
        return ["--server", "bsp"]
    return ["--server", "asp"] if staleness == UNBOUNDED else ["--server", "ssp", "--staleness", str(staleness)]


def medians(part, staleness, slowdown):
    """{"iterations": of the runs of one cell, "seconds": of them}; None where half of the runs or more did not get
    there."""
    runs = [run["reached"] for run in part["runs"] if (run["staleness"], run["slowdown"]) == (staleness, slowdown)]
    reached = [each for each in runs if each]
    if 2 * len(reached) <= len(runs):
        return None
    return {key: statistics.median(each[key] for each in reached) for key, _ in SHOWN}


def title_of(part):
    return f"{part['problem']}, {SLOW[part['straggler']]}"


def name_of(staleness):
    return {0: "0 (BSP)", UNBOUNDED: "unbounded (ASP)"}.get(staleness, str(staleness))


def table(part, text):
    """(header, lines): a line for each staleness, a column for each slowdown, with the text of its medians and BSP's."""
    return (["staleness", *(f"slowdown {slowdown}" for slowdown in part["slowdowns"])],
            [[name_of(staleness), *(text(medians(part, staleness, slowdown), medians(part, 0, slowdown))
                                    for slowdown in part["slowdowns"])] for staleness in part["stalenesses"]])


def values(part, key, shape):
    return table(part, lambda ours, _: shape.format(ours[key]) if ours else NOT_REACHED)


def gains(part):
    """How many times as fast as BSP each bound is."""
    return table(part, lambda ours, bsp: f"{bsp['seconds'] / ours['seconds']:.2f}" if ours and bsp else NOT_REACHED)


def in_one(part):
    """(header, lines): all three tables in one."""
    tables = [*(values(part, key, shape)[1] for key, shape in SHOWN), gains(part)[1]]
    lines = []
    for (name, *seconds), (_, *iterations), (_, *times) in zip(*tables):
        lines.append([name, *(f"{one} ({steps}, {gain})" if one != NOT_REACHED else one
                              for one, steps, gain in zip(seconds, iterations, times))])
    return ["staleness", *map(str, part["slowdowns"])], lines


def notes(part):
    missed = [run for run in part["runs"] if not run["reached"]]
    known = f"; {part['known_loss']:.4f} is known to be possible" if part["known_loss"] else ""
    said = [f"{part['workers']} workers, a step takes {part['step_ms']:g} ms (slept for what computing leaves of it), "
            f"until the {part['measure']} is {part['until']:g}{known}; medians of {part['rounds']} "
            f"run{'s' if part['rounds'] > 1 else ''}: kolo-train {part['options']}"]
    if missed:
        cells = dict.fromkeys((name_of(run["staleness"]), run["slowdown"]) for run in missed)
        said.append(f"{len(missed)} runs did not get there: "
                    + ", ".join(f"staleness {staleness} at slowdown {slowdown}" for staleness, slowdown in cells))
    return said


def tables_of(part):
    """(title, header, lines) of each."""
    for key, shape in SHOWN:
        yield f"{title_of(part)}: {key} to the loss", *values(part, key, shape)
    if 0 in part["stalenesses"]:
        yield f"{title_of(part)}: times as fast as BSP", *gains(part)


class Staleness(Command):
    name, results_format, plots, what = "staleness", 1, "staleness.staleness_plots", "parts"

    def parse(self, arguments):
        return staleness_options.parse(arguments)

    def begin(self, options, built):
        if not built.kolo_program("kolo-train").is_file():
            raise processes.StepError(f"{built.kolo_build} has no bin/kolo-train, which needs a BLAS")
        return {"parts": []}

    def measure_into(self, results, options, built):
        cells = [(staleness, slowdown) for slowdown in options.slowdowns for staleness in options.stalenesses]
        parts = [(problem, straggler) for problem in options.problems for straggler in options.stragglers]
        progress = rounds.Progress(len(parts) * options.rounds * len(cells))
        try:
            for problem, straggler in parts:
                part = self.begin_part(problem, straggler, options)
                results["parts"].append(part)
                for number in range(options.rounds):
                    for staleness, slowdown in cells[number % len(cells):] + cells[:number % len(cells)]:
                        progress.show(f"{problem}, {straggler}, staleness {staleness}, slowdown {slowdown}")
                        self.run(part, staleness, slowdown, options, built)
                        save(results, options.json)
                        progress.step()
        finally:
            progress.end()

    def begin_part(self, problem, straggler, options):
        words, until = PROBLEMS[problem]
        words = ["--problem", problem, *words, *shlex.split(options.train)]
        return {"problem": problem, "straggler": straggler, "options": shlex.join(words), "until": options.until or until, "measure": "loss",
                "known_loss": None, "workers": options.workers, "step_ms": options.step_ms, "rounds": options.rounds,
                "slowdowns": options.slowdowns, "stalenesses": options.stalenesses, "runs": []}

    def run(self, part, staleness, slowdown, options, built):
        out = options.json.with_suffix(".run")
        slow = "any" if part["straggler"] == "any" else options.workers - 1
        command = [built.kolo_program("kolorun"), "-n", options.workers, "--bind", "none", built.kolo_program("kolo-train"),
                   "--quiet", *shlex.split(part["options"]), *modes(staleness), "--step-ms", options.step_ms,
                   "--slow", f"{slow}:{slowdown}", "--until", part["until"], "--every", 1, "--json", out]
        code, error = processes.run(list(map(str, command)), processes.environment({}), options.timeout)
        try:
            report = json.loads(out.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            report = None
        out.unlink(missing_ok=True)
        if report is None:
            raise Cut(f"kolo-train failed: {error or f'exit status {code}'}")
        part["measure"], part["known_loss"] = report["measure"], report["known_loss"]
        part["runs"].append({"staleness": staleness, "slowdown": slowdown, "reached": report["reached"],
                             "loss": report["loss"], "waited_seconds": [each["waited_seconds"] for each in report["times"]]})

    def terminal(self, results):
        lines = [*folded(machine.in_a_line(results["machine"])), ""]
        for part in results["parts"]:
            for title, header, rows in tables_of(part):
                lines += [title, *plain(header, rows), ""]
            lines += [line for note in notes(part) for line in folded(note)] + [""]
        return "\n".join(lines)

    def report(self, results, path, images):
        lines = [*report_begin("Stragglers and staleness", results, "python3 bench/staleness"),
                 f"Machine: {machine.in_a_line(results['machine'])}.", "",
                 "For each slowdown: seconds to the loss (iterations to it, times as fast as BSP). "
                 "`bench/staleness/README.md` says what that means.", ""]
        drawn = set()  # problems
        for part in results["parts"]:
            lines += [f"## {title_of(part).capitalize()}", ""]
            if part["problem"] not in drawn:
                lines += image_lines(images.get(part["problem"], []), path)
                lines += [*notes(part)[:1], ""]
            drawn.add(part["problem"])
            lines += [*markdown_table(*in_one(part)), "", *(f"- {note}\n" for note in notes(part)[1:])]
        return "\n".join(lines).rstrip() + "\n"
