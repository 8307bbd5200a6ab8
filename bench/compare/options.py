"""The command line of bench/compare, checked."""

import pathlib
import re

from compare import bench_options, peers, sweep
from compare.bench_options import number, numbers, sizes, words
from compare.rounds import Case

DEFAULT_SIZES = [8, 64, 256, *(2**power for power in range(10, 29, 2))]  # 8 B ... 256 MiB
SWEEP_SIZES = [8 * 8**power for power in range(8)]  # 8 B ... 16 MiB
QUICK_SIZES = [8, 512, 4096, 65536, 1 << 20, 1 << 24, 1 << 26]
RANKS_MAX, ROUNDS_MAX = 1024, 1000
OF_BLOCKS = ("reduce_scatter", "allgather", "gather", "scatter", "alltoall")  # their sizes are those of all blocks
HEADER = pathlib.Path(__file__).resolve().parents[2] / "include" / "kolo_types.h"
OF_KOLO = [name.lower() for name in re.findall(r"(?m)^    KOLO_(\w+),", re.search(
    r"(?s)typedef enum kolo_collective \{.*?KOLO_ALLOC,", HEADER.read_text(encoding="utf-8")).group())][:-1]
# Those with data of which MPI has the like, with blocks of equal length.
COLLECTIVES = [name for name in OF_KOLO if name != "barrier" and not name.startswith("allreduce_") and name[-1] != "v"]
EXAMPLES = """\
The default measures 2, 4 and 8 ranks, and more where there are CPUs: f32 in
warm, dirty and cold buffers and in place for 2 ranks, bf16 for 2 ranks, warm
f32 for more. Naming any of --dtype, --buffers, --in-place, --out-of-place
measures all combinations of what is named instead.

A peer that is not installed is named at the end, with how to install it.

Exit status: 0 done; 1 kolo could not be built or measured, or a result of
kolo's was wrong, or something could not be written; 2 bad command line;
130 interrupted (the cases that were done are kept).

examples:
  python3 bench/compare --install --quick
  python3 bench/compare --collective reduce,allgather --ranks 4 --quick
  python3 bench/compare --preload --peers openmpi-debian,mpich-debian --quick
  python3 bench/compare --ranks 2 --buffers cold --sizes 64K:64M:4 --plots plots
  python3 bench/compare --results bench/RESULTS.md --plots bench/plots
  python3 bench/compare --sweep 9 --results many.md --plots plots
  python3 bench/compare --replot build/compare/results.json --plots plots
"""


def parser(torch_default, peer_keys):
    made = bench_options.parser(
        "python3 bench/compare", EXAMPLES,
        "Measures collectives of kolo and of the other libraries on this machine, in\n"
        "turn, and prints a table for each case: times, the ratio to the fastest other\n"
        "library, and the share of the hardware's bound.")
    what = made.add_argument_group("what is measured")
    what.add_argument("--ranks", type=numbers(2, RANKS_MAX), metavar="LIST", help="numbers of processes, such as 2,4,8")
    what.add_argument("--sizes", type=sizes, metavar="SIZES", help="MIN:MAX:FACTOR or a list; K, M, G (default 8, 64, "
                      "256, 1K, then by 4 to 256M)")
    what.add_argument("--collective", type=words(*COLLECTIVES), metavar="LIST",
                      help="of kolo and the MPIs, out of place, from or to rank 0: " + ", ".join(COLLECTIVES) +
                      " (default allreduce)")
    what.add_argument("--dtype", type=words("f32", "bf16"), metavar="LIST", help="f32, bf16")
    what.add_argument("--buffers", type=words("warm", "dirty", "cold"), metavar="LIST", help="warm, dirty, cold")
    what.add_argument("--in-place", action="store_true", help="the result replaces the input")
    what.add_argument("--out-of-place", action="store_true", help="the result has a buffer of its own")
    what.add_argument("--start", action="store_true", help="nothing but the time from exec to the first result, and memory")
    what.add_argument("--peers", type=words(*peer_keys), metavar="LIST", help="only these: " + ", ".join(peer_keys))
    what.add_argument("--no-peers", action="store_true", help="kolo alone, and what --peer-file adds")
    what.add_argument("--preload", action="store_true", help="each MPI also by kolo-mpi, with kolo's collectives")
    what.add_argument("--peer-file", type=peers.described, action="append", default=[], metavar="FILE",
                      help="a further library, described in JSON (README.md)")
    how = bench_options.add_how(made, "few sizes, cases and rounds: about 3 minutes", "rounds (default 5; quick: 3)",
                                "default 100; quick: 50", "default: 60 and 5 for each size")
    how.add_argument("--extra-rounds", type=number(0, 1000), metavar="N", help="at most so many more rounds, if a "
                     "state of the machine has too few (default: as many as --rounds; 0: the bound is not measured "
                     "again either)")
    how.add_argument("--sweep", type=number(0.1, 600, float), metavar="MINUTES", help="as much as fits into the time: "
                     "all collectives, 2, 4, 8 and 16 ranks where there are CPUs, 8 B to 16 MiB, warm and dirty, kolo and "
                     "the MPIs that are found; then kolo's lanes")
    how.add_argument("--unpinned", action="store_true", help="leave placement to the kernel")
    places = made.add_argument_group("what is needed")
    places.add_argument("--install", action="store_true", help="first install the peers, and matplotlib")
    places.add_argument("--torch", default=torch_default, metavar="SPEC", help="what pip installs as PyTorch, with "
                        f"pip's own options if need be (default {torch_default})")
    bench_options.add_builds(places)
    bench_options.add_output(made, "results.json")
    return made


def chosen_ranks(options, cpus):
    if options.ranks:
        return options.ranks
    if options.sweep:
        return [ranks for ranks in sweep.RANKS if ranks <= cpus]
    if options.quick:
        return [2, 4]
    more = [2**power for power in range(4, 11) if 2**power <= cpus]
    return [2, 4, 8, *more]


def cases(options, cpus):
    """Only the all-reduce is measured in place, too: the MPIs have the others' results elsewhere than kolo."""
    found = cases_of_one(options, cpus)
    return [case._replace(collective=name) for name in options.collective for case in found
            if name == "allreduce" or not case.in_place]


def cases_of_one(options, cpus):
    ranks = chosen_ranks(options, cpus)
    if options.dtype or options.buffers or options.in_place or options.out_of_place:
        places = [place for place, named in ((False, options.out_of_place), (True, options.in_place)) if named]
        return [Case(n, dtype, buffers, place) for n in ranks for dtype in options.dtype or ["f32"]
                for buffers in options.buffers or ["warm"] for place in places or [False]]
    found = []
    for n in ranks:
        found.append(Case(n, "f32", "warm", False))
        if n == 2 and not options.quick:
            found += [Case(n, "f32", "cold", False), Case(n, "f32", "dirty", False), Case(n, "f32", "warm", True),
                      Case(n, "f32", "cold", True), Case(n, "bf16", "warm", False)]
    return found


def parse(arguments, torch_default, known):
    made = parser(torch_default, [peer.key for peer in known])
    sweeps = any(word.startswith("--sweep") for word in arguments)
    options = bench_options.parse(made, arguments, "results.json",
                                  {"sizes": SWEEP_SIZES if sweeps else DEFAULT_SIZES,
                                   "rounds": ROUNDS_MAX if sweeps else 5, "budget_ms": 100},
                                  {"sizes": QUICK_SIZES, "rounds": 3, "budget_ms": 50})
    options.collective = options.collective or (COLLECTIVES if options.sweep else ["allreduce"])
    if options.sweep and not (options.buffers or options.dtype or options.in_place or options.out_of_place):
        options.buffers = ["warm", "dirty"]
    options.extra_rounds = options.rounds if options.extra_rounds is None else options.extra_rounds
    if options.start and (options.results or options.plots):
        made.error("--start makes neither a report nor plots")
    if options.peers and options.no_peers:
        made.error("--peers and --no-peers exclude one another")
    if options.in_place and not options.out_of_place and options.collective != ["allreduce"]:
        made.error("--in-place is for allreduce alone")
    keys = [peer.key for peer in options.peer_file]
    for key in keys:
        if keys.count(key) > 1 or key in ("kolo", *(peer.key for peer in known)):
            made.error(f"argument --peer-file: there are two peers with the key {key}")
    return options
