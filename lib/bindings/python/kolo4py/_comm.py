"""Communicators: made, divided, shrunk, grown, ended; and what they tell of themselves."""

from __future__ import annotations

import ctypes
import math
import operator
import os
from types import TracebackType

from . import _elements, _interrupts, _library, _shared
from ._calls import Caller
from ._errors import ArgumentError, Error
from ._handle import Handle, creation_error
from ._messages import Messages
from ._typing import NamedTuple, TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence, Type, Union

CAUSES = ("none", "killed", "exited", "ended", "left", "stopped", "stalled", "aborted", "mismatch", "failed", "silent",
          "execed")


class Failure(NamedTuple):
    """What broke a communicator, the same on every rank."""
    error: Error
    cause: str  # of kolo_cause: "killed", "exited", "left", "stopped", "stalled", "aborted", "mismatch" and others
    rank: int  # at fault
    reporter: int  # the rank that found it
    code: int  # of abort, or the signal or exit status
    call: int  # the reporter's, counted from 1; 0: outside a call


class Comm(Messages):
    """A communicator: this process's place among `size` ranks. Made by init, split, dup, shrink, grow and join. One
    thread at a time uses it. As a context manager it is closed at the end.

    rank: 0 to size - 1. local_rank, local_size: the same among the ranks of this machine. node, nodes: this machine's
    number, and how many there are."""

    def __init__(self, handle: Handle, has_thread: bool) -> None:
        self._handle, self._has_thread = handle, has_thread
        self._caller = Caller(handle, has_thread)
        info = _library.comm_info(handle.comm)
        self.rank: int = info.rank
        self.size: int = info.size
        self.local_rank: int = info.local_rank
        self.local_size: int = info.local_size
        self.node: int = info.node
        self.nodes: int = info.nodes

    def __repr__(self) -> str:
        state = ", closed" if self._handle.closed else ", broken" if self.failure else ""
        return f"<kolo.Comm rank {self.rank} of {self.size}{state}>"

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._handle.close(kind)
        self._handle.fail(0)  # what a handler has raised meanwhile

    def close(self) -> None:
        """Leaves the communicator, and before it its tables, as Table.close does. Waits for no rank; but on several machines
        the lowest rank of each waits until all workers have left these tables or ended: leave the tables of all
        communicators first. Requests in flight fail; later calls raise Broken. While arrays of `empty` are still referred
        to, their memory stays, and the other ranks see this one leave only with its end."""
        self.__exit__(None, None, None)

    def _derived(self, name: str, *arguments: Any) -> "Optional[Comm]":
        """What a function of the library has made that gets the communicator, these arguments and a place."""
        place = ctypes.c_void_p()
        handle = self._handle
        handle.refuse_closed()
        self._caller.settle(messages=True)
        function = getattr(handle.library, f"kolo_{name}")
        status = function(handle.comm, *arguments, ctypes.addressof(place))
        if status:
            handle.fail(status)
        made = Comm(Handle(place.value), self._has_thread) if place.value else None
        handle.fail(0)
        return made

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Comm]":
        """Divides the ranks into groups: those with the same color, 0 to 2**31 - 1, get a communicator of their own, in
        the order of their keys, of 32 bits. With color None this rank is in no group, and gets None. Every rank calls it."""
        color = -1 if color is None else _library.integer(color, "color", 0)
        return self._derived("comm_split", color, _library.integer(key, "key"))

    def dup(self) -> "Comm":
        """A second communicator of the same ranks, for another thread or library. Every rank calls it."""
        made = self._derived("comm_dup")
        assert made is not None
        return made

    def shrink(self) -> "Comm":
        """A new communicator of the ranks that are left of this one, which is broken and stays so. Every rank that is
        left calls it. The ranks may not all have got equally far: agree first where to go on."""
        handle, place = self._handle, ctypes.c_void_p()
        handle.refuse_closed()
        status, message = handle.call_apart(handle.library.kolo_comm_shrink, place)
        if status:
            raise handle.error(status, message)
        return Comm(Handle(place.value), self._has_thread)

    def listen(self, job: str) -> int:
        """Begins to listen for processes that want to join under that job's name (kolo.join). Every rank calls it.
        Returns a descriptor, which grow takes and kolo.unlisten closes."""
        self._caller.settle(messages=True)
        place = ctypes.c_int(-1)
        status = self._handle.library.kolo_comm_listen(self._handle.comm, job.encode(), ctypes.addressof(place))
        if status or _interrupts.raised:
            self._handle.fail(status)
        return place.value

    def grow(self, listener: int, timeout: float = 10.0) -> "Optional[Comm]":
        """A communicator of these ranks and the processes that wait at the listener; this one is then broken. None: no
        process waits. timeout: seconds until all have to be ready. Every rank calls it."""
        options = _library.GrowOptions(ctypes.sizeof(_library.GrowOptions), listener,
                                       _milliseconds(timeout, "timeout"), None, None)
        return self._derived("comm_grow", ctypes.addressof(options))

    def abort(self, code: int = 1) -> None:
        """Breaks the communicator for all ranks: their present or next call raises Aborted with that code."""
        status = self._handle.library.kolo_comm_abort(self._handle.comm, _library.integer(code, "code"))
        if status:
            self._handle.fail(status)

    @property
    def timeout(self) -> float:
        """Seconds that this rank waits for another one within a call; 0: no limit. Can be set, by any thread: a call that
        waits already has the new limit, too, and so have groups that are made later. Each rank sets its own."""
        self._handle.refuse_closed(is_call=False)
        milliseconds: int = _library.comm_info(self._handle.comm).timeout_ms
        return milliseconds / 1000

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._handle.refuse_closed(is_call=False)
        status = self._handle.library.kolo_comm_set_timeout(self._handle.comm, _milliseconds(seconds, "timeout"))
        if status:
            raise self._handle.error(status, _library.message())

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def failure(self) -> Optional[Failure]:
        """What broke it; None: it is not broken, or it is closed."""
        found = self._handle.failure()
        if found is None:
            return None
        error = self._handle.error(found.status, found.message.decode(errors="replace"))
        return Failure(error, CAUSES[found.cause], found.rank, found.reporter, found.code, found.call)

    @property
    def stats(self) -> "Dict[str, Union[int, Dict[str, int]]]":
        """What this rank has done on it so far: calls, payload_bytes, waits_slept, segment_bytes and others, as
        kolo_stats in kolo_comm.h has them."""
        self._handle.refuse_closed(is_call=False)
        status, told = _library.read_stats(self._handle.comm)
        if status:
            self._handle.fail(status)
        return told

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "float32", *,
              shared: bool = False) -> _shared.SharedArray:
        """A zeroed array in memory that all ranks have mapped, between which all_reduce copies nothing. Every rank calls
        it with the same shape and dtype: a name of NumPy's, such as "float32" or "f4", "bfloat16", or a type of NumPy's,
        ml_dtypes' or PyTorch's. No length may be 0.

        shared: one array for all ranks of a machine. What a rank writes there all have, and it may be `out` of collectives
        that give all ranks the same; see KOLO_ALLOC_SHARED in kolo_memory.h.

        Its memory is given back by `free`, which all ranks call, and never before the end of the communicator otherwise:
        ranks forget their arrays at different times. On a closed communicator it stays for as long as something refers to
        it."""
        lengths = tuple(map(operator.index, shape if hasattr(shape, "__iter__") else (shape,)))
        element = _elements.must_name(dtype)
        if min(lengths, default=1) < 1:
            raise ArgumentError(f"shape {lengths} has a length below 1")
        self._caller.settle(messages=True)
        place = ctypes.c_void_p()
        bytes_ = _library.integer(element.bytes * math.prod(lengths), f"shape {lengths} in bytes:", 1, _library.COUNT_MAX)
        status = self._handle.library.kolo_alloc_with(self._handle.comm, bytes_, shared, ctypes.addressof(place))
        if status or _interrupts.raised:
            self._handle.fail(status)
        array = _shared.make(place.value or 0, element, lengths, self._handle)
        self._handle.hold_for(array)
        return array

    def share(self, array: Any) -> _shared.Shared:
        """Makes an array that the program has, of NumPy, DLPack or the buffer protocol, one like those of `empty`: all
        ranks map its memory, which keeps its address and contents, and calls between such arrays copy nothing. Every rank
        calls it with an array of its own, of the same size, and waits for the others. Undone by close() of what it
        returns, the end of its with block, or the end of the communicator; only then may the memory be freed or resized.

            memory = mmap.mmap(-1, items * 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            x = numpy.frombuffer(memory, "f4")
            with comm.share(x):
                comm.all_reduce(x, x)

        The array begins a page, of 4096 bytes, and is whole pages, of private memory that is no file's. Allocators give
        such memory seldom: take it from mmap, as above, or a part of something larger:

            larger = numpy.empty(items + 1024, "f4")
            first = -larger.ctypes.data % 4096 // 4
            x = larger[first:first + items]    # items: a multiple of 1024

        During this call and close() no other thread may write to the memory. While it is shared, a child of fork has the
        same memory, not a copy: what it writes there the parent sees. Huge pages that the memory had are replaced by
        small ones, and locks, NUMA policies and advice are gone; register it with io_uring or a device afterwards.

        ArgumentError, on every rank: the memory of one is none of that; on that rank the message has the address, and what
        lies there. NoSpace, Error: on every rank. After an error the memory is what it was."""
        return _shared.Shared(self, array)

    def free(self, array: _shared.SharedArray) -> None:
        """Gives memory of `empty` back at once. Every rank frees the same arrays in the same place among its calls.
        Nothing may use the memory afterwards: neither this array nor another one, such as NumPy's, of its memory."""
        if not isinstance(array, _shared.SharedArray) or not self._handle.holds_for(array):
            raise ArgumentError("array is none of this communicator's `empty`, or has been freed")
        self._caller.settle(messages=True)
        status = self._handle.library.kolo_free(self._handle.comm, array.address)
        if status == 0:
            self._handle.let_go(array)
        self._handle.fail(status)


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else value.encode()


def _milliseconds(seconds: Optional[float], name: str) -> int:
    if seconds is not None and not 0 <= seconds < 2**53:
        raise ArgumentError(f"{name} {seconds} is {'negative' if seconds < 0 else 'no time'}; 0 is no limit")
    return -1 if seconds is None else max(1, int(1000 * seconds)) if seconds else 0


def init(rank: Optional[int] = None, size: Optional[int] = None, *, name: Optional[str] = None,
         rendezvous: Optional[str] = None, shm_fd: Optional[int] = None, timeout: Optional[float] = None,
         create_timeout: Optional[float] = None, threads: Optional[int] = None, progress: Optional[bool] = None,
         algorithm: str = "auto", slot_bytes: int = 0) -> Comm:
    """Makes a communicator together with all other ranks, and waits for them. Whatever is not given comes from the
    environment, as kolorun, mpirun, srun and torchrun set it; with nothing there it has one rank.

    rank, size: this process's number, and how many there are.
    name: of the job, which all ranks share. rendezvous: "HOST:PORT" where ranks on several machines meet; "": all are
    on this machine. shm_fd: a descriptor of an empty shared file instead of a name.
    timeout: seconds that a call waits for a rank, 300 if not given; create_timeout: that this one waits, 60. 0: no limit.
    threads: with which each rank moves its data. progress: whether a thread carries out calls in the background.
    algorithm, slot_bytes: see kolo_comm.h.

    Raises ArgumentError, Timeout (with the ranks that never came), NoSpace, Mismatch, VersionMismatch, PeerDead, Error;
    ImportError without the library."""
    library = _library.load()
    if algorithm not in _elements.ALGORITHMS:
        raise ArgumentError(f"algorithm {algorithm!r} is none of {', '.join(_elements.ALGORITHMS)}")
    options = _library.Options(
        ctypes.sizeof(_library.Options), -1 if rank is None else rank, -1 if size is None else size, _text(name),
        -1 if shm_fd is None else shm_fd, _elements.ALGORITHMS[algorithm], _milliseconds(timeout, "timeout"),
        _milliseconds(create_timeout, "create_timeout"), slot_bytes, _text(rendezvous),
        0 if progress is None else 1 if progress else -1, threads or 0)
    place = ctypes.c_void_p()
    status, message = _interrupts.call_apart(library.kolo_comm_create, place, ctypes.byref(place), ctypes.byref(options))
    if status:
        raise creation_error(status, message)
    return Comm(Handle(place.value), _environment_asks_for_thread() if progress is None else progress)


def join(job: str, message: bytes = b"", timeout: float = 10.0) -> Comm:
    """Asks the ranks that listen under that name (Comm.listen) to take this process in, and waits for their answer.
    message: for a check that they may have. timeout: seconds until all are ready, once it is taken."""
    library = _library.load()
    text = ctypes.create_string_buffer(message, len(message) or 1)
    options = _library.JoinOptions(ctypes.sizeof(_library.JoinOptions), job.encode(), ctypes.addressof(text),
                                   len(message), _milliseconds(timeout, "timeout"), None, None)
    options.keep = text
    place = ctypes.c_void_p()
    status, told = _interrupts.call_apart(library.kolo_comm_join, place, ctypes.byref(place), ctypes.byref(options))
    if status:
        raise creation_error(status, told)
    return Comm(Handle(place.value), _environment_asks_for_thread())


def unlisten(listener: int, why: Optional[str] = None) -> None:
    """Closes a descriptor of Comm.listen. why: the answer to the processes that wait there; None: other ranks still
    listen."""
    text = None if why is None else ctypes.create_string_buffer(why.encode())
    _library.load().kolo_comm_unlisten(_library.integer(listener, "listener"), text)


def _environment_asks_for_thread() -> bool:
    return os.environ.get("KOLO_PROGRESS", "0") == "1"
