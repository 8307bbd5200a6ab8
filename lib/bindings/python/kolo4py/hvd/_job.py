"""The job that this process belongs to, and its communicator, which all calls of kolo4py.hvd use; each optimizer has one of
its own."""

import weakref
from typing import Any, Optional

import kolo4py as kolo

_comm: Optional[kolo.Comm] = None
_copies: "weakref.WeakSet[kolo.Comm]" = weakref.WeakSet()  # those of optimizers


def init(**options: Any) -> None:
    """Joins the other ranks, and waits for them; rank and size come from the launcher. options: of kolo.init. Does
    nothing if it was called before."""
    global _comm
    if _comm is None:
        _comm = kolo.init(**{"progress": True, **options})


def shutdown() -> None:
    """Leaves the other ranks. init may follow."""
    global _comm
    made, _comm = _comm, None
    for comm in (*_copies, *([made] if made else ())):
        comm.close()
    _copies.clear()


def communicator() -> kolo.Comm:
    """That of init."""
    if _comm is None:
        raise kolo.ArgumentError("kolo4py.hvd is not initialized: call hvd.init() first")
    return _comm


def duplicate() -> kolo.Comm:
    """A communicator of the same ranks for its caller alone, until shutdown. Every rank calls it."""
    made = communicator().dup()
    _copies.add(made)
    return made


def is_initialized() -> bool:
    return _comm is not None


def rank() -> int:
    """This process's number, 0 to size() - 1."""
    return communicator().rank


def size() -> int:
    """How many processes there are."""
    return communicator().size


def local_rank() -> int:
    """This process's number among those of its machine."""
    return communicator().local_rank


def local_size() -> int:
    """How many processes this machine has."""
    return communicator().local_size


def cross_rank() -> int:
    """This machine's number."""
    return communicator().node


def cross_size() -> int:
    """How many machines there are."""
    return communicator().nodes


def mpi_threads_supported() -> bool:
    """False: kolo is not MPI."""
    return False


def nccl_built() -> int:
    """0: kolo has no GPUs."""
    return 0
