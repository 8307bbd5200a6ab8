"""Messages between two ranks, and collectives of Python objects."""

from __future__ import annotations

import ctypes
import itertools

from . import _library, _memory
from ._library import integer
from ._calls import Call
from ._collectives import Collectives
from ._errors import ArgumentError, RankFailed
from ._handle import Handle
from ._typing import NamedTuple, TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

T = TypeVar("T")
ANY = -1  # as a source: whichever rank's message comes first; as a tag: whichever comes next
PICKLING = "could not pickle its object"
TOLD_MAX = 1000  # characters of what a rank says has failed


class Received(NamedTuple):
    """What has been received: from whom, with which tag, how many items."""
    rank: int
    tag: int
    items: int


def _dumps(thing: Any) -> bytes:
    import pickle
    return pickle.dumps(thing)


def _loads(data: Any) -> Any:
    import pickle
    return pickle.loads(data)


def _teller(found: _library.Received, width: int) -> "Callable[[], Received]":
    """Says what has been received, once it has been."""
    return lambda: Received(found.rank, found.tag, found.count // width)


class Messages(Collectives):
    """Part of Comm. Between machines messages go through each machine's lowest rank: it closes the communicator when the
    machine's other ranks have sent and received all, as after a barrier."""

    _handle: Handle

    def send(self, x: Any, dest: int, tag: int = 0, async_: bool = False) -> Any:
        """Sends x to rank `dest`, which receives it with that tag, 0 or more, into an array of the same type. Up to 480
        bytes wait for nobody while few such messages are under way; larger ones until they are received."""
        send = _memory.view(x, "x")
        arguments = (send.address, send.count, send.element.code, integer(dest, "dest"), integer(tag, "tag"))
        return self._caller.make(Call("send", arguments, None, send), async_)

    def recv(self, out: Any, source: int = ANY, tag: int = ANY, async_: bool = False) -> Any:
        """Receives the next message from rank `source` with that tag into out, which must have room for it. Returns
        Received(rank, tag, items): it may be shorter than out. A longer one, or one of another type, is a Mismatch on
        both ranks."""
        recv = _memory.view(out, "out", True)
        found = _library.Received(received_bytes=ctypes.sizeof(_library.Received))
        arguments = (recv.address, recv.count, recv.element.code, integer(source, "source"), integer(tag, "tag"),
                     ctypes.addressof(found))
        return self._caller.make(Call("recv", arguments, _teller(found, recv.element.width), (recv, found)), async_)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int = ANY, send_tag: int = 0, recv_tag: int = ANY,
                 async_: bool = False) -> Any:
        """send and recv at once, neither of which waits for the other. Returns Received(rank, tag, items)."""
        send, recv = _memory.view(x, "x"), _memory.view(out, "out", True)
        _memory.check_type(recv, send.element, "out")
        found = _library.Received(received_bytes=ctypes.sizeof(_library.Received))
        arguments = (send.address, send.count, integer(dest, "dest"), integer(send_tag, "send_tag"), recv.address,
                     recv.count, integer(source, "source"), integer(recv_tag, "recv_tag"), send.element.code,
                     ctypes.addressof(found))
        tell = _teller(found, recv.element.width)
        return self._caller.make(Call("sendrecv", arguments, tell, (send, recv, found)), async_)

    # Objects travel as pickles, which run code when they are loaded: use these only among ranks that trust each other.
    # What a rank does for them alone, such as pickling, can fail there. It then takes part in the calls that the others
    # make nevertheless, and tells them by those: its next call must not be taken for one of these.

    def broadcast_object(self, thing: Any = None, root: int = 0) -> Any:
        """Rank root's object, on every rank. By pickle: for ranks that trust each other only. RankFailed, on all ranks: the
        root could not pickle it, or one had no memory; this holds for all calls of objects."""
        data = self._broadcast_pickle(lambda: _dumps(thing), root)
        return thing if self.rank == root else self._load(data, root)

    def all_gather_object(self, thing: Any) -> "List[Any]":
        """Every rank's object, in the order of the ranks. By pickle: for ranks that trust each other only."""
        with self._handle.undivided():
            data, failure = self._attempt(PICKLING, lambda: _dumps(thing))
            lengths = self._agree(len(data or b""), failure)
            out = self._room(lambda: bytearray(sum(lengths)))
            self.all_gather(data, out, counts=lengths)
        return self._objects(out, lengths)

    def gather_object(self, thing: Any, root: int = 0) -> "Optional[List[Any]]":
        """On rank `root` every rank's object, in the order of the ranks; elsewhere None. By pickle: for ranks that
        trust each other only."""
        is_root = self.rank == self._root(root)
        with self._handle.undivided():
            data, failure = self._attempt(PICKLING, lambda: _dumps(thing))
            lengths = self._agree(len(data or b""), failure)
            out = self._room(lambda: bytearray(sum(lengths) if is_root else 0))
            self.gather(data, out, root, counts=lengths)
        return self._objects(out, lengths) if is_root else None

    def scatter_object(self, things: "Optional[Sequence[Any]]" = None, root: int = 0) -> Any:
        """This rank's of rank root's objects, of which there is one for each rank. By pickle: for ranks that trust each
        other only. RankFailed, on all ranks: also where the root has another number of objects."""
        is_root = self.rank == self._root(root)
        with self._handle.undivided():
            made, failure = self._attempt(PICKLING, lambda: self._pickles(things)) if is_root else (None, None)
            self._agree(0, failure)
            data, lengths = made or (b"", self._numbers(self.size))
            self.broadcast(lengths, root)
            out = self._room(lambda: bytearray(lengths[self.rank]))
            self.scatter(data, out, root, counts=list(lengths) if is_root else ())
        return self._load(out, root)

    def send_object(self, thing: Any, dest: int, tag: int = 0) -> None:
        """Sends an object, which recv_object receives. By pickle: for ranks that trust each other only. RankFailed, on both
        ranks: it cannot be pickled."""
        self._send_pickle(lambda: _dumps(thing), dest, tag)

    def recv_object(self, source: int = ANY, tag: int = ANY) -> Any:
        """Receives what send_object has sent. By pickle: for ranks that trust each other only. Without memory for it this
        rank aborts."""
        with self._handle.undivided(begun=False) as call:
            length = self._numbers(1, 0)
            found = self.recv(length, source, tag)
            call.begun = True
            data = bytearray(abs(length[0]))
            self.recv(data, found.rank, found.tag)
        if length[0] < 0:
            raise RankFailed(data.decode(), found.rank)
        return self._load(data, found.rank)

    def _broadcast_pickle(self, make: "Callable[[], bytes]", root: int) -> "Union[bytes, bytearray]":
        """What rank root makes, on every rank."""
        is_root = self.rank == self._root(root)
        with self._handle.undivided():
            made, failure = self._attempt(PICKLING, make) if is_root else (None, None)
            length = self._agree(len(made or b""), failure)[root]
            data = self._room(lambda: made or bytearray(length))
            self.broadcast(data, root)
        return data

    def _send_pickle(self, make: "Callable[[], bytes]", dest: int, tag: int) -> None:
        """What this rank makes, for recv_object. A message instead of it has its length as a negative number."""
        with self._handle.undivided(begun=False) as call:
            made, failure = self._attempt(PICKLING, make)
            data = str(failure).encode() if failure else made or b""
            self.send(self._numbers(1, -len(data) if failure else len(data)), dest, tag)
            call.begun = True
            self.send(data, dest, tag)
        if failure:
            raise failure

    def _attempt(self, what: str, function: "Callable[[], T]") -> "Tuple[Optional[T], Optional[RankFailed]]":
        """What the function returns; or, if it fails, what this rank has to tell the others."""
        try:
            return function(), None
        except Exception as error:
            told = f"rank {self.rank} {what}: {type(error).__name__}: {error}"[:TOLD_MAX]
            failure = RankFailed(told.encode(errors="replace").decode(), self.rank)
            failure.__cause__ = error
            return None, failure

    def _agree(self, number: int, failure: "Optional[RankFailed]") -> "List[int]":
        """Every rank's number, 0 or more. RankFailed on all of them if one has failed; the lowest is told of."""
        text = str(failure).encode() if failure else b""
        numbers = list(self.all_gather(self._numbers(1, -len(text) if failure else number), self._numbers(self.size)))
        failed = next((rank for rank, each in enumerate(numbers) if each < 0), None)
        if failed is None:
            return numbers
        told = self.broadcast(text if failed == self.rank else bytearray(-numbers[failed]), failed)
        raise failure if failure and failed == self.rank else RankFailed(told.decode(), failed)

    def _room(self, make: "Callable[[], T]") -> "T":
        """Memory that this rank needs for what comes, once all ranks have theirs."""
        room, failure = self._attempt("has no memory for the objects", make)
        self._agree(0, failure)
        return room  # type: ignore[return-value]

    def _pickles(self, things: "Optional[Sequence[Any]]") -> "Tuple[bytes, Any]":
        """An object for each rank, one behind the other; and their lengths."""
        if things is None or len(things) != self.size:
            raise ArgumentError(f"things has to be a sequence of {self.size} objects, one for each rank")
        pickles = [_dumps(thing) for thing in things]
        return b"".join(pickles), (ctypes.c_int64 * self.size)(*map(len, pickles))

    def _load(self, data: "Union[bytes, bytearray]", rank: int) -> Any:
        """The object that has come from that rank."""
        loaded, failure = self._attempt(f"could not load the object of rank {rank}", lambda: _loads(data))
        if failure:
            raise failure
        return loaded

    @staticmethod
    def _numbers(count: int, *values: int) -> Any:
        return (ctypes.c_int64 * count)(*values)

    def _objects(self, data: bytearray, lengths: "Sequence[int]") -> "List[Any]":
        ends = itertools.accumulate(lengths)
        return [self._load(data[end - length:end], rank) for rank, (end, length) in enumerate(zip(ends, lengths))]
