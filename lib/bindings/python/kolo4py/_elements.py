"""Element types: how NumPy, the buffer protocol, DLPack and kolo call them."""

from __future__ import annotations

from ._errors import ArgumentError
from ._typing import NamedTuple, TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, FrozenSet, Optional

I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 = range(12)  # kolo_dtype
OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4, "band": 5, "bor": 6, "bxor": 7,
       "sum_exact": 8}  # kolo_op
ALGORITHMS = {"auto": 0, "oneshot": 1, "mesh": 2, "ring": 3, "central": 4, "direct": 5, "tree": 6}  # kolo_algorithm

_BITS = frozenset(("band", "bor", "bxor"))
_FLOAT = frozenset(OPS) - _BITS
_INTEGER = frozenset(OPS) - {"sum_exact"}
_COMPLEX = frozenset(("sum", "avg", "sum_exact"))


class Element(NamedTuple):
    """One item of an array, as `width` of kolo's elements: complex numbers are two each, and types that kolo does not
    know are their bytes."""
    name: str
    code: int
    bytes: int
    width: int
    ops: FrozenSet[str]  # that can be done with it; none: it can only be moved


BOOL = Element("bool", U8, 1, 1, _BITS | {"min", "max", "prod"})
_TABLE = {element.name: element for element in (
    Element("int8", I8, 1, 1, _INTEGER), Element("uint8", U8, 1, 1, _INTEGER),
    Element("int16", I16, 2, 1, _INTEGER), Element("uint16", U16, 2, 1, _INTEGER),
    Element("int32", I32, 4, 1, _INTEGER), Element("uint32", U32, 4, 1, _INTEGER),
    Element("int64", I64, 8, 1, _INTEGER), Element("uint64", U64, 8, 1, _INTEGER),
    Element("float16", F16, 2, 1, _FLOAT), Element("bfloat16", BF16, 2, 1, _FLOAT),
    Element("float32", F32, 4, 1, _FLOAT), Element("float64", F64, 8, 1, _FLOAT), BOOL,
    Element("complex64", F32, 8, 2, _COMPLEX), Element("complex128", F64, 16, 2, _COMPLEX))}
WITHOUT_FORMAT = ("float16", "bfloat16", "complex64", "complex128")  # that ctypes gives the buffer protocol

# Further names: NumPy's codes, which count bytes, its and Python's words, and bf16, for which NumPy has no code.
_NAMES = {alias: name for name, aliases in {
    "int8": "b i1 byte", "uint8": "B u1 ubyte", "int16": "h i2 short", "uint16": "H u2 ushort", "int32": "i i4 intc",
    "uint32": "I u4 uintc", "int64": "l q n p i8 int int_ intp long longlong",
    "uint64": "L Q N P u8 uint uintp ulong ulonglong", "float16": "e f2 half", "bfloat16": "bf16",
    "float32": "f f4 single", "float64": "d f8 float double", "bool": "? b1 bool_", "complex64": "F c8 csingle",
    "complex128": "D c16 complex cdouble"}.items() for alias in aliases.split()}


def raw(item_bytes: int) -> Element:
    """A type that kolo does not know, as bytes."""
    if not item_bytes:
        raise ArgumentError("items of 0 bytes cannot be moved")
    return Element(f"items of {item_bytes} bytes", U8, item_bytes, item_bytes, frozenset())


def named(dtype: Any) -> Optional[Element]:
    """By NumPy's name or code, or anything that has such a name, as numpy.float32, ml_dtypes.bfloat16, torch.float32 and
    float do. None: kolo has no such type."""
    if isinstance(dtype, str):
        name = dtype[1:] if dtype[:1] in ("<", "=", "|") else dtype
    else:
        found = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
        name = found if isinstance(found, str) else str(dtype).removeprefix("torch.")
    return _TABLE.get(_NAMES.get(name, name))


def must_name(dtype: Any) -> Element:
    """The same; ArgumentError where kolo has no such type, or the bytes are in the other order."""
    element = named(dtype)
    if element is not None and getattr(dtype, "isnative", True):
        return element
    if isinstance(dtype, str) and dtype[:1] in ("i", "u", "f") and dtype[1:] in ("16", "32", "64"):
        code = f"{dtype[0]}{int(dtype[1:]) // 8}"
        raise ArgumentError(f"dtype {dtype!r} is {_NAMES[code]} in C, where kolo's names count bits, and "
                            f"{'float128' if dtype == 'f16' else 'no type'} in NumPy, whose codes count bytes: write "
                            f"{code!r} or {_NAMES[code]!r}")
    raise ArgumentError(f"dtype {dtype!r} is none of {', '.join(_TABLE)}, in this machine's byte order")


def of_format(text: str, item_bytes: int) -> Optional[Element]:
    """By a format of the struct module. None: of the other byte order."""
    if text[:1] in (">", "!") and item_bytes > 1:
        return None
    if "O" in "".join(text.split(":")[::2]):  # without the names of fields
        raise ArgumentError("Python objects cannot be moved: use the calls that end in _object")
    letter = text.lstrip("@=<>!")
    if letter == "?":
        return BOOL
    if letter in ("e", "f", "d", "F", "D", "Zf", "Zd"):
        return _TABLE[f"{'complex' if letter[0] in 'FDZ' else 'float'}{8 * item_bytes}"]
    if len(letter) == 1 and letter in "bhilqnBHILQN":
        return _TABLE.get(f"{'int' if letter.islower() else 'uint'}{8 * item_bytes}") or raw(item_bytes)
    return _TABLE["uint8"] if item_bytes == 1 else raw(item_bytes)


def of_dlpack(code: int, bits: int, lanes: int) -> Element:
    """By the three numbers of a DLDataType."""
    kind = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}.get(code)
    name = "bool" if kind == "bool" else f"{kind}{bits}"
    if bits * lanes % 8:
        raise ArgumentError(f"items of {bits * lanes} bits cannot be moved")
    return _TABLE[name] if lanes == 1 and name in _TABLE else raw(bits * lanes // 8)


def dlpack_code(element: Element) -> int:
    """The kind of a DLDataType."""
    kind = element.name.rstrip("0123456789")
    return {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}[kind]


def op_code(op: str, element: Element) -> int:
    """kolo_op, if it can be done with these elements."""
    code = OPS.get(op)
    if code is None:
        raise ArgumentError(f"op {op!r} is none of {', '.join(OPS)}")
    if op not in element.ops:
        raise ArgumentError(f"op {op!r} cannot be done with {element.name}"
                            + (f", only {', '.join(sorted(element.ops))}" if element.ops else ": they can only be moved"))
    return code
