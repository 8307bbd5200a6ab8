"""LightGBM's network over kolo: what its trees exchange goes through the two functions that it takes from outside
(LGBM_NetworkInitWithFunctions). No PyTorch, and no list of machines and ports.

    with kolo.init() as comm, lightgbm_network.Network(comm) as network:
        booster = lightgbm.train({**network.parameters, "objective": "binary"}, lightgbm.Dataset(own_rows, own_labels))

Each rank has rows of its own, and all get the same booster."""

import ctypes
import functools
import os
import sys
import traceback

import lightgbm

import kolo4py as kolo

NUMBERS = ctypes.POINTER(ctypes.c_int32)
REDUCER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int32)
REDUCE_SCATTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, NUMBERS, NUMBERS, ctypes.c_int,
                                  ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(REDUCER))
ALL_GATHER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, NUMBERS, NUMBERS, ctypes.c_int, ctypes.c_void_p,
                              ctypes.c_int32)


def memory(address, count):
    """That many bytes there."""
    return (ctypes.c_ubyte * count).from_address(address)


def or_end(function):
    """LightGBM cannot be told that an exchange has failed: the process says why, and ends."""
    @functools.wraps(function)
    def guarded(*arguments):
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    return guarded


class Network:
    """LightGBM's network for as long as the context lasts. parameters: for lightgbm.train and Dataset."""

    def __init__(self, comm: kolo.Comm) -> None:
        self._comm = comm
        self._functions = (REDUCE_SCATTER(or_end(self._reduce_scatter)), ALL_GATHER(or_end(self._all_gather)))
        self.parameters = {"tree_learner": "data", "num_machines": comm.size, "pre_partition": True}

    def __enter__(self) -> "Network":
        addresses = [ctypes.cast(function, ctypes.c_void_p) for function in self._functions]
        lightgbm.basic._safe_call(lightgbm.basic._LIB.LGBM_NetworkInitWithFunctions(
            self._comm.size, self._comm.rank, *addresses))
        return self

    def __exit__(self, *_):
        lightgbm.basic._safe_call(lightgbm.basic._LIB.LGBM_NetworkFree())

    def _reduce_scatter(self, data, data_bytes, item_bytes, _, block_bytes, blocks, out, out_bytes, reducer):
        """Block r of every rank's data goes to rank r, which adds them up by LightGBM's own function, rank by rank."""
        sent = block_bytes[:blocks]
        own = sent[self._comm.rank]
        received = (ctypes.c_ubyte * (own * blocks))()
        self._comm.all_to_all(memory(data, data_bytes), received, sent, [own] * blocks)
        ctypes.memmove(out, received, own)
        for rank in range(1, blocks):
            reducer[0](ctypes.addressof(received) + rank * own, out, item_bytes, own)

    def _all_gather(self, data, data_bytes, _, block_bytes, blocks, out, out_bytes):
        self._comm.all_gather(memory(data, data_bytes), memory(out, out_bytes), block_bytes[:blocks])
