"""A rank of the comparison that calls Gloo through torch.distributed: the driver's loop, loaded as a library, with
this shim. Run by PyTorch's Python: gloo_rank.py LIBRARY [driver's options]; kolorun gives rank and size."""

import ctypes
import datetime
import os
import sys
import traceback

import torch
import torch.distributed as distributed

FAILED, UNSUPPORTED = 1, 3
ALLREDUCE = 2  # by kolo.h's numbers
DTYPES = {9: torch.bfloat16, 10: torch.float32}  # by kolo.h's numbers


class GlooShim:
    """The functions that the driver calls. Tensors over its buffers are made once and kept."""

    def __init__(self):
        self.dtype = None
        self.group = None
        self.tensors = {}

    def begin(self, collective, dtype, rank, ranks, library):
        if collective != ALLREDUCE:
            return UNSUPPORTED
        torch.set_num_threads(1)
        self.dtype = DTYPES[dtype]
        rank[0], ranks[0] = int(os.environ["KOLO_RANK"]), int(os.environ["KOLO_SIZE"])
        gate = sys.argv[sys.argv.index("--gate") + 1]
        distributed.init_process_group("gloo", init_method=f"file://{gate}.store", rank=rank[0], world_size=ranks[0],
                                       timeout=datetime.timedelta(seconds=300))
        self.group = distributed.distributed_c10d._get_default_group()
        self.name = f"Gloo of PyTorch {torch.__version__}".encode()
        library[0] = self.name
        return 0

    def tensor(self, address, count):
        found = self.tensors.get((address, count))
        if found is None:
            memory = (ctypes.c_char * (count * self.dtype.itemsize)).from_address(address)
            found = torch.frombuffer(memory, dtype=self.dtype)
            self.tensors[address, count] = found
        return found

    def allreduce(self, send, recv, count):
        """c10d has it in place only, so out of place takes a copy first, as any of its users would."""
        result = self.tensor(recv, count)
        if send != recv:
            result.copy_(self.tensor(send, count))
        self.group.allreduce([result]).wait()
        return 0

    def end(self):
        distributed.destroy_process_group()
        return 0


def guarded(function):
    """An exception must not leave through C: it is told, and the call has failed."""

    def call(*arguments):
        try:
            return function(*arguments)
        except Exception:  # whatever PyTorch raises
            traceback.print_exc()
            return FAILED

    return call


def main():
    pointer = ctypes.POINTER
    begin = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, pointer(ctypes.c_int),
                             pointer(ctypes.c_int), pointer(ctypes.c_char_p))
    allreduce = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    end = ctypes.CFUNCTYPE(ctypes.c_int)

    class Shim(ctypes.Structure):
        _fields_ = [("begin", begin), ("call", allreduce), ("end", end)]

    gloo = GlooShim()
    shim = Shim(begin(guarded(gloo.begin)), allreduce(guarded(gloo.allreduce)), end(guarded(gloo.end)))
    words = [b"driver", *(os.fsencode(word) for word in sys.argv[2:])]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    return ctypes.CDLL(sys.argv[1]).driver_run(len(words), argv, ctypes.byref(shim))


if __name__ == "__main__":
    sys.exit(main())
