"""Arrays of several kinds for the Python tests: of the buffer protocol, of DLPack and, if it is there, of NumPy."""

import array
import ctypes

from kolo4py import _dlpack, _elements

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Kind:
    """A kind of array: of which library, and of which type."""

    def __init__(self, name, make, is_float):
        self.name, self.make, self.is_float = name, make, is_float

    def filled(self, *shape, value=0):
        length = 1
        for n in shape:
            length *= n
        return self.make([value] * length, shape)


def _of_array(letter):
    return lambda values, shape: memoryview(bytearray(array.array(letter, values).tobytes())).cast(letter, shape)


def _of_numpy(dtype):
    return lambda values, shape: numpy.array(values, dtype=dtype).reshape(shape)


class Lent:
    """Memory that can be had by DLPack only, as that of a PyTorch tensor."""

    name = "float32"

    def __init__(self, values, shape):
        self.data = (ctypes.c_float * len(values))(*values)
        self.shape = shape

    def __dlpack__(self, stream=None):
        return _dlpack.lend(ctypes.addressof(self.data), _elements.must_name(self.name), self.shape, self.data)

    def __dlpack_device__(self):
        return (1, 0)

    def tolist(self):
        return list(self.data)

    def tobytes(self):
        return bytes(self.data)


class LentHalf(Lent):
    """As JAX's arrays of bfloat16."""

    name = "bfloat16"

    def __init__(self, values, shape):
        super().__init__(values, shape)
        self.data = (ctypes.c_uint16 * len(values))(*memoryview(bytes(self.data)).cast("H").tolist()[1::2])


KINDS = [Kind("memoryview of int32", _of_array("i"), False), Kind("memoryview of double", _of_array("d"), True),
         Kind("DLPack of float32", Lent, True)]
if numpy:
    KINDS += [Kind(f"numpy {name}", _of_numpy(name), "float" in name)
              for name in ("int8", "uint16", "int64", "float16", "float32")]
if numpy and ml_dtypes:
    KINDS.append(Kind("numpy bfloat16", _of_numpy(ml_dtypes.bfloat16), True))
# Whose values Python does not tell; a memoryview of a bytearray cannot have their types. Complex numbers have sums alone.
WITHOUT_VALUES = [Kind("DLPack of bfloat16", LentHalf, True)]
if numpy:
    WITHOUT_VALUES += [Kind(f"memoryview of {name}", lambda *x, name=name: memoryview(_of_numpy(name)(*x)), True)
                       for name in ("float16", "complex64", "complex128")]


def each_kind(test, kinds=None):
    """All of them; `test` tells which one it was at."""
    for kind in kinds or KINDS:
        test.kind = kind.name
        yield kind
