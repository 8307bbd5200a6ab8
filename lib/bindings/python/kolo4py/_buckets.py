"""Buckets: arrays that are reduced in place in every step, in the background, as they become ready."""

from __future__ import annotations

import ctypes

from . import _elements, _library, _memory
from ._errors import ArgumentError, Broken
from ._handle import Handle
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence, Type


class Options(_library.Checked):
    """kolo_bucket_options, up to what is set here; further fields have their defaults."""
    _fields_ = [("options_bytes", ctypes.c_size_t), ("dtype", ctypes.c_int), ("op", ctypes.c_int),
                ("bucket_bytes", ctypes.c_size_t), ("keep_order", ctypes.c_int), ("unused", ctypes.c_int),
                ("compression", ctypes.c_int), ("compression_share", ctypes.c_double), ("error_feedback", ctypes.c_int)]


def _compression(asked: Optional[str]) -> int:
    """kolo_compression, by its name; None is "none"."""
    names: "List[str]" = []
    while (name := _library.load().kolo_name(_library.COMPRESSION, len(names))) is not None:
        names.append(name.decode())
    if asked is not None and asked not in names:
        raise ArgumentError(f"compression {asked!r}: must be None or one of {', '.join(names[1:])}")
    return names.index(asked or "none")


class Buckets:
    """Arrays, such as a model's gradients, that become ready one by one in each step, on each rank in an order of its
    own, and are reduced over all ranks in place. Those that become ready one after the other travel together, in the
    background: with kolo.init(progress=True) while the program goes on, else in wait().

        with kolo.Buckets(comm, gradients) as buckets:
            for batch in batches:
                for i in backward(batch):      # yields the number of each gradient when it is there
                    buckets.ready(i)
                buckets.wait()                 # gradients[i] is now the average over the ranks

    arrays: of any shapes, the same on every rank in the same order; contiguous, writable, without overlaps and of one type
    (another type takes Buckets, and a Comm.dup, of its own). They must stay where they are: their memory is used until
    close(). op: as in Comm.all_reduce. bucket_bytes: a bucket is full when the next array would make it larger; None: the
    library's default. keep_order: True: buckets are always made from the last array to the first; False: after the first
    step in the order in which rank 0's arrays became ready. unused: "error" or "zero": what wait() does about arrays that
    ready() has not named in this step.

    compression: what is sent in place of float32 arrays, for op "sum" or "avg": "bf16", "f16", "topk" (of each array the
    share of its elements that are largest) or "onebit". It pays between machines. error_feedback: what a message leaves
    out is kept in a residual and goes into the array's next one; residual() and set_residual() are to save it.

    Between the first ready() of a step and the end of its wait() the communicator makes no other call: for those take
    comm.dup(). Every rank makes its Buckets with the same arguments. ArgumentError, TypeError: nothing was done."""

    def __init__(self, comm: Any, arrays: "Sequence[Any]", op: str = "avg", bucket_bytes: Optional[int] = None,
                 keep_order: bool = False, unused: str = "error", compression: Optional[str] = None,
                 share: float = 0.01, error_feedback: bool = True) -> None:
        self._address = ctypes.c_void_p()
        self._is_begun = False  # a step
        self._handle: Handle = comm._handle
        self._handle.refuse_closed()
        if unused not in ("error", "zero"):
            raise ArgumentError(f"unused {unused!r}: must be 'error' or 'zero'")
        self._views, element, tensors = _memory.list_of(arrays)
        options = Options(ctypes.sizeof(Options), element.code, _elements.op_code(op, element), bucket_bytes or 0,
                          keep_order, unused == "zero", _compression(compression), share, error_feedback)
        self._handle.fail(self._handle.library.kolo_bucket_create(
            self._handle.comm, tensors, len(tensors), ctypes.addressof(options), ctypes.addressof(self._address)))

    def _usable(self) -> ctypes.c_void_p:
        if not self._address:
            raise Broken("the buckets are closed")
        self._handle.refuse_closed()
        return self._address

    def ready(self, index: int) -> None:
        """arrays[index] is ready in this step: it belongs to kolo until wait() returns. Waits for nobody. Any thread may
        call it. ArgumentError: there is no such array, or it was ready already. Other errors are those of a bucket that
        went out before: then the buckets can only be closed."""
        address, index, self._is_begun = self._usable(), self._checked(index), True
        status = self._handle.library.kolo_bucket_ready(address, index)
        if status:
            self._handle.fail(status)

    def wait(self) -> None:
        """Ends the step: returns when every array holds the reduction over all ranks. ArgumentError: an array was not
        ready, which the message names, and unused is "error"; then the step goes on. PeerDead, Timeout, Mismatch,
        Aborted: the communicator is broken."""
        status = self._handle.library.kolo_bucket_wait(self._usable())
        self._is_begun = self._is_begun and status != 0
        self._handle.fail(status)

    def _checked(self, index: int) -> int:
        return _library.integer(index, "array", 0, len(self._views) - 1)

    def _residual(self, index: int) -> Any:
        """Room for it."""
        return (ctypes.c_float * self._views[self._checked(index)].count)()

    def residual(self, index: int) -> Any:
        """What this rank's messages have left out of arrays[index] so far: a flat array of c_float. Between steps.
        ArgumentError: there are no residuals, or a step has begun."""
        values = self._residual(index)
        self._handle.fail(self._handle.library.kolo_bucket_residual(self._usable(), index, None, ctypes.addressof(values)))
        return values

    def set_residual(self, index: int, values: "Sequence[float]") -> None:
        """The same, loaded: as many numbers as arrays[index] has elements."""
        copy = self._residual(index)
        copy[:] = values
        self._handle.fail(self._handle.library.kolo_bucket_residual(self._usable(), index, ctypes.addressof(copy), None))

    def __len__(self) -> int:
        """How many buckets a step has now."""
        info = _library.BucketInfo(ctypes.sizeof(_library.BucketInfo))
        self._handle.fail(self._handle.library.kolo_bucket_query(self._usable(), ctypes.addressof(info)))
        return int(info.buckets)

    def close(self) -> None:
        """Ends the buckets; waits for what is in flight. May be called more than once, also after Comm.close. An exception
        that leaves the with block within a step aborts the communicator."""
        self._end()
        self._handle.fail(0)  # what a handler has raised meanwhile

    def __enter__(self) -> "Buckets":
        return self

    def __exit__(self, kind: "Optional[Type[BaseException]]", *_: object) -> None:
        if kind and self._is_begun:  # else this rank's next buckets would meet the others' later ones
            self._handle.abort_for(kind)
        self.close()

    def _end(self) -> None:
        if getattr(self, "_address", None):
            self._handle.refuse_handler()
            address, self._address = self._address, ctypes.c_void_p()
            self._handle.library.kolo_bucket_destroy(address)
            self._views = []

    __del__ = _end
