"""The machine, as a report has to name it."""

import os
import pathlib
import platform


def read(path, default=""):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return default


def entry(path, name):
    """What stands behind the name in a file of such lines, or nothing."""
    return next((line[len(name):].strip() for line in read(path).splitlines() if line.startswith(name)), "")


def memory_free_bytes():
    limits = [read(f"/sys/fs/cgroup/{name}") for name in ("memory.max", "memory/memory.limit_in_bytes")]  # a container's
    return min([int(entry("/proc/meminfo", "MemAvailable:").removesuffix("kB") or 0) * 1024,
                *(int(limit) for limit in limits if limit.isdigit())])


def describe(found):
    """`found`: what kolo-info says of the machine."""
    caches = [f"{level} {found[f'{level.lower()}_bytes'] >> 10}K" for level in ("L1d", "L2", "L3")]
    return {"cpu": found["cpu_model"], "cpus_online": found["cpus_online"], "cpus_allowed": found["cpus_allowed"],
            "caches": ", ".join(caches), "memory_bytes": found["memory_bytes"],
            "kernel": ".".join(platform.release().split(".")[:2]), "system": entry("/etc/os-release", "PRETTY_NAME=").strip('"') or "unknown",
            "is_virtual": " hypervisor" in read("/proc/cpuinfo"),
            "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled", "unknown")}


def in_a_line(machine):
    if isinstance(machine, str):
        return machine
    kind = "virtual machine" if machine["is_virtual"] else "machine"
    return (f"{machine['cpu']}, {machine['cpus_allowed']} CPUs of a {kind} ({machine['caches']}), "
            f"{machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']}, {machine['system']}")


def cpus_in_order():
    """The CPUs that we may use, one of each core before any second thread of one."""
    allowed = sorted(os.sched_getaffinity(0))
    firsts, seconds, cores = [], [], set()
    for cpu in allowed:
        core = read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
        (seconds if core in cores else firsts).append(cpu)
        cores.add(core)
    return firsts + seconds
