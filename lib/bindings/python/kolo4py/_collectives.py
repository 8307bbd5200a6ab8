"""The collectives of a communicator.

What holds for all: arrays are NumPy's (ml_dtypes' bfloat16 included), objects with the buffer protocol, or DLPack tensors
on the CPU such as PyTorch's; contiguous, in C order. `out` has room for exactly the result; without it the result is a
new array of x's kind. Rows are steps along the first dimension. Every rank makes the same calls in the same order.

With async_=True a call returns a Request at once, and the result by Request.wait.

Errors: ArgumentError and TypeError before anything was done; PeerDead, Timeout, Mismatch, Aborted, Error, after which the
communicator is broken for every rank; Broken where it was so before."""

from __future__ import annotations

import ctypes
import math

from . import _elements, _memory
from ._calls import Call, Caller, bind, collective
from ._errors import ArgumentError
from ._memory import View
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple


def _address(numbers: Any) -> Optional[int]:
    return None if numbers is None else ctypes.addressof(numbers)


class Collectives:
    """Part of Comm."""

    rank: int
    size: int
    _caller: Caller

    # Each call is put together in one place, for now, for the background and for plans.

    def _elementwise(self, name: str, x: Any, out: Any, op: str) -> Call:
        send = _memory.view(x, "x")
        code = _elements.op_code(op, send.element)
        recv = _memory.result(send, out, send.shape)
        return collective(name, recv.array, (send, recv), send=send.address, recv=recv.address, count=send.count,
                          dtype=send.element.code, op=code)

    def _rows_for_each(self, x: View) -> "Tuple[int, ...]":
        """The shape of one rank's block of x."""
        if not x.shape or x.shape[0] % self.size:
            raise ArgumentError(f"x has shape {x.shape}: its first dimension has to be a multiple of the {self.size} ranks")
        return (x.shape[0] // self.size, *x.shape[1:])

    def _root(self, root: int) -> int:
        if not 0 <= root < self.size:
            raise ArgumentError(f"root {root} is none of the ranks 0 to {self.size - 1}")
        return root

    def all_reduce(self, x: Any, out: Any = None, op: str = "sum", async_: bool = False) -> Any:
        """op over all ranks' x, item by item; the same bits on every rank.

        op: sum, prod, min, max, avg, band, bor, bxor or sum_exact. out: of x's shape, may be x itself. Returns it."""
        return self._caller.make(self._elementwise("allreduce", x, out, op), async_)

    def all_reduce_many(self, arrays: "Sequence[Any]", op: str = "sum", async_: bool = False) -> Any:
        """op over all ranks, in place, of arrays of any shapes and of one type, as one message: arrays[i] becomes what
        all_reduce(arrays[i]) returns, bit by bit. They do not overlap, and have the same shapes in the same order on every
        rank. Returns arrays."""
        views, element, tensors = _memory.list_of(arrays)
        code = _elements.op_code(op, element)
        call = collective("allreduce_many", arrays, (views, tensors), tensors=ctypes.addressof(tensors),
                          ntensors=len(views), dtype=element.code, op=code)
        return self._caller.make(call, async_)

    def scan(self, x: Any, out: Any = None, op: str = "sum", async_: bool = False) -> Any:
        """op over the x of ranks 0 to this one, item by item. Otherwise as all_reduce."""
        return self._caller.make(self._elementwise("scan", x, out, op), async_)

    def exscan(self, x: Any, out: Any = None, op: str = "sum", async_: bool = False) -> Any:
        """op over the x of the ranks below this one. On rank 0 `out` keeps what it has: anything, if it is new."""
        return self._caller.make(self._elementwise("exscan", x, out, op), async_)

    def plan(self, x: Any, out: Any = None, op: str = "sum") -> "Callable[[], Any]":
        """all_reduce(x, out, op) as a function without arguments, to be called again and again: each time it reduces
        what x has then. It keeps pointers, so that a call costs about a microsecond of Python; both arrays live as
        long as it does, and must not be resized."""
        return bind(self._caller, self._elementwise("allreduce", x, out, op))

    def broadcast(self, x: Any, root: int = 0, async_: bool = False) -> Any:
        """Copies x of rank `root` into every other rank's x, of the same shape and type. Returns x."""
        here = _memory.view(x, "x", self.rank != root)
        call = collective("broadcast", x, here, recv=here.address, count=here.count, dtype=here.element.code,
                          root=self._root(root))
        return self._caller.make(call, async_)

    def all_gather(self, x: Any, out: Any = None, counts: Optional[Sequence[int]] = None, async_: bool = False) -> Any:
        """Every rank's x, one after the other: out[r] is x of rank r. out: of shape (size, *x.shape).

        Uneven: counts[r] is the number of rows of rank r, the same list on every rank; out has sum(counts) rows. In
        place, x is this rank's part of out. Returns out."""
        send = _memory.view(x, "x")
        if counts is None:
            recv = _memory.result(send, out, (self.size, *send.shape))
            call = collective("allgather", recv.array, (send, recv), send=send.address, recv=recv.address,
                              count=send.count, dtype=send.element.code)
            return self._caller.make(call, async_)
        numbers, rows = self._counts(counts, send, "counts", self.rank)
        recv = _memory.result(send, out, (sum(numbers), *send.shape[1:]))
        call = collective("allgatherv", recv.array, (send, recv, rows), send=send.address, recv=recv.address,
                          recv_counts=_address(rows), dtype=send.element.code)
        return self._caller.make(call, async_)

    def _counts(self, counts: Optional[Sequence[int]], x: View, name: str, own: Optional[int]) -> "Tuple[List[int], Any]":
        """As _memory.counts_of. own: the rank whose count x must have; None: x has all of them."""
        numbers, rows = _memory.counts_of(counts, self.size, x.row, name)
        expected = rows[own] if own is not None else sum(rows)
        if expected != x.count:
            raise ArgumentError(f"x has {x.shape[0] if x.shape else 1} rows, but {name} is {numbers}")
        return numbers, rows

    def reduce_scatter(self, x: Any, out: Any = None, op: str = "sum", counts: Optional[Sequence[int]] = None,
                       async_: bool = False) -> Any:
        """op over all ranks' x, of which this rank gets its block of rows: x has n * size rows, out has n.

        Uneven: counts[r] is the number of rows for rank r, the same list on every rank; x has sum(counts) rows. In
        place, out is this rank's part of x. Returns out."""
        send = _memory.view(x, "x")
        code = _elements.op_code(op, send.element)
        if counts is None:
            recv = _memory.result(send, out, self._rows_for_each(send))
            call = collective("reduce_scatter", recv.array, (send, recv), send=send.address, recv=recv.address,
                              count=recv.count, dtype=send.element.code, op=code)
            return self._caller.make(call, async_)
        numbers, rows = self._counts(counts, send, "counts", None)
        recv = _memory.result(send, out, (numbers[self.rank], *send.shape[1:]))
        call = collective("reduce_scatterv", recv.array, (send, recv, rows), send=send.address, recv=recv.address,
                          send_counts=_address(rows), dtype=send.element.code, op=code)
        return self._caller.make(call, async_)

    def reduce(self, x: Any, out: Any = None, op: str = "sum", root: int = 0, async_: bool = False) -> Any:
        """all_reduce whose result only rank `root` gets. Returns it there, elsewhere None; there `out` is not used."""
        send = _memory.view(x, "x")
        code = _elements.op_code(op, send.element)
        recv = _memory.result(send, out, send.shape) if self.rank == self._root(root) else None
        call = collective("reduce", recv and recv.array, (send, recv), send=send.address, recv=recv and recv.address,
                          count=send.count, dtype=send.element.code, op=code, root=root)
        return self._caller.make(call, async_)

    def gather(self, x: Any, out: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None,
               async_: bool = False) -> Any:
        """all_gather whose result only rank `root` gets. Returns it there, elsewhere None; there `out` is not used.

        Uneven: the root says in counts how many rows each rank has, and the others pass counts=() or their own list."""
        send = _memory.view(x, "x")
        is_root = self.rank == self._root(root)
        recv, rows = None, None
        if counts is None:
            if is_root:
                recv = _memory.result(send, out, (self.size, *send.shape))
        elif is_root:
            numbers, rows = self._counts(counts, send, "counts", root)
            recv = _memory.result(send, out, (sum(numbers), *send.shape[1:]))
        call = collective("gather" if counts is None else "gatherv", recv and recv.array, (send, recv, rows),
                          send=send.address, recv=recv and recv.address, count=send.count, recv_counts=_address(rows),
                          dtype=send.element.code, root=root)
        return self._caller.make(call, async_)

    def scatter(self, x: Any, out: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None,
                async_: bool = False) -> Any:
        """Each rank gets its block of rows of rank root's x, which has n * size rows; out has n. Elsewhere x is not
        used, and out must be given, which tells shape and type. Returns out.

        Uneven: the root says in counts how many rows each rank gets, and the others pass counts=() or their own list."""
        name = "scatter" if counts is None else "scatterv"
        send, rows = None, None
        if self.rank != self._root(root):
            if out is None:
                raise ArgumentError("out is missing: only the root knows shape and type of the result")
            recv = _memory.view(out, "out", True)
        else:
            send = _memory.view(x, "x")
            if counts is None:
                shape = self._rows_for_each(send)
            else:
                numbers, rows = self._counts(counts, send, "counts", None)
                shape = (numbers[root], *send.shape[1:])
            recv = _memory.result(send, out, shape)
        call = collective(name, recv.array, (send, recv, rows), send=send and send.address, recv=recv.address,
                          count=recv.count, send_counts=_address(rows), dtype=recv.element.code, root=root)
        return self._caller.make(call, async_)

    def all_to_all(self, x: Any, out: Any = None, send_counts: Optional[Sequence[int]] = None,
                   recv_counts: Optional[Sequence[int]] = None, async_: bool = False) -> Any:
        """Block r of x's rows goes to rank r, and block r of out's rows comes from it: x has n * size rows, and so has
        out, which may be x.

        Uneven: send_counts[r] rows go to rank r, recv_counts[r] come from it: its send_counts for this rank. x has
        sum(send_counts) rows, out sum(recv_counts). Returns out."""
        send = _memory.view(x, "x")
        if send_counts is None and recv_counts is None:
            recv = _memory.result(send, out, send.shape)
            count = math.prod(self._rows_for_each(send)) * send.element.width
            call = collective("alltoall", recv.array, (send, recv), send=send.address, recv=recv.address, count=count,
                              dtype=send.element.code)
            return self._caller.make(call, async_)
        _, sent = self._counts(send_counts, send, "send_counts", None)
        numbers, received = _memory.counts_of(recv_counts, self.size, send.row, "recv_counts")
        recv = _memory.result(send, out, (sum(numbers), *send.shape[1:]))
        call = collective("alltoallv", recv.array, (send, recv, sent, received), send=send.address, recv=recv.address,
                          send_counts=_address(sent), recv_counts=_address(received), dtype=send.element.code)
        return self._caller.make(call, async_)

    def barrier(self, async_: bool = False) -> Any:
        """Returns when every rank has called it."""
        return self._caller.make(collective("barrier", None, None), async_)
