"""How the ranks of each library are started on the nodes of a lab, and waited for. A start is what runs on which node;
all of it is to end well."""

import os
import re
import subprocess
import time

import lab
from compare import peers, processes

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


def by_kolorun(machines, nodes, ranks, kolorun, program, variables, around=lambda node: ()):
    """Starts a program with `ranks` ranks on each of the first `nodes` nodes: kolorun on each of them."""
    rendezvous = f"{machines.nodes[0].address}:{PORT}"
    return [node.start([kolorun, "--nnodes", nodes, "--node-rank", node.index, "--rendezvous", rendezvous, "-n", ranks,
                        "--bind", "none", "--", *program], environment(variables), around=around(node))
            for node in machines.nodes[:nodes]]


def by_mpirun(machines, nodes, ranks, mpirun, program, settings):
    """Likewise: mpirun on node 0, which reaches the others by an agent in place of ssh."""
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r"(\d+)\.\d", said.stdout)
    agent = machines.folder / "agent"
    cases = "".join(f"{node.name}) pid={node.holder.pid} ;;\n" for node in machines.nodes)
    enter = machines.nodes[0].holder.enter(*machines.nodes[0].namespaces)
    enter[enter.index("--target") + 1] = "$pid"
    agent.write_text(AGENT.format(cases=cases, enter=" ".join(enter)), encoding="ascii")
    hosts = ",".join(f"{node.name}:{ranks}" for node in machines.nodes[:nodes])
    reach = (["--prtemca", "plm_ssh_agent", f"sh {agent}", "--prtemca", "prte_if_include", lab.INTERFACE]
             if version and int(version[1]) >= 5 else
             ["--mca", "plm_rsh_agent", f"sh {agent}", "--mca", "oob_tcp_if_include", lab.INTERFACE])
    command = [mpirun, "--oversubscribe", "--bind-to", "none", *reach, "--mca", "pml", "ob1", "--mca",
               "btl_tcp_if_include", lab.INTERFACE, *settings, "--host", hosts, "-n", nodes * ranks, *program]
    if nodes * ranks > len(os.sched_getaffinity(0)):
        command[1:1] = ["--mca", "mpi_yield_when_idle", "1"]
    return [machines.nodes[0].start(command, environment({}))]


def wait(running, timeout_s):
    """Waits for all parts of a job: (exit code, None where it took too long; what went wrong in words, or None)."""
    deadline = time.monotonic() + timeout_s
    try:
        for part in running:
            done = part.wait(max(0.1, deadline - time.monotonic()))
            if done.code != 0:
                how = f"was not done after {timeout_s:.0f} s" if done.code is None else processes.ending(done.code)
                return done.code, f"{how}: {processes.quoted(done.err + done.out)}"
        return 0, None
    finally:
        for part in running:
            part.close()


class Launch(peers.Launch):
    """One way to start a library's driver on nodes, which start(options) does."""

    def __init__(self, configuration, start):
        super().__init__(configuration, [], pinned=False)
        self.start = start

    def run(self, options, timeout_s):
        return wait(self.start(options), timeout_s)


def launches(peer, place, threads):
    """Those of a library. `place`: lab, nodes and ranks on each."""
    if isinstance(peer, peers.Kolo):
        return [Launch("default" if threads == 1 else f"{threads} threads", lambda options: by_kolorun(
            *place, peer.kolorun, [peer.driver, *options], {"KOLO_NET": f"threads:{threads}"}))]
    if isinstance(peer, peers.Gloo):
        return [Launch("default", lambda options: by_kolorun(
            *place, peer.kolorun, [*peer.rank, *options],
            {"GLOO_SOCKET_IFNAME": lab.INTERFACE, "OMP_NUM_THREADS": "1"}))]
    return [Launch(name, lambda options, settings=settings: by_mpirun(
        *place, peer.mpirun, [peer.driver, *options], settings))
        for name, settings in (("default", ()), ("4 links", ("--mca", "btl_tcp_links", "4")))]
