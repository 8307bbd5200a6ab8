"""DLPack, by which tensors of other libraries come and go without copies. kolo asks for the struct with a version, which
alone says that memory is read-only, and takes that without one, which all libraries have. It gives the one that it is asked
for.

A capsule that kolo gets is left unconsumed: it ends what it holds when it is dropped, so the view keeps it."""

from __future__ import annotations

import atexit
import ctypes
import math

from . import _elements
from ._errors import ArgumentError
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

CPU = 1
READ_ONLY, IS_COPIED = 1, 2  # flags


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("dtype", DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    """DLManagedTensor."""
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
# Of a capsule that is being destroyed only its address may be handled.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))

_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_lent: Dict[int, Any] = {}  # by the address of the struct: what must live until its deleter is called


class Held:
    """What keeps memory that another library has lent."""

    def __init__(self, capsule: Any, owner: Any, readonly: bool) -> None:
        self.capsule, self.owner, self.readonly = capsule, owner, readonly


def _capsule_of(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before there were versions
        return x.__dlpack__()


def read(x: Any, name: str, writable: bool) -> "Tuple[int, _elements.Element, Tuple[int, ...], Held]":
    """Address, element type and shape of an object with __dlpack__, and what to keep meanwhile."""
    device = x.__dlpack_device__()[0]
    if device != CPU:
        raise ArgumentError(f"{name} is on a device of DLPack's type {int(device)}: kolo takes memory of the CPU only")
    if getattr(x, "is_neg", bool)():  # a tensor of PyTorch's whose memory has the negated values
        raise ArgumentError(f"{name} has the negative bit: pass {name}.resolve_neg()")
    try:
        capsule = _capsule_of(x)
    except Exception as error:
        raise ArgumentError(f"{name} cannot be lent by DLPack: {error}") from error
    if _is_valid(id(capsule), _VERSIONED_NAME):
        versioned = ctypes.cast(_get_pointer(capsule, _VERSIONED_NAME), ctypes.POINTER(Versioned)).contents
        tensor, readonly = versioned.tensor, bool(versioned.flags & READ_ONLY)
    else:
        tensor, readonly = ctypes.cast(_get_pointer(capsule, _NAME), ctypes.POINTER(Managed)).contents.tensor, False
    if writable and readonly:
        raise ArgumentError(f"{name} is read-only, but the result is to be written there")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        expected = 1
        for length, stride in zip(reversed(shape), [tensor.strides[i] for i in reversed(range(tensor.ndim))]):
            if length != 1 and stride != expected and 0 not in shape:
                raise ArgumentError(f"{name} is not contiguous: pass {name}.contiguous()")
            expected *= length
    element = _elements.of_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    return (tensor.data or 0) + tensor.byte_offset, element, shape, Held(capsule, x, readonly)


def _delete(address: int) -> None:
    _lent.pop(address, None)


def _destroy(capsule: int) -> None:
    for name in (_NAME, _VERSIONED_NAME):
        if _is_valid(capsule, name):  # nobody has consumed it
            _delete(_pointer_of_dying(capsule, name))


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)


@atexit.register
def _leave() -> None:
    """What is lent may outlive this module: it stays, and its taker calls nothing."""
    for managed, *_ in list(_lent.values()):  # others may be given back meanwhile
        managed.deleter = None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((_lent, _deleter, _destructor)))


def lend(address: int, element: _elements.Element, shape: "Tuple[int, ...]", keep: object,
         max_version: "Optional[Tuple[int, int]]" = None, flags: int = 0) -> Any:
    """A capsule of that memory; `keep` lives until its taker is done."""
    lengths = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    strides = (ctypes.c_int64 * max(1, len(shape)))(*(math.prod(shape[i + 1:]) for i in range(len(shape))))
    is_versioned = max_version is not None and max_version >= (1, 0)
    managed: Any = Versioned(major=1, minor=0, flags=flags) if is_versioned else Managed()
    managed.tensor = Tensor(address, CPU, 0, len(shape),
                            DataType(_elements.dlpack_code(element), 8 * element.bytes, 1),
                            ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64)),
                            ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0)
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    _lent[ctypes.addressof(managed)] = (managed, lengths, strides, keep)
    return _new(ctypes.addressof(managed), _VERSIONED_NAME if is_versioned else _NAME,
                ctypes.cast(_destructor, ctypes.c_void_p))
