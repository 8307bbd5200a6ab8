"""What a call reads and writes: address, number and type of an array's items, whatever library the array is of; and new
arrays of the caller's kind for results."""

from __future__ import annotations

import ctypes
import math
import sys

from . import _dlpack, _elements, _library
from ._elements import Element
from ._errors import ArgumentError
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple


class View:
    """A contiguous array: where it is, and what keeps it there."""
    __slots__ = ("address", "element", "shape", "items", "array", "keep")

    def __init__(self, address: int, element: Element, shape: "Tuple[int, ...]", array: Any, keep: object) -> None:
        self.address, self.element, self.shape, self.array, self.keep = address, element, shape, array, keep
        self.items = math.prod(shape)

    @property
    def count(self) -> int:
        """Of kolo's elements."""
        return self.items * self.element.width

    @property
    def row(self) -> int:
        """Of kolo's elements, how many one step along the first dimension takes."""
        return math.prod(self.shape[1:]) * self.element.width


class Mapped:
    """Memory of Comm.empty."""
    element: Element
    shape: "Tuple[int, ...]"

    @property
    def memory(self) -> Any:
        """The ctypes array with which the memory lives."""
        return self


class _Buffer(ctypes.Structure):
    """Py_buffer."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Buffer))(("PyBuffer_Release", ctypes.pythonapi))


def list_of(arrays: Sequence[Any]) -> "Tuple[List[View], Element, ctypes.Array[_library.Tensor]]":
    """Arrays that are reduced in place, by one call: their views, their type, and the list as the library takes it."""
    views = [view(x, f"arrays[{i}]", True) for i, x in enumerate(arrays)]
    element = views[0].element if views else _elements.must_name("float32")
    for i, each in enumerate(views):
        if each.element != element:
            raise ArgumentError(f"arrays[{i}] is of {each.element.name}, arrays[0] of {element.name}: one list is for one"
                                " type")
    places = sorted((each.address, i) for i, each in enumerate(views) if each.count)
    for (address, i), (following, j) in zip(places, places[1:]):
        if following < address + views[i].items * element.bytes:
            raise ArgumentError(f"arrays[{i}] and arrays[{j}] overlap: what they share would be reduced twice")
    tensors = [_library.Tensor(each.address if each.count else None, each.count) for each in views]
    return views, element, (_library.Tensor * len(views))(*tensors)


_numpy_elements: Dict[Any, Element] = {}


def _numpy_array(x: Any) -> bool:
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return kind is not None and isinstance(x, kind)


def _numpy_element(dtype: Any, name: str) -> Element:
    element = _elements.named(dtype) or _elements.raw(dtype.itemsize)
    if dtype.hasobject:
        raise ArgumentError(f"{name} holds Python objects: use the calls that end in _object")
    if not dtype.isnative and element.ops:
        raise ArgumentError(f"{name} is of the other byte order: pass {name}.astype({name}.dtype.newbyteorder('='))")
    return _numpy_elements.setdefault(dtype, element)


def _of_numpy(x: Any, name: str, writable: bool) -> View:
    flags = x.flags
    if hasattr(type(x), "mask"):  # numpy.ma's
        raise ArgumentError(f"{name} has a mask, which would be lost: pass {name}.filled() or {name}.data")
    if not flags.c_contiguous:
        raise ArgumentError(f"{name} is not contiguous: pass numpy.ascontiguousarray({name})")
    if writable and not flags.writeable:
        raise ArgumentError(f"{name} is read-only, but the result is to be written there")
    dtype = x.dtype
    element = _numpy_elements.get(dtype) or _numpy_element(dtype, name)
    return View(_numpy_address(x, flags.writeable), element, x.shape, x, x)


def _numpy_address(x: Any, writable: bool) -> int:
    """By the buffer protocol, which is several times faster than x.ctypes.data; but it is not for all that NumPy has."""
    if writable:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(x))
        except (BufferError, TypeError, ValueError):  # a type without a format, as bfloat16; no items
            pass
    address: int = x.__array_interface__["data"][0]
    return address


def _of_buffer(x: Any, held: memoryview, name: str, writable: bool) -> View:
    if not held.c_contiguous:
        raise ArgumentError(f"{name} is not contiguous: pass a copy of it")
    if writable and held.readonly:
        raise ArgumentError(f"{name} is read-only, but the result is to be written there")
    element = x.element if isinstance(x, Mapped) else _elements.of_format(held.format, held.itemsize)
    if element is None:
        raise ArgumentError(f"{name} is of the other byte order: pass a copy in this machine's")
    buffer = _Buffer()
    _get_buffer(held, ctypes.byref(buffer), 0)
    address = buffer.buf or 0
    _release_buffer(ctypes.byref(buffer))  # `held` goes on to hold it
    return View(address, element, x.shape if isinstance(x, Mapped) else tuple(held.shape or ()), x, held)


def view(x: Any, name: str, writable: bool = False) -> View:
    """What `x`, the argument called `name`, is as memory. ArgumentError where it is not contiguous, or read-only but to
    be written; TypeError where it is no array."""
    if _numpy_array(x):
        return _of_numpy(x, name, writable)
    try:
        held = memoryview(x.memory if isinstance(x, Mapped) else x)
    except (TypeError, BufferError):  # BufferError: of a type without a format, as JAX's bfloat16
        pass
    else:
        return _of_buffer(x, held, name, writable)
    if hasattr(x, "__dlpack__"):
        address, element, shape, keep = _dlpack.read(x, name, writable)
        return View(address, element, shape, x, keep)
    raise TypeError(f"{name} is of type {type(x).__name__}: pass a NumPy array, or an object with the buffer protocol or "
                    "DLPack")


def numpy_dtype(element: Element) -> Any:
    """NumPy's type of that name, or ml_dtypes'."""
    import numpy
    if element.name == "bfloat16":
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(element.name)


def like(model: View, shape: "Tuple[int, ...]") -> Any:
    """A new array of the model's kind and type: NumPy's, PyTorch's, else a memoryview of a bytearray. Of a type that a
    memoryview cannot have it is NumPy's."""
    if _numpy_array(model.array):
        return sys.modules["numpy"].empty(shape, model.array.dtype)
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is not None and isinstance(model.array, tensor):
        return sys.modules["torch"].empty(shape, dtype=model.array.dtype)
    if isinstance(model.array, Mapped) and model.element.name in _elements.WITHOUT_FORMAT:
        try:
            import numpy
            return numpy.empty(shape, numpy_dtype(model.element))
        except ImportError:
            raise ArgumentError(f"out is needed for {model.element.name} where there is no NumPy") from None
    memory = memoryview(bytearray(math.prod(shape) * model.element.bytes))
    held = model.keep
    letter = held.format.lstrip("@=<") if isinstance(held, memoryview) and held.format else "B"
    try:
        return memory.cast(letter, shape) if 0 not in shape and len(shape) != 1 else memory.cast(letter)  # type: ignore
    except (ValueError, TypeError):  # a format that memoryview cannot have
        return memory


def result(x: View, out: Any, shape: "Tuple[int, ...]", name: str = "out") -> View:
    """Where a result of that shape, of x's type, goes: `out`, which must have room for exactly that, or a new array."""
    if out is None:
        made = view(like(x, shape), name, True)
        return View(made.address, x.element, shape, made.array, made.keep)  # what `made` is of may be bytes
    found = x if out is x.array else None
    if found is None or not _is_writable(found):
        found = view(out, name, True)
    check_type(found, x.element, name)
    if found.items != math.prod(shape):
        raise ArgumentError(f"{name} has {found.items} items, but the result has {math.prod(shape)}: shape {shape}")
    return found


def _is_writable(found: View) -> bool:
    held: Any = found.keep
    return bool(held.flags.writeable) if _numpy_array(held) else not getattr(held, "readonly", False)


def check_type(found: View, element: Element, name: str) -> None:
    if found.element != element:
        raise ArgumentError(f"{name} has items of type {found.element.name}, but those of x are {element.name}")


def counts_of(counts: Optional[Sequence[int]], size: int, row: int, name: str) -> "Tuple[List[int], Any]":
    """Rows for each rank, as ints; and as an array of kolo's elements, for kolo_*v."""
    if counts is None:
        raise ArgumentError(f"{name} is missing")
    high = _library.COUNT_MAX // max(1, row)
    numbers = [_library.integer(count, f"{name}[{rank}]", 0, high) for rank, count in enumerate(counts)]
    if len(numbers) != size:
        raise ArgumentError(f"{name} is {numbers}: give a number of rows for each of the {size} ranks")
    return numbers, (ctypes.c_size_t * size)(*(number * row for number in numbers))
