"""MPI jobs on several machines, which are network namespaces of this one (tests/net/lab.py). The MPI's own launcher
starts what it needs on the others by an agent of ours in the place of ssh."""

import collections
import os
import pathlib
import shlex
import shutil
import sys

sys.path[:0] = (str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("net", "tools"))

import lab  # noqa: E402 (the path has to be set first)

LIBRARY = os.environ.get("KOLO_MPI_LIBRARY")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LAUNCHERS = ("KOLO_", "OMPI_", "PMI", "HYD", "SLURM_")  # variables that another one may have left

Family = collections.namedtuple("Family", "name mpirun library agent hosts options by_node")

OPENMPI = Family(
    "openmpi", "mpirun.openmpi", "libmpi.so.40", "--mca plm_rsh_agent", "--host",
    # Ranks let others run, as they do where there are more of them than processors. Daemons notice a cut cable soon.
    "--bind-to none --mca mpi_yield_when_idle 1 --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1"
    " --mca oob_tcp_keepalive_probes 2", "--map-by node")
MPICH = Family("mpich", "mpirun.mpich", "libmpich.so.12", "-launcher ssh -launcher-exec", "-hosts", "", "-ppn 1")


def make_agent(machines, around=lambda node: ()):
    """What the launcher calls as ssh. around: the beginning of all commands on that machine."""
    path = machines.folder / "agent"
    cases = "".join(f'{node.name}|{node.address}) exec {shlex.join([*node.enter(), *around(node)])} sh -c "$*" ;;\n'
                    for node in machines.nodes)
    path.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n'
                    f'case $host in\n{cases}esac\nexit 1\n', encoding="ascii")
    path.chmod(0o755)
    return path


def start_words(machines, words, **variables):
    """Starts a launcher on the first machine; a lab.Running."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return machines.nodes[0].start(words, {**kept, **AS_ROOT, "KOLO_TUNE_FILE": "none", **variables})


def start(machines, family, ranks, command, *, by_node=False, preload=True, around=lambda node: (), **variables):
    """Starts a job, of so many ranks on each machine."""
    hosts = ",".join(f"{node.name}:{count}" for node, count in zip(machines.nodes, ranks))
    words = [family.mpirun, *family.agent.split(), make_agent(machines, around), family.hosts, hosts,
             *family.options.split(), *(family.by_node.split() if by_node else []), "-n", sum(ranks)]
    if preload:
        words += ["env", f"LD_PRELOAD={LIBRARY}"]
    return start_words(machines, [*around(machines.nodes[0]), *words, *command], **variables)


def start_programs(machines, family, ranks, command, **variables):
    """The same by kolo-mpi, as a program for each machine; to the others the agent passes no variables, as ssh."""
    own = [f"{name}={value}" for name, value in {"PATH": os.environ["PATH"], **AS_ROOT}.items()]
    agent = make_agent(machines, lambda node: ["env", "-i", *own])
    words = [pathlib.Path(LIBRARY).parents[1] / "bin/kolo-mpi", family.mpirun, *family.agent.split(), agent,
             *family.options.split()]
    for node, count in zip(machines.nodes, ranks):
        words += [*([":"] if node.index else []), family.hosts, f"{node.name}:{count}", "-n", count, *command]
    return start_words(machines, words, **variables)


def is_installed(family):
    return shutil.which(family.mpirun) is not None
