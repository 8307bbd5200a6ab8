"""What bench/compare measures, and how it is shown."""

from compare import (balance, installing, machine, options, peers, processes, rounds, starts, states, summary, sweep,
                     tables)
from compare.bench_command import Command, prepare, save

TORCH = "torch==2.13.0"


def chosen_peers(chosen):
    known = [] if chosen.no_peers else peers.all_peers(chosen.torch)
    if chosen.sweep and not chosen.peers:
        known = [peer for peer in known if isinstance(peer, peers.Mpi)]
    if chosen.peers:
        known = [peer for peer in known if peer.key in chosen.peers]
    return known + chosen.peer_file


def whole_sizes(case, sizes):
    """In which all ranks have blocks of equal length; bytes of the blocks of all ranks together."""
    unit = 4 * case.ranks if case.collective in options.OF_BLOCKS else 4
    return sorted({max(size // unit, 1) * unit for size in sizes})


def fitting_sizes(case, sizes):
    """Those whose buffers fit into the memory, with room for the libraries' own."""
    buffers = case.ranks * (1 if case.in_place else 2)
    available = machine.memory_free_bytes()
    return [size for size in sizes if size * buffers * 1.5 <= available]


class Compare(Command):
    name, results_format, plots, what = "compare", 2, "compare.plots", "cases"
    report = staticmethod(tables.report)

    @staticmethod
    def terminal(results):
        return starts.table(results) if "starts" in results else tables.terminal(results)

    def parse(self, arguments):
        return options.parse(arguments, TORCH, peers.all_peers(TORCH))

    def begin(self, chosen, built):
        processes.remove_stale_folders()
        if chosen.install:
            installing.install(chosen_peers(chosen), chosen.cache)
        self.present, known = prepare(chosen_peers(chosen), built)
        if chosen.preload:
            preloaded = [peers.Preloaded(peer, built) for peer in self.present if isinstance(peer, peers.Mpi)]
            self.present += preloaded
            known["libraries"].update({peer.key: {"title": peer.title, "version": ""} for peer in preloaded})
        self.cpus = machine.cpus_in_order()
        return {"plan": {"rounds": chosen.rounds, "extra_rounds": chosen.extra_rounds, "budget_ms": chosen.budget_ms,
                         "pinned": not chosen.unpinned, "cpus": self.cpus}, **known, "cases": []}

    def measure_starts(self, results, chosen):
        plan = rounds.Plan([8], chosen.rounds, 0, chosen.timeout or 60, self.cpus)
        results["starts"] = []
        for ranks in options.chosen_ranks(chosen, len(self.cpus)):
            results["starts"].append(starts.measure(plan, self.present, ranks, self.complain))
            save(results, chosen.json)

    def measure_into(self, results, chosen, built):
        if chosen.start:
            return self.measure_starts(results, chosen)
        cases = options.cases(chosen, len(self.cpus))
        if chosen.sweep:
            self.sweep(results, chosen, built, cases)
            return
        starts = sum(len(peer.launches(case.ranks, len(self.cpus))) for peer in self.present for case in cases)
        progress = rounds.Progress(starts * chosen.rounds)
        try:
            for case in cases:
                self.measure_case(results, chosen, built, case, progress)
        finally:
            progress.end()

    def plan_of(self, chosen, case):
        """(The plan, notes on what it leaves out); None for a case without sizes."""
        whole = whole_sizes(case, chosen.sizes)
        sizes = fitting_sizes(case, whole)
        if not sizes:
            self.complain(f"{rounds.label(case)}: no size fits into the memory that is free")
            return None
        plan = rounds.Plan(sizes, chosen.rounds, chosen.budget_ms, chosen.timeout or 60 + 5 * len(sizes), self.cpus,
                           not chosen.unpinned, chosen.extra_rounds)
        return plan, [f"{summary.size_text(size)}: needs more memory than is free" for size in whole if size not in sizes]

    def sweep(self, results, chosen, built, cases):
        cells = []
        for case in cases:
            planned = self.plan_of(chosen, case)
            if planned:
                cells.append(sweep.Cell(case, planned[0]._replace(twice=False), planned[1], self.present))
        jobs = sweep.lanes_jobs(len(self.cpus))
        sweep.Sweep(results, cells, built, chosen.sweep, chosen.rounds,
                    lambda made: save(made, chosen.json)).run(jobs)

    def measure_case(self, results, chosen, built, case, progress):
        planned = self.plan_of(chosen, case)
        if not planned:
            return
        plan, notes = planned
        all_series, bounds = balance.measure_case(plan, case, self.present, built.kolo_program("kolo-perf"), progress)
        made = {**case._asdict(), "sizes": plan.sizes, "bounds": bounds, "notes": notes,
                "series": [series.as_json() for series in all_series]}
        states.mark(made)
        results["cases"].append(made)
        rounds.name_libraries(results, {series.peer.key: series.library
                                        for series in all_series if series.library})
        save(results, chosen.json)
