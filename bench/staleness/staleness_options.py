"""The command line of bench/staleness, checked."""

from compare import bench_options
from compare.bench_options import number, numbers, words

UNBOUNDED = "unbounded"
STALENESSES = [0, 1, 3, 10, UNBOUNDED]
SLOWDOWNS = [1, 2, 5, 10]
STALENESS_MAX = 1000000
# What is trained: kolo-train's options, and the loss at which it stops.
PROBLEMS = {
    "digits": (["--hidden", "64", "--batch", "256", "--rule", "sgd", "--rate", "0.3"], 0.15),
    "logistic": (["--batch", "1024", "--rate", "0.3"], 0.355),
    "factorization": (["--batch", "4096", "--rate", "0.3"], 0.3),
}
# Who is slow: always the last worker, or in each step another one, drawn at random.
STRAGGLERS = ("last", "any")
EXAMPLES = """\
One worker takes so many times as long for a step as the others: always the
last one, or in each step any of them, drawn at random. With staleness 0 (BSP)
all wait for it in each step; with s (SSP) a worker may be s steps ahead; with
unbounded staleness (ASP) nobody waits. Iterations are the steps of all workers
together until the loss is reached.

A step computes, and then sleeps until --step-ms are over, so that it takes as
long with more workers than CPUs as with a CPU for each.

Exit status: 0 done; 1 something failed or could not be built; 2 bad command
line; 130 interrupted.

examples:
  python3 bench/staleness --quick
  python3 bench/staleness --problems logistic --workers 8 --slowdowns 1,5
  python3 bench/staleness --results stragglers.md --plots bench/plots
  python3 bench/staleness --replot build/compare/staleness.json --plots plots
"""


def stalenesses(text):
    """A list with commas; sorted, each once, the unbounded one last."""
    parts = [part.strip() for part in text.split(",")]
    bounds = sorted({number(0, STALENESS_MAX)(part) for part in parts if part != UNBOUNDED})
    return [*bounds, *([UNBOUNDED] if UNBOUNDED in parts else [])]


def parser():
    made = bench_options.parser(
        "python3 bench/staleness", EXAMPLES,
        "Measures how many iterations and seconds the workers of a parameter server take\n"
        "to a fixed loss when one of them is slow, with every bound on staleness.")
    what = made.add_argument_group("what is measured")
    what.add_argument("--problems", type=words(*PROBLEMS), metavar="LIST", default=list(PROBLEMS),
                      help="which of " + ", ".join(PROBLEMS) + " (default: all)")
    what.add_argument("--stragglers", type=words(*STRAGGLERS), metavar="LIST", default=list(STRAGGLERS),
                      help="who is slow: the last worker, or any, in each step another (default last,any)")
    what.add_argument("--stalenesses", type=stalenesses, metavar="LIST", default=STALENESSES,
                      help="numbers, or unbounded (default 0,1,3,10,unbounded)")
    what.add_argument("--slowdowns", type=numbers(1, 1000), metavar="LIST", help="default 1,2,5,10")
    what.add_argument("--workers", type=number(2, 64), metavar="N", default=4, help="default 4")
    what.add_argument("--until", type=number(1e-9, 1e9, float), metavar="LOSS", help="the loss, of all problems (default: "
                      + ", ".join(f"{name} {until:g}" for name, (_, until) in PROBLEMS.items()) + ")")
    how = made.add_argument_group("how")
    how.add_argument("--quick", action="store_true", help="slowdowns 1 and 5, and one round")
    how.add_argument("--step-ms", type=number(0, 10000, float), metavar="X", default=2,
                     help="a step takes so long, and a slow one that many times as long (default 2)")
    how.add_argument("--rounds", type=number(1, 1000), metavar="N", help="whose medians count (default 3; quick: 1)")
    how.add_argument("--timeout", type=number(1, 86400), metavar="S", default=60, help="of one training (default 60)")
    how.add_argument("--train", metavar="OPTIONS", default="", help="more options for kolo-train")
    bench_options.add_builds(made.add_argument_group("what is needed"), "bench/compare's, ")
    bench_options.add_output(made, "staleness.json")
    return made


def parse(arguments):
    return bench_options.parse(parser(), arguments, "staleness.json", {"slowdowns": SLOWDOWNS, "rounds": 3},
                               {"slowdowns": [1, 5], "rounds": 1})
