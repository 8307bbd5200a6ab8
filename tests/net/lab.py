"""Several machines within one: nodes that have a network, a /dev/shm, a host name and, where wanted, process ids of
their own, each with one cable to a common switch.

    with Lab(3, rate_mbit=1000) as lab:
        done = lab.nodes[1].run(["ping", "-c1", "node0"])

A node is a set of namespaces, which a process holds that waits for this one: when the lab ends, or is killed, the
namespaces go, and with them cables and switch. The file system is that of the machine, except for /dev/shm, in which
`lab.folder` alone is common to all nodes and the machine. Needs root, ip, tc, unshare, nsenter and mount; Missing
says what is not there or not allowed.

A cable's rate is kept on both of its ends, by token buckets: what fits into one (burst_bytes) passes at once.
Bytes are those of whole Ethernet frames, or of what the kernel hands over as one and would cut into frames later."""

import collections
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

NETWORK, NETWORK6 = "10.77.0", "fd77::"
INTERFACE = "eth0"
BURST_BYTES, LATE_S = 65536 + 4096, 0.0005  # one of what is sent as a whole, and how late a timer may be
QUEUE_S, QUEUE_BYTES_MIN = 0.02, 2 << 20  # in the buffer of a cable's end, about as in a switch
PATIENCE_S = 100
PROGRAMS = ("ip", "tc", "unshare", "nsenter", "mount")
CONGESTION = "cubic"  # what most machines have

LIBC = ctypes.CDLL(None, use_errno=True)
SET_DEATH_SIGNAL = 1  # prctl
PREFIX = "net-lab-"  # of the folder, with the pid of the program behind it

Done = collections.namedtuple("Done", "code out err")
Traffic = collections.namedtuple("Traffic", "sent received")  # bytes, as the node sees it


class Missing(Exception):
    """The machine lacks or forbids what a lab needs."""


def run(command, text=None):
    """A step of making a lab."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        words = shlex.join(command) + (f" ({text.strip().splitlines()[0]} ...)" if text else "")
        raise Missing(f"{words}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def attempt(command):
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def namespace_of(pid):
    """What names the network that a process is in; None where it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def remove_stale():
    """The folders of labs whose program was killed."""
    for path in pathlib.Path("/dev/shm").glob(f"{PREFIX}*"):
        if not os.path.exists(f"/proc/{path.name[len(PREFIX):].partition('-')[0]}"):
            shutil.rmtree(path, ignore_errors=True)


def end_with_parent():
    LIBC.prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


class Holder:
    """A process in new namespaces, which lasts as long as they are to; `script` runs there first. It ends when its
    standard input does, so also when this process is killed."""

    def __init__(self, flags, script):
        self.forks = "--fork" in flags
        command = ["unshare", *flags, "sh", "-ec", f"{script}\necho ready\nexec cat"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, start_new_session=True)
        if self.process.stdout.readline() != "ready\n":
            self.process.stdin.close()
            said = self.process.stderr.read().strip()
            self.close()
            raise Missing(f"no namespaces can be made: {said}")
        self.pid = children(self.process.pid)[0] if self.forks else self.process.pid

    def enter(self, *flags):
        """The words that begin a command in the namespaces."""
        return ["nsenter", "--target", str(self.pid), *flags, "--"]

    def close(self):
        self.process.kill()
        if self.forks:
            for pid in children(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()


class Running:
    """A command that runs on a node; its output goes to files, so that it never waits for us."""

    def __init__(self, command, environment, stdin):
        self.files = [tempfile.TemporaryFile() for _ in range(2)]
        self.process = subprocess.Popen(command, stdin=stdin, stdout=self.files[0], stderr=self.files[1],
                                        env=environment, start_new_session=True, preexec_fn=end_with_parent)

    def texts(self):
        """(standard output, standard error) so far."""
        return [os.pread(file.fileno(), 1 << 24, 0).decode("utf-8", "replace") for file in self.files]

    def wait(self, timeout_s=PATIENCE_S):
        """Its end, as Done; code None where it had to be killed after timeout_s."""
        code = None
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return Done(code, *self.texts())

    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        """Kills it and the processes of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.is_running():
            self.kill()
        if self.process.stdin:
            self.process.stdin.close()
        for file in self.files:
            file.close()


class Node:
    """One of the machines. `rank` of nothing: nodes are counted from 0."""

    def __init__(self, lab, index, own_pids):
        self.lab = lab
        self.index = index
        self.name = f"node{index}"
        self.address, self.address6 = f"{NETWORK}.{index + 1}", f"{NETWORK6}{index + 1:x}"
        flags = ["--net", "--mount", "--uts", "--ipc"]
        if own_pids:
            flags += ["--pid", "--fork", "--kill-child", "--mount-proc"]
        self.namespaces = ["--net", "--mount", "--uts", "--ipc", *(["--pid"] if own_pids else [])]
        self.holder = Holder(flags, self.script(lab.folder, lab.hosts))
        self.namespace = namespace_of(self.holder.pid)

    def script(self, folder, hosts):
        """What makes it a machine of its own: /dev/shm, host name and names of the others."""
        folder = shlex.quote(str(folder))
        return "\n".join([f"hostname {self.name}", "mount --make-rprivate /", f"exec 3<{folder}",
                          "mount -t tmpfs -o size=1g,mode=1777 node /dev/shm", f"mkdir {folder}",
                          f"mount --no-canonicalize --bind /proc/self/fd/3 {folder}", "exec 3<&-",
                          f"mount --bind {shlex.quote(str(hosts))} /etc/hosts", "mount -t sysfs node /sys",
                          "ip link set lo up"])

    def enter(self):
        return self.holder.enter(*self.namespaces)

    def start(self, command, environment=None, stdin=subprocess.DEVNULL, around=()):
        """Starts a command; it is killed at the end of the lab. around: the beginning of the command on the machine
        that starts it, as one that watches it."""
        running = Running([str(word) for word in [*around, *self.enter(), *command]], environment, stdin)
        self.lab.running.append(running)
        return running

    def run(self, command, environment=None, timeout_s=PATIENCE_S):
        return self.start(command, environment).wait(timeout_s)

    def pids(self):
        """Of all processes on the node but its holder, as the machine counts them."""
        own = {self.holder.pid, self.holder.process.pid}
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid not in own and namespace_of(pid) == self.namespace and is_running(pid)]

    def kill(self):
        """Kills all processes of the node, as a loss of power would, except that the kernel still closes sockets."""
        end_s = time.monotonic() + PATIENCE_S
        while pids := self.pids():
            if time.monotonic() > end_s:
                raise AssertionError(f"{self.name}: processes that cannot be killed: {pids}")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def plug(self, is_in):
        """Pulls the cable out, or puts it back: frames are lost, and nobody is told."""
        self.lab.in_switch(["ip", "link", "set", self.name, "up" if is_in else "down"])

    def block(self, others, how, both=True):
        """Has its firewall do that with what comes from those nodes and, if both, with what goes to them: "drop",
        "reject", "reject with tcp reset"; None: nothing any more."""
        rules = ["add table inet cut", "delete table inet cut"]
        if how:
            only = "tcp flags & rst == 0 " if "reset" in how else ""
            rules.append("add table inet cut")
            for hook, end in (("input", "saddr"), ("output", "daddr")) if both else (("input", "saddr"),):
                rules.append(f"add chain inet cut {hook} {{ type filter hook {hook} priority 0; }}")
                rules += [f"add rule inet cut {hook} ip {end} {other.address} {only}{how}" for other in others]
        run(self.enter() + ["nft", "; ".join(rules)])

    def shm_names(self):
        """What lies in its /dev/shm."""
        return sorted(set(os.listdir(f"/proc/{self.holder.pid}/root/dev/shm")) - {self.lab.folder.name})

    def sockets(self):
        """Its TCP sockets that have not ended, a line each. One in FIN-WAIT-2 has on this side: the kernel keeps it for a
        minute where the other side's end has been lost."""
        listed = run(self.enter() + ["ss", "-tanH"]).splitlines()
        return [line for line in listed if not line.startswith(("TIME-WAIT", "FIN-WAIT-2"))]

    def traffic(self):
        return self.lab.traffic()[self.index]


def burst_bytes(rate_mbit):
    """A cable's bucket. What waits for as many tokens as it has bytes, up to BURST_BYTES, goes when a timer says so;
    tokens that come meanwhile, and have no room, are lost, and the cable is slower than its rate."""
    return BURST_BYTES + int(rate_mbit * 1e6 / 8 * LATE_S)


class Lab:
    """`nodes` machines. rate_mbit: of each cable in each direction, in 10^6 bits a second; None: as fast as they go.
    own_pids: each node counts its processes from 1, and its end is the end of all of them."""

    def __init__(self, nodes, rate_mbit=None, own_pids=False):
        self.count = nodes
        self.rate_mbit = rate_mbit
        self.own_pids = own_pids
        self.nodes = []
        self.running = []
        self.switch = None
        self.folder = None
        self.has_ipv6 = False
        self.congestion = CONGESTION  # control, by route: a namespace may not choose any for itself

    def __enter__(self):
        lacking = [program for program in PROGRAMS if not shutil.which(program)]
        if lacking:
            raise Missing(f"not installed: {', '.join(lacking)}")
        if os.geteuid() != 0:
            raise Missing("only root may make network namespaces")
        try:
            self.make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def make(self):
        remove_stale()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir="/dev/shm"))
        self.hosts = self.folder / "hosts"
        names = [f"127.0.0.1 localhost\n{NETWORK}.{i + 1} node{i}\n{NETWORK6}{i + 1:x} node{i}-6\n"
                 for i in range(self.count)]
        self.hosts.write_text("".join(names), encoding="ascii")
        self.switch = Holder(["--net"], "ip link set lo up")
        self.in_switch(["ip", "link", "add", "switch", "type", "bridge", "mcast_snooping", "0"])
        self.in_switch(["ip", "link", "set", "switch", "up"])
        for index in range(self.count):
            self.nodes.append(Node(self, index, self.own_pids))
        for node in self.nodes:
            self.connect(node)
        self.wait_for_cables()

    def connect(self, node):
        run(self.switch.enter("--net") + ["ip", "-batch", "-"],
            f"link add {node.name} type veth peer name {INTERFACE} netns {node.holder.pid}\n"
            f"link set {node.name} master switch up\n")
        run(node.enter() + ["ip", "-batch", "-"],
            f"addr add {node.address}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n")
        # No connection begins with what an earlier one has found out: runs are independent.
        run(node.enter() + ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save"])
        self.has_ipv6 = attempt(node.enter() + ["ip", "addr", "add", f"{node.address6}/64", "dev", INTERFACE, "nodad",
                                                "noprefixroute"])
        routes = [(f"{NETWORK}.0/24", ["src", node.address]), *([(f"{NETWORK6}/64", [])] if self.has_ipv6 else [])]
        for network, options in routes:
            route = node.enter() + ["ip", "route", "replace", network, "dev", INTERFACE, *options]
            if not attempt([*route, "congctl", CONGESTION]):
                self.congestion = "the system's"
                run(route)
        if self.rate_mbit:
            self.limit(node)

    def limit(self, node):
        rate = self.rate_mbit * 1000000
        queue_bytes = max(int(rate / 8 * QUEUE_S), QUEUE_BYTES_MIN)
        for enter, device in ((node.enter(), INTERFACE), (self.switch.enter("--net"), node.name)):
            run(enter + ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{rate}bit", "burst",
                         str(burst_bytes(self.rate_mbit)), "limit", str(queue_bytes)])

    def wait_for_cables(self):
        deadline = time.monotonic() + PATIENCE_S
        while any(link["operstate"] != "UP" for link in self.links() if link["ifname"].startswith("node")):
            if time.monotonic() > deadline:
                raise Missing("the cables do not come up")
            time.sleep(0.01)

    def in_switch(self, command):
        return run(self.switch.enter("--net") + command)

    def links(self):
        return json.loads(self.in_switch(["ip", "-s", "-j", "link"]))

    def traffic(self):
        """Of each node, in order, as Traffic since its cable was laid."""
        by_name = {link["ifname"]: link["stats64"] for link in self.links()}
        return [Traffic(by_name[node.name]["rx"]["bytes"], by_name[node.name]["tx"]["bytes"]) for node in self.nodes]

    def close(self):
        """Ends all that runs, and removes all."""
        for running in self.running:
            running.close()
        for node in self.nodes:
            if not self.own_pids:
                node.kill()
            node.holder.close()
        if self.switch:
            self.switch.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.running, self.nodes, self.switch, self.folder = [], [], None, None


def until(condition, timeout_s=PATIENCE_S):
    """Waits until condition() is true; returns whether it became so in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def interrupt(_number, _frame):
    """For signal.signal: a signal ends the program as an exception does, so that labs are closed."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def io_uring_disabled():
    """No io_uring on this machine for a while, for all processes. Missing where that cannot be set."""
    path = pathlib.Path("/proc/sys/kernel/io_uring_disabled")
    try:
        before = path.read_text(encoding="ascii")
        path.write_text("2", encoding="ascii")
    except OSError as error:
        raise Missing(f"{path}: {errno.errorcode.get(error.errno, error)}") from error
    try:
        yield
    finally:
        path.write_text(before, encoding="ascii")
