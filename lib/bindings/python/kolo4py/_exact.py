"""Sums of floats that do not depend on which rank holds which addend."""

from __future__ import annotations

import ctypes
import struct

from . import _elements, _library, _memory
from ._calls import Call
from ._errors import ArgumentError
from ._handle import creation_error
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Tuple

    from ._comm import Comm

class Exact:
    """One sum, or several, of float32 or float64 addends, held without rounding. The same addends give the same bits,
    whether 1, 2 or 100 ranks hold them, in any order and any split. The value is the float nearest to the true sum.

        total = kolo.exact("float64")
        total.add(x)                # as often as you like
        total.all_reduce(comm)      # the sum over all ranks, on every rank
        total.value                 # a float, rounded once
    """

    def __init__(self, dtype: Any = "float64", sums: int = 1) -> None:
        self._library = _library.load()
        self._address = ctypes.c_void_p()
        self.element = _elements.must_name(dtype)
        self.sums = _library.integer(sums, "sums", 1, _library.COUNT_MAX)
        if self.element.code not in (_elements.F32, _elements.F64) or self.element.width != 1:
            raise ArgumentError(f"dtype {dtype!r}: exact sums are of float32 or float64")
        self._check(self._library.kolo_exact_create(ctypes.addressof(self._address), self.element.code, self.sums))

    def __del__(self) -> None:
        if self._address:
            self._library.kolo_exact_destroy(self._address)

    def _check(self, status: int) -> None:
        if status:
            raise creation_error(status, _library.message())

    def _view(self, x: Any) -> _memory.View:
        view = _memory.view(x, "x")
        if view.element != self.element:
            raise ArgumentError(f"x has items of type {view.element.name}, but the sums are of {self.element.name}")
        return view

    def add(self, x: Any, sum: int = 0) -> "Exact":
        """Adds all items of x, of the sums' type, to sum number `sum`. Returns self."""
        view = self._view(x)
        if not 0 <= sum < self.sums:
            raise ArgumentError(f"sum {sum} is none of 0 to {self.sums - 1}")
        self._check(self._library.kolo_exact_add(self._address, sum, 1, view.address, view.count))
        return self

    def add_rows(self, x: Any) -> "Exact":
        """Adds to every sum: of each row of x, which has `sums` items, the first item to the first sum, and so on."""
        view = self._view(x)
        if view.count % self.sums:
            raise ArgumentError(f"x has {view.count} items, which are no rows of {self.sums}")
        rows = view.count // self.sums
        self._check(self._library.kolo_exact_add(self._address, 0, self.sums, view.address, rows))
        return self

    def merge(self, other: "Exact") -> "Exact":
        """Adds the other's sums. Returns self."""
        self._check(self._library.kolo_exact_merge(self._address, other._address))
        return self

    def all_reduce(self, comm: "Comm") -> "Exact":
        """Each sum becomes that over all ranks of comm, on every rank. Returns self."""
        caller = comm._caller
        caller.now(Call("exact_allreduce", (self._address, None), self, self))
        return self

    def reset(self) -> "Exact":
        """Makes all sums empty. Returns self."""
        self._check(self._library.kolo_exact_reset(self._address))
        return self

    @property
    def values(self) -> "Tuple[float, ...]":
        """The sums, each rounded once to the sums' type."""
        results = bytearray(self.sums * self.element.bytes)
        place = (ctypes.c_char * len(results)).from_buffer(results)
        self._check(self._library.kolo_exact_round(self._address, ctypes.addressof(place)))
        return struct.unpack(f"={self.sums}{'d' if self.element.code == _elements.F64 else 'f'}", results)

    @property
    def value(self) -> float:
        """Of one sum."""
        if self.sums != 1:
            raise ArgumentError(f"there are {self.sums} sums: ask for values")
        return self.values[0]


def exact(dtype: Any = "float64", sums: int = 1) -> Exact:
    """A new Exact: so many empty sums of float32 or float64 addends."""
    return Exact(dtype, sums)
