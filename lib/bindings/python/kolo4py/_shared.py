"""Memory that all ranks have mapped, as Python sees it: that of kolo_alloc, and memory of NumPy, PyTorch or any allocator
that the program has."""

from __future__ import annotations

import ctypes

from . import _dlpack, _memory
from ._elements import WITHOUT_FORMAT, Element
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple, Type

    from ._comm import Comm

# What ctypes calls them; types that it does not have are their bits.
_KINDS: "dict[str, Any]" = {
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16, "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64,
    "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16, "float32": ctypes.c_float, "float64": ctypes.c_double,
    "bool": ctypes.c_bool, "complex64": ctypes.c_float * 2, "complex128": ctypes.c_double * 2}


def _listed(array: Any) -> "List[Any]":
    return [_listed(item) if isinstance(item, ctypes.Array) else item for item in array]


class SharedArray(_memory.Mapped):
    """An array in memory that all ranks of the communicator have mapped: collectives between such arrays copy nothing.
    Made by Comm.empty; zeroed.

    It has the buffer protocol, items (a[0]), DLPack (torch.from_dlpack(a)) and numpy(); numpy.asarray(a) is the same.
    float16, bfloat16 and complex numbers have no format in the buffer protocol: of these only `memory` has it, and a[0]
    and `memory` give the bits of a float, and two items for a complex number.

    The memory stays until the communicator is closed and nothing refers to it any more, or until Comm.free."""

    handle: Any

    @property
    def dtype(self) -> str:
        """Its type's name, such as "float32"."""
        return self.element.name

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    def tolist(self) -> "List[Any]":
        """Its items as nested lists, as far as the buffer protocol has them."""
        return _listed(self.memory)

    def numpy(self) -> Any:
        """A NumPy array of the same memory. Needs NumPy, and ml_dtypes for bfloat16."""
        import numpy
        return numpy.frombuffer(self.memory, dtype=_memory.numpy_dtype(self.element)).reshape(self.shape)

    def __dlpack__(self, stream: Any = None, max_version: "Optional[Tuple[int, int]]" = None,
                   dl_device: "Optional[Tuple[int, int]]" = None, copy: "Optional[bool]" = None) -> Any:
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"it is in the CPU's memory, and not on DLPack's device {dl_device}")
        memory = type(self.memory).from_buffer_copy(self.memory) if copy else self.memory
        return _dlpack.lend(ctypes.addressof(memory), self.element, self.shape, memory, max_version,
                            _dlpack.IS_COPIED if copy else 0)

    def __dlpack_device__(self) -> "Tuple[int, int]":
        return (_dlpack.CPU, 0)


class _WithoutFormat(SharedArray):
    """Is no ctypes array, or NumPy would take it for one of integers, or of pairs."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    @property
    def memory(self) -> Any:
        return self._memory

    def __len__(self) -> int:
        return len(self._memory)

    def __getitem__(self, index: Any) -> Any:
        return self._memory[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._memory[index] = value

    def __array__(self, dtype: Any = None, copy: "Optional[bool]" = None) -> Any:
        found = self.numpy()
        return found if dtype is None and not copy else found.astype(dtype or found.dtype, copy=bool(copy))


def make(address: int, element: Element, shape: "Tuple[int, ...]", handle: Any) -> SharedArray:
    """The memory there as such an array."""
    kind: Any = _KINDS[element.name]
    for length in reversed(shape or (1,)):
        kind = kind * length
    if element.name in WITHOUT_FORMAT:
        array: SharedArray = _WithoutFormat(kind.from_address(address))
        array.memory.handle = handle  # NumPy's arrays refer to this only
    else:
        made: Type[Any] = type(kind)("SharedArray", (SharedArray, kind), {})
        array = made.from_address(address)
    array.element, array.shape, array.handle = element, shape, handle
    return array


class Shared:
    """What Comm.share has done with an array, until close(), the end of a with block, or the end of the communicator.
    The array lives until then, at least."""

    def __init__(self, comm: "Comm", array: Any) -> None:
        found = _memory.view(array, "array")
        self._caller = comm._caller
        self._handle = comm._handle
        self.address = found.address
        self.bytes = found.items * found.element.bytes
        self._caller.settle(messages=True)
        kept = self._handle.adopted.setdefault(self.address, found)  # before a handler may raise behind the call
        status = self._handle.library.kolo_share(self._handle.comm, self.address, self.bytes)
        if status:
            if kept is found:
                del self._handle.adopted[self.address]
            self._handle.fail(status)
        self._handle.fail(0)  # what a signal's handler has raised

    @property
    def closed(self) -> bool:
        """Whether the memory is this process's own again."""
        return self.address not in self._handle.adopted

    def close(self) -> None:
        """The memory is this process's own again, with its address and contents. Waits for no rank. Every rank closes the
        same arrays in the same place among its calls. May be called more than once, also after Comm.close."""
        if not self.closed:
            self._caller.settle(messages=True)
            self._handle.give_back(self.address)

    def __enter__(self) -> "Shared":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def share(comm: "Comm", array: Any) -> Shared:
    """The same as comm.share(array)."""
    return comm.share(array)
