"""Memory of kolo_alloc as Python sees it."""

import ctypes
from typing import Any, List, Optional, Tuple, Type

from . import _dlpack, _memory
from ._elements import Element

# What ctypes calls them; types that it does not have are their bits.
_KINDS: "dict[str, Any]" = {
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16, "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64,
    "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16, "float32": ctypes.c_float, "float64": ctypes.c_double,
    "bool": ctypes.c_bool, "complex64": ctypes.c_float * 2, "complex128": ctypes.c_double * 2}


def _listed(array: Any) -> "List[Any]":
    return [_listed(item) if isinstance(item, ctypes.Array) else item for item in array]


class SharedArray:
    """An array in memory that all ranks of the communicator have mapped: collectives between such arrays copy nothing.
    Made by Comm.empty; zeroed.

    It has the buffer protocol, items (a[0]), DLPack (torch.from_dlpack(a)) and numpy(). float16 and bfloat16
    have no format there, so that the buffer protocol and a[0] give their bits, and complex numbers are two items each.

    The memory stays until the communicator is closed and nothing refers to it any more, or until Comm.free."""

    element: Element
    shape: "Tuple[int, ...]"
    handle: Any

    @property
    def dtype(self) -> str:
        """Its type's name, such as "float32"."""
        return self.element.name

    @property
    def address(self) -> int:
        return ctypes.addressof(self)  # type: ignore[arg-type]

    def tolist(self) -> "List[Any]":
        """Its items as nested lists, as far as the buffer protocol has them."""
        return _listed(self)

    def numpy(self) -> Any:
        """A NumPy array of the same memory. Needs NumPy, and ml_dtypes for bfloat16."""
        import numpy
        return numpy.frombuffer(self, dtype=numpy_dtype(self.element)).reshape(self.shape)  # type: ignore[call-overload]

    def __dlpack__(self, stream: Any = None, max_version: "Optional[Tuple[int, int]]" = None, **_options: Any) -> Any:
        return _dlpack.lend(self.address, self.element, self.shape, self, max_version)

    def __dlpack_device__(self) -> "Tuple[int, int]":
        return (_dlpack.CPU, 0)


def make(address: int, element: Element, shape: "Tuple[int, ...]", handle: Any) -> SharedArray:
    """The memory there as such an array."""
    kind: Any = _KINDS[element.name]
    for length in reversed(shape or (1,)):
        kind = kind * length
    made: Type[Any] = type(kind)("SharedArray", (SharedArray, kind), {})
    array: SharedArray = made.from_address(address)
    array.element, array.shape, array.handle = element, shape, handle
    return array


def numpy_dtype(element: Element) -> Any:
    """NumPy's type of that name, or ml_dtypes'."""
    import numpy
    if element.name == "bfloat16":
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(element.name)


def bytes_of(element: Element, shape: "Tuple[int, ...]") -> int:
    return element.bytes * _memory.product(shape)
