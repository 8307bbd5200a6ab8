"""The command line of bench/net, checked."""

from compare import bench_options
from compare.bench_options import number, numbers, sizes, words

PEERS = ("openmpi-debian", "openmpi", "torch")
DEFAULT_SIZES = [8, 64, 512, *(4**power for power in range(6, 14))]  # 8 B ... 64 MiB
QUICK_SIZES = [8, 4096, 65536, 1 << 20, 1 << 24]
TRANSPORT_SIZES = [8, 65536, 1 << 20, 1 << 24, 1 << 26]
QUICK_TRANSPORT_SIZES = [65536, 1 << 24]
WORKERS_MAX = 10
EXAMPLES = """\
Nodes are network namespaces of this machine, each with a /dev/shm and a host
name of its own, and a cable to one switch, whose rate token buckets keep in
each direction (tests/net/lab.py). Needs root, and for other libraries
bench/compare's installations (python3 bench/compare --install).

All nodes share this machine's CPUs. Where these and not the cables are the
limit, a time says little about nodes: on few CPUs keep workers times rate
small. The tables show how busy the CPUs were.

Exit status: 0 done; 1 something failed or could not be built; 2 bad command
line; 77 namespaces are not allowed here; 130 interrupted.

examples:
  python3 bench/net --quick
  python3 bench/net --parts libraries --rate 1000 --ranks 2
  python3 bench/net --parts architectures --workers 2,6,10 --rate 100
  python3 bench/net --results bench/net/NET-RESULTS.md --plots bench/plots
  python3 bench/net --replot build/compare/net.json --plots plots
"""


def parser(parts):
    made = bench_options.parser(
        "python3 bench/net", EXAMPLES,
        "Measures the all-reduce between nodes: kolo on io_uring and on poll, kolo beside\n"
        "Open MPI over TCP and Gloo, parameter servers, mesh and ring for 2 to 10\n"
        "workers, and what compression saves.")
    what = made.add_argument_group("what is measured")
    what.add_argument("--parts", type=words(*parts), metavar="LIST", default=list(parts),
                      help="which of " + ", ".join(parts) + " (default: all)")
    what.add_argument("--nodes", type=number(2, WORKERS_MAX), metavar="N", default=2,
                      help="nodes in the parts transports, libraries and compression (default 2)")
    what.add_argument("--ranks", type=number(1, 64), metavar="N", default=1, help="ranks on each node (default 1)")
    what.add_argument("--rate", type=number(1, 100000), metavar="MBIT", default=1000,
                      help="rate of each cable and direction in these parts (default 1000)")
    what.add_argument("--threads", type=number(1, 8), metavar="N", default=1,
                      help="kolo's network threads on each node (default 1)")
    what.add_argument("--sizes", type=sizes, metavar="SIZES", help="MIN:MAX:FACTOR or a list; K, M, G (default 8, 64, "
                      "512, then by 4 from 4K to 64M)")
    what.add_argument("--peers", type=words(*PEERS, "none"), metavar="LIST", default=list(PEERS),
                      help="which of " + ", ".join(PEERS) + ", or none")
    what.add_argument("--workers", type=numbers(2, WORKERS_MAX), metavar="LIST", default=list(range(2, WORKERS_MAX + 1)),
                      help="nodes in the part architectures, one rank on each (default 2 to 10)")
    what.add_argument("--worker-rate", type=number(1, 100000), metavar="MBIT", default=200,
                      help="rate of each cable in that part (default 200)")
    what.add_argument("--worker-bytes", type=number(1 << 16, 1 << 30), metavar="N", default=16 << 20,
                      help="message size in that part (default 16777216)")
    how = bench_options.add_how(made, "fewer sizes, workers and rounds: some minutes",
                                "of libraries (default 3; quick: 1)", "default 300", "default 300")
    how.add_argument("--calls", type=number(2, 1000), metavar="N", default=3,
                     help="calls, whose median is the time of an architecture (default 3)")
    bench_options.add_builds(made.add_argument_group("what is needed"), "bench/compare's, ")
    bench_options.add_output(made, "net.json")
    return made


def parse(arguments, parts):
    options = bench_options.parse(parser(parts), arguments, "net.json",
                                  {"sizes": DEFAULT_SIZES, "rounds": 3, "budget_ms": 300, "timeout": 300},
                                  {"sizes": QUICK_SIZES, "rounds": 1})
    usual = QUICK_TRANSPORT_SIZES if options.quick else TRANSPORT_SIZES
    options.transport_sizes = usual if options.sizes in (DEFAULT_SIZES, QUICK_SIZES) else options.sizes
    if options.quick:
        options.workers = [count for count in options.workers if count in (2, 4, 10)] or options.workers
    return options
