"""How the ranks of each library are started on the nodes of a lab. A start is what runs on which node; all of it is to
end well."""

import os
import pathlib
import re
import subprocess

import lab
from comparison import peers, processes

GLOO_RANK = pathlib.Path(peers.__file__).with_name("gloo_rank.py")
PORT = 29500
SECRET = "of a measurement: nobody else is in this network"
AGENT = """host=$1
shift
case $host in
{cases}*) echo "no such node: $host" >&2; exit 255 ;;
esac
exec {enter} sh -c "$*"
"""


def environment(variables):
    return processes.environment({"KOLO_SECRET": SECRET, "KOLO_TUNE_FILE": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables})


class Configuration:
    """One way to run one library. `variables` are what make it."""

    def __init__(self, key, title, configuration, variables=None):
        self.key, self.title, self.configuration = key, title, configuration
        self.variables = variables or {}

    def start(self, machines, nodes, ranks, program):
        """Starts a program with `ranks` ranks on each of the first `nodes` nodes."""
        raise NotImplementedError


class Kolo(Configuration):
    """By kolorun on each node."""

    def __init__(self, kolorun, driver, configuration="default", variables=None):
        super().__init__("kolo", "kolo", configuration, variables)
        self.kolorun, self.driver = kolorun, [driver]

    def start(self, machines, nodes, ranks, program, around=lambda node: ()):
        rendezvous = f"{machines.nodes[0].address}:{PORT}"
        return [node.start([self.kolorun, "--nnodes", nodes, "--node-rank", node.index, "--rendezvous", rendezvous,
                            "-n", ranks, "--bind", "none", "--", *program], environment(self.variables),
                           around=around(node)) for node in machines.nodes[:nodes]]


class Gloo(Configuration):
    """Each rank by itself, with the variables that tell it its place."""

    def __init__(self, python, library):
        super().__init__("torch", "Gloo (PyTorch)", "default",
                         {"GLOO_SOCKET_IFNAME": lab.INTERFACE, "OMP_NUM_THREADS": "1"})
        self.driver = [python, "-B", GLOO_RANK, library]

    def start(self, machines, nodes, ranks, program):
        def variables(rank):
            return environment({**self.variables, "KOLO_SIZE": str(nodes * ranks), "KOLO_RANK": str(rank)})
        return [machines.nodes[rank // ranks].start(program, variables(rank)) for rank in range(nodes * ranks)]


class OpenMpi(Configuration):
    """By mpirun on node 0, which reaches the others by an agent in place of ssh."""

    def __init__(self, peer, configuration="default", settings=()):
        super().__init__(peer.key, peer.title, configuration)
        self.mpirun, self.driver = peer.mpirun, [peer.driver]
        said = subprocess.run([peer.mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False)
        version = re.search(r"(\d+)\.\d", said.stdout)
        self.has_prte = version is not None and int(version[1]) >= 5
        self.settings = settings

    def start(self, machines, nodes, ranks, program):
        agent = machines.folder / "agent"
        cases = "".join(f"{node.name}) pid={node.holder.pid} ;;\n" for node in machines.nodes)
        enter = machines.nodes[0].holder.enter(*machines.nodes[0].namespaces)
        enter[enter.index("--target") + 1] = "$pid"
        agent.write_text(AGENT.format(cases=cases, enter=" ".join(enter)), encoding="ascii")
        hosts = ",".join(f"{node.name}:{ranks}" for node in machines.nodes[:nodes])
        reach = (["--prtemca", "plm_ssh_agent", f"sh {agent}", "--prtemca", "prte_if_include", lab.INTERFACE]
                 if self.has_prte else
                 ["--mca", "plm_rsh_agent", f"sh {agent}", "--mca", "oob_tcp_if_include", lab.INTERFACE])
        command = [self.mpirun, "--oversubscribe", "--bind-to", "none", *reach, "--mca", "pml", "ob1", "--mca",
                   "btl_tcp_if_include", lab.INTERFACE, *self.settings, "--host", hosts, "-n", nodes * ranks, *program]
        if nodes * ranks > len(os.sched_getaffinity(0)):
            command[1:1] = ["--mca", "mpi_yield_when_idle", "1"]
        return [machines.nodes[0].start(command, environment(self.variables))]


def configurations(built, chosen, threads):
    """(those of the chosen libraries that are installed, {title: why not}); kolo first."""
    kolo = peers.Kolo("kolo", "kolo")
    kolo.prepare(built)
    known = [peer for peer in peers.all_peers("torch") if peer.key in chosen]
    present, absent = peers.prepare(known, built)
    found = [Kolo(kolo.kolorun, kolo.driver, "default" if threads == 1 else f"{threads} threads",
                  {"KOLO_NET_THREADS": str(threads)})]
    for peer in present:
        if peer.key == "torch":
            found.append(Gloo(peer.python, peer.library))
        else:
            found += [OpenMpi(peer), OpenMpi(peer, "4 links", ("--mca", "btl_tcp_links", "4"))]
    return found, {peer.title: absent[peer.key] for peer in known if peer.key in absent}
