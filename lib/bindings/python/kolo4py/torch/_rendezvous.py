"""init_process_group under launchers that set no RANK, such as kolorun and mpirun, where the program names no MASTER_PORT: the
ranks meet as those of a program in C do (kolo.init), and rank 0 tells the others where PyTorch's store is. Where all
have one /proc that is a file in rank 0's memory, which nobody can reach from outside and which ends with rank 0: one for
all its meetings, as PyTorch may open it for as long as the process lives. Else it is a port of rank 0's machine, as under
torchrun."""

import datetime
import functools
import importlib
import itertools
import os
import socket
from typing import Any, Iterator, Tuple
from urllib.parse import parse_qs, urlparse

_meetings = itertools.count()
LONGEST = datetime.timedelta(days=365)  # that kolo takes, and less than what PyTorch's clocks have room for
LAUNCHED = ("KOLO_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def _host() -> str:
    """Of rank 0, by which the other ranks reach it."""
    return os.environ.get("KOLO_RENDEZVOUS", "").rpartition(":")[0].strip("[]") or socket.gethostname()


def _file_at(path: str) -> "Tuple[int, int] | None":
    """Which file this process finds there."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        return None


@functools.lru_cache(maxsize=None)
def _file_of(pid: int) -> str:
    return f"/proc/{pid}/fd/{os.memfd_create('kolo-torch-store')}"


def _meet(timeout: datetime.timedelta) -> "Tuple[Any, int, int]":
    import kolo4py as kolo
    from torch._C._distributed_c10d import FileStore, PrefixStore, TCPStore
    timeout = min(timeout, LONGEST)
    with kolo.init(create_timeout=timeout.total_seconds()) as comm:
        if comm.nodes == 1:
            path, number = comm.broadcast_object((_file_of(os.getpid()), next(_meetings)) if comm.rank == 0 else None)
            found = set(comm.all_gather_object(_file_at(path)))
            if len(found) == 1 and None not in found:
                return PrefixStore(f"{number}", FileStore(path, comm.size)), comm.rank, comm.size
        store = TCPStore(_host(), 0, comm.size, True, timeout, False) if comm.rank == 0 else None
        host, port = comm.broadcast_object(store and (_host(), store.port))
        os.environ.setdefault("MASTER_ADDR", host)  # which the backend asks for
        return store or TCPStore(host, port, comm.size, False, timeout), comm.rank, comm.size


def add_launchers() -> None:
    """To those with which PyTorch's "env://", its default, works."""
    handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    by_variables = handlers["env"]

    def handler(url: str, timeout: datetime.timedelta = datetime.timedelta(minutes=30), **options: Any) \
            -> "Iterator[Tuple[Any, int, int]]":
        named = {key: int(values[0]) for key, values in parse_qs(urlparse(url).query).items() if key in ("rank", "world_size")}
        if ("RANK" in os.environ or (named and {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys())
                or not any(name in os.environ for name in LAUNCHED)):
            yield from by_variables(url, timeout=timeout, **options)
            return
        store, rank, size = _meet(timeout)
        for key, ours in (("rank", rank), ("world_size", size)):
            if named.get(key, ours) != ours:
                raise ValueError(f"{key} is {named[key]}, and the launcher's is {ours}: for other ranks than those that it has"
                                 " started set MASTER_ADDR and MASTER_PORT")
        yield store, rank, size

    handlers["env"] = handler
