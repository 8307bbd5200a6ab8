"""Messages between two ranks, and collectives of Python objects."""

import ctypes
import pickle
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from . import _library, _memory
from ._calls import Call
from ._collectives import Collectives
from ._errors import ArgumentError

ANY = -1  # as a source: whichever rank's message comes first; as a tag: whichever comes next


class Received(NamedTuple):
    """What has been received: from whom, with which tag, how many items."""
    rank: int
    tag: int
    items: int


def _teller(found: _library.Received, width: int) -> "Callable[[], Received]":
    """Says what has been received, once it has been."""
    return lambda: Received(found.rank, found.tag, found.count // width)


class Messages(Collectives):
    """Part of Comm. Between machines messages go through each machine's lowest rank: it closes the communicator when the
    machine's other ranks have sent and received all, as after a barrier."""

    def send(self, x: Any, dest: int, tag: int = 0, async_: bool = False) -> Any:
        """Sends x to rank `dest`, which receives it with that tag, 0 or more, into an array of the same type. Up to 480
        bytes wait for nobody while few such messages are under way; larger ones until they are received."""
        send = _memory.view(x, "x")
        return self._caller.make(Call("send", (send.address, send.count, send.element.code, dest, tag), None, send), async_)

    def recv(self, out: Any, source: int = ANY, tag: int = ANY, async_: bool = False) -> Any:
        """Receives the next message from rank `source` with that tag into out, which must have room for it. Returns
        Received(rank, tag, items): it may be shorter than out. A longer one, or one of another type, is a Mismatch on
        both ranks."""
        recv = _memory.view(out, "out", True)
        found = _library.Received(received_bytes=ctypes.sizeof(_library.Received))
        arguments = (recv.address, recv.count, recv.element.code, source, tag, ctypes.addressof(found))
        return self._caller.make(Call("recv", arguments, _teller(found, recv.element.width), (recv, found)), async_)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int = ANY, send_tag: int = 0, recv_tag: int = ANY,
                 async_: bool = False) -> Any:
        """send and recv at once, neither of which waits for the other. Returns Received(rank, tag, items)."""
        send, recv = _memory.view(x, "x"), _memory.view(out, "out", True)
        _memory.check_type(recv, send.element, "out")
        found = _library.Received(received_bytes=ctypes.sizeof(_library.Received))
        arguments = (send.address, send.count, dest, send_tag, recv.address, recv.count, source, recv_tag,
                     send.element.code, ctypes.addressof(found))
        tell = _teller(found, recv.element.width)
        return self._caller.make(Call("sendrecv", arguments, tell, (send, recv, found)), async_)

    # Objects travel as pickles, which run code when they are loaded: use these only among ranks that trust each other.

    def broadcast_object(self, thing: Any = None, root: int = 0) -> Any:
        """Rank root's object, on every rank. By pickle: for ranks that trust each other only."""
        data = bytearray(pickle.dumps(thing)) if self.rank == self._root(root) else bytearray()
        length = self._number(len(data))
        self.broadcast(length, root)
        data = data or bytearray(length[0])
        self.broadcast(data, root)
        return thing if self.rank == root else pickle.loads(data)

    def all_gather_object(self, thing: Any) -> "List[Any]":
        """Every rank's object, in the order of the ranks. By pickle: for ranks that trust each other only."""
        data = pickle.dumps(thing)
        lengths = list(self.all_gather(self._number(len(data)), self._numbers(self.size)))
        return self._objects(self.all_gather(data, bytearray(sum(lengths)), counts=lengths), lengths)

    def gather_object(self, thing: Any, root: int = 0) -> "Optional[List[Any]]":
        """On rank `root` every rank's object, in the order of the ranks; elsewhere None. By pickle: for ranks that
        trust each other only."""
        data = pickle.dumps(thing)
        lengths = list(self.all_gather(self._number(len(data)), self._numbers(self.size)))
        out = self.gather(data, bytearray(sum(lengths)), root, counts=lengths)
        return None if out is None else self._objects(out, lengths)

    def scatter_object(self, things: "Optional[Sequence[Any]]" = None, root: int = 0) -> Any:
        """This rank's of rank root's objects, of which there is one for each rank. By pickle: for ranks that trust each
        other only."""
        if self.rank == self._root(root) and (things is None or len(things) != self.size):
            raise ArgumentError(f"things has to be a sequence of {self.size} objects, one for each rank")
        pickles = [pickle.dumps(thing) for thing in things or ()] if self.rank == root else []
        lengths = self._numbers(self.size)
        lengths[:len(pickles)] = [len(data) for data in pickles]
        self.broadcast(lengths, root)
        out = bytearray(lengths[self.rank])
        self.scatter(b"".join(pickles), out, root, counts=list(lengths) if self.rank == root else ())
        return pickle.loads(out)

    def send_object(self, thing: Any, dest: int, tag: int = 0) -> None:
        """Sends an object, which recv_object receives. By pickle: for ranks that trust each other only."""
        data = pickle.dumps(thing)
        self.send(self._number(len(data)), dest, tag)
        self.send(data, dest, tag)

    def recv_object(self, source: int = ANY, tag: int = ANY) -> Any:
        """Receives what send_object has sent. By pickle: for ranks that trust each other only."""
        length = self._number(0)
        found = self.recv(length, source, tag)
        data = bytearray(length[0])
        self.recv(data, found.rank, found.tag)
        return pickle.loads(data)

    @staticmethod
    def _number(value: int) -> Any:
        return (ctypes.c_int64 * 1)(value)

    @staticmethod
    def _numbers(count: int) -> Any:
        return (ctypes.c_int64 * count)()

    @staticmethod
    def _objects(data: bytearray, lengths: "Sequence[int]") -> "List[Any]":
        ends = [sum(lengths[:i + 1]) for i in range(len(lengths))]
        return [pickle.loads(data[end - length:end]) for end, length in zip(ends, lengths)]
