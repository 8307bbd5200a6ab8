"""A communicator of the library: its pointer, its end, and its errors.

The pointer is one ctypes object that every call passes, also those that Comm.plan has bound. When the communicator is closed
it becomes NULL, and every later call is refused. The library's communicator ends then too; but if memory of Comm.empty
is still referred to, only when the last such reference goes."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from types import TracebackType

from . import _errors, _interrupts, _library
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple, Type

    from ._requests import Background

KILLED, EXITED = 1, 2  # of kolo_cause
NOT_MADE = (_errors.ArgumentError, _errors.Unsupported, TypeError)  # errors of a call that leave the communicator usable


def _ranks_of(text: str) -> "Tuple[int, ...]":
    """Of a list such as "1, 3-5"."""
    import re
    ranks: "List[int]" = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        ranks += range(int(first), int(last or first) + 1)
    return tuple(ranks)


def creation_error(status: int, message: str) -> _errors.Error:
    """Of a call that has made no communicator, or failed without breaking one."""
    if status == _errors.TIMEOUT:
        import re
        late = re.search(r"rank ([\d, -]+?)(?: and others)? (?:never )?came", message)
        return _errors.Timeout(message, _ranks_of(late.group(1)) if late else ())
    kind = _errors.WITHOUT_FACTS.get(status)
    return kind(message) if kind else _errors.Error(message, status)


class Undivided:
    """Around a call that is several collectives or messages. A rank that raises between two of them, as Ctrl-C may, aborts
    the communicator: else the others would take its next call for the rest of this one. It does not where all ranks raise
    at the same place, with RankFailed. Nor does it for an argument that the first collective has refused, until `begun`
    is set."""

    def __init__(self, handle: "Handle", begun: bool) -> None:
        self._handle, self.begun = handle, begun

    def __enter__(self) -> "Undivided":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None or issubclass(kind, _errors.RankFailed) or (issubclass(kind, NOT_MADE) and not self.begun):
            return
        self._handle.abort_for(kind)


_open: "weakref.WeakSet[Handle]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """While the interpreter is whole: so that other ranks see this one leave. Why it ends is not known: sys.exit(1) leaves
    no trace."""
    handles = list(_open)
    for handle in handles:  # all tables first: the end of a communicator may wait for a rank that waits in any of them
        handle.close(SystemExit, is_last=False)
    for handle in handles:
        handle.close(SystemExit)
    error = _interrupts.take()
    if error is not None:
        raise error


class TablePlace(ctypes.c_void_p):
    """A table's address, which the library fills in."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict  # whether no rank goes on after another one's death
        self.ended: "List[int]" = []  # one number, from when the library has freed it


class Handle:
    """Owns the library's communicator."""

    def __init__(self, address: "Optional[int]") -> None:
        self.library = _library.load()
        self.comm = ctypes.c_void_p(address)  # what calls pass
        self._owned = address
        self.closed = False
        self.answers: Any = _interrupts.answers()
        self._is_late = False  # whether a handler has closed it in a wait: `fail` goes on
        self._apart = False  # whether another thread is in a call
        self._memories: "Dict[int, weakref.ref[Any]]" = {}  # by address
        self.adopted: "Dict[int, Any]" = {}  # memory of Comm.share by address, kept while all ranks have it mapped
        self.flying: Dict[Any, None] = {}  # requests that are not complete: the library has their buffers
        self.tables: "List[TablePlace]" = []
        self.background: "Optional[Background]" = None  # from the first request on, if there is a progress thread
        self._hooks = _interrupts.listen(self.comm, self.answers)
        _open.add(self)

    def abort_for(self, kind: Type[BaseException]) -> None:
        """Because such an exception ends what the other ranks wait for."""
        code = 1 if issubclass(kind, (Exception, SystemExit)) else _interrupts.INTERRUPTED
        self.library.kolo_comm_abort(self.comm, code)  # refused where it is broken already

    def close(self, kind: Optional[Type[BaseException]] = None, is_last: bool = True) -> None:
        """Every later call is refused. Unless the program has asked for it, `kind` says why: the other ranks must not go on
        as if this one had left in order a table that needs all. The call in whose wait a handler closes it is aborted.
        Unless `is_last`, it only leaves its tables."""
        self._is_late = self.answers.gi_running
        if self._is_late or (kind and not self.closed and any(place.is_strict for place in self.tables)):
            self.abort_for(kind or SystemExit)
        self.closed = True
        self.comm.value = None
        self._destroy_if_unused(is_last)

    def _destroy_if_unused(self, is_last: bool = True) -> None:
        if self.closed and not self._apart and not self.answers.gi_running:
            for place in self.tables[::-1]:
                self.end_table(place)
            address = self._owned if is_last and not self._memories else None
            if address:
                self._owned = None
                wake = self.background.end() if self.background else lambda: None
                self.library.kolo_comm_destroy(ctypes.c_void_p(address))
                self.adopted.clear()  # which it has given back
                for request in list(self.flying):  # which it has completed
                    request.collect()
                wake()

    def end_table(self, place: TablePlace) -> None:
        """This rank leaves the table. As in Request.collect, one instruction frees it and stores that."""
        if place and not place.ended:
            self.refuse_handler()
            place.ended.extend(map(self.library.kolo_table_destroy, (place,)))
        place.value = None
        if place in self.tables:
            self.tables.remove(place)

    def call_apart(self, function: Any, place: ctypes.c_void_p) -> "Tuple[int, str]":
        """A function of this communicator and a place. If it is interrupted, the communicator stays until it ends."""
        def ended() -> None:
            self._apart = False
            self._destroy_if_unused()

        self._apart = True
        return _interrupts.call_apart(function, place, self.comm, ctypes.byref(place), ended=ended)

    def hold_for(self, array: Any) -> None:
        """The memory of `array` is the communicator's: it is not destroyed while that lives."""
        address: int = array.address

        def gone(_reference: "weakref.ref[Any]") -> None:
            self._memories.pop(address, None)
            self._destroy_if_unused()

        self._memories[address] = weakref.ref(array.memory, gone)

    def holds_for(self, array: Any) -> bool:
        reference = self._memories.get(array.address)
        return reference is not None and reference() is array.memory

    def let_go(self, array: Any) -> None:
        self._memories.pop(array.address, None)

    def give_back(self, address: int) -> None:
        """Ends what Comm.share has done with the memory there; also on a communicator that is closed, but still there."""
        status = self.library.kolo_free(ctypes.c_void_p(self._owned), address)
        if status == 0:
            self.adopted.pop(address, None)
        self.fail(status)

    def __del__(self) -> None:
        self._memories.clear()
        self.close(SystemExit)

    def undivided(self, begun: bool = True) -> Undivided:
        if begun:
            self.refuse_handler()
        return Undivided(self, begun)

    def failure(self) -> Optional[_library.Failure]:
        """What broke it; None: it is not broken."""
        failure = _library.Failure(failure_bytes=ctypes.sizeof(_library.Failure))
        if self._owned:
            self.library.kolo_comm_failure(ctypes.c_void_p(self._owned), ctypes.byref(failure))
        return failure if failure.status else None

    def error(self, status: int, message: str) -> _errors.Error:
        """For a call that has returned this."""
        failure = self.failure()
        if self.closed and status in (_errors.ARG, _errors.STATE):
            return _errors.Broken("the communicator is closed")
        if failure is None or failure.status != status:
            return creation_error(status, message)
        if status == _errors.PEER_DEAD:
            return _errors.PeerDead(message, failure.rank, failure.code if failure.cause == KILLED else None,
                                    failure.code if failure.cause == EXITED else None)
        if status == _errors.TIMEOUT:
            return _errors.Timeout(message, (failure.rank,))
        if status == _errors.ABORTED:
            return _errors.Aborted(message, failure.rank, failure.code)
        return creation_error(status, message)

    def fail(self, status: int) -> None:
        """For a call that has not returned 0, or during which a handler has raised: raises what is to be raised."""
        error = _interrupts.take()
        if error is None and status < 0:
            error = self.error(status, _library.message())
        if self._is_late:
            self._destroy_if_unused()
        if error is not None:
            raise error

    def refuse_closed(self, is_call: bool = True) -> None:
        if self.closed:
            raise _errors.Broken("the communicator is closed")
        if is_call:
            self.refuse_handler()

    def refuse_handler(self) -> None:
        if self.answers.gi_running:
            raise _errors.ArgumentError("a signal handler uses the communicator in which a call waits: it can raise, abort or "
                                        "close the communicator, or note the signal for later")
