"""torch.ops.kolo: collectives as PyTorch operators, for the path where a call through torch.distributed costs too much.

    import torch, kolo4py.torch.ops as ops
    comm = ops.handle(group)                     # a process group of any backend, or a kolo.Comm: a number
    torch.ops.kolo.all_reduce_(x, comm)          # in place: the sum over the ranks
    y = torch.ops.kolo.all_gather(x, comm)       # the ranks' x, one behind the other along the first dimension

Operators, on contiguous CPU tensors; op is SUM (0), PROD, MIN, MAX, AVG, BAND, BOR, BXOR or SUM_EXACT of this
module:

    all_reduce(input, comm, op=SUM) -> Tensor             of input's shape
    all_reduce_(self, comm, op=SUM)                       the same in place
    all_gather(input, comm) -> Tensor                     [n * d0, ...] of n inputs of [d0, ...]
    all_gather_into(out, input, comm)                     out: n times as many items as input, of any shape
    reduce_scatter(input, comm, op=SUM) -> Tensor         [d0 / n, ...], this rank's part of the reduced input
    reduce_scatter_into(out, input, comm, op=SUM)
    all_to_all(input, comm) -> Tensor                     input's n parts along the first dimension go to the n ranks
    all_to_all_into(out, input, comm)
    gather_into(out, input, comm, root)                   as all_gather_into on rank root; elsewhere out stays

torch.compile takes them into its graphs. They have no derivatives: pass tensors that require none. Every rank calls them
in the same order, and one thread at a time uses a communicator. A call blocks until this rank's part is done. bool is
reduced by MIN, MAX, PROD and the bitwise ones, complex by SUM, AVG and SUM_EXACT; tensors of other types that kolo does
not know, such as float8, are only moved.

What fails is a RuntimeError with kolo's message; the stable ABI has no other. Which rank failed is in
communicator(group).failure. Ctrl-C in a call that waits aborts the communicator for all ranks, which is a RuntimeError,
too; KeyboardInterrupt follows with the next call of the package kolo4py.

Needs PyTorch 2.11 or later."""

import ctypes
import os
import re
import weakref
from typing import Any, Dict, Optional, Union

import torch
import torch.distributed as dist

import kolo4py as kolo

from .. import _library
from . import __path__ as package
from . import _builder, _groups
from ._groups import Group

SUM, PROD, MIN, MAX, AVG, BAND, BOR, BXOR, SUM_EXACT = range(9)  # kolo_op


def _load() -> ctypes.CDLL:
    """The operators, with the library that the package kolo4py uses."""
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < (2, 11):
        raise ImportError(f"kolo4py.torch.ops needs PyTorch 2.11 or later, but this is {torch.__version__}")
    _library.load()
    path = _builder.find_made("_operators.so", package)
    torch.ops.load_library(path)
    operators = ctypes.CDLL(path)
    operators.kolo_operators_add.argtypes, operators.kolo_operators_add.restype = [ctypes.c_void_p], ctypes.c_int64
    operators.kolo_operators_remove.argtypes, operators.kolo_operators_remove.restype = [ctypes.c_int64], None
    return operators


_operators = _load()
_all_reduce_ = torch.ops.kolo.all_reduce_.default  # the overload itself: PyTorch need not look for it in every call
_numbers: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()  # of a communicator's handle
_sizes: Dict[int, int] = {}  # ranks, by number
_of_groups: "weakref.WeakKeyDictionary[Group, kolo.Comm]" = weakref.WeakKeyDictionary()


def communicator(group: Optional[Group] = None) -> kolo.Comm:
    """A kolo communicator of the ranks of a process group, whatever its backend; None: of all ranks. It is made when a
    rank first asks: every rank of the group then does. Its ranks must be on one machine. It is closed when the group
    is gone, or by its close()."""
    group = _groups.default(group)
    comm = _of_groups.get(group)
    if comm is None:
        comm = _of_groups[group] = _groups.meet(group)
    return comm


def _remove(number: int, _place: ctypes.c_void_p) -> None:
    _operators.kolo_operators_remove(number)
    del _sizes[number]


def handle(of: "Union[kolo.Comm, Group, None]" = None) -> int:
    """The number by which operators name a communicator: that of a kolo.Comm, or of communicator(group). Keep the
    kolo.Comm for as long as the number is used: once it is closed or gone, operators refuse the number."""
    comm = of if isinstance(of, kolo.Comm) else communicator(of)
    owner = comm._handle
    owner.refuse_closed()
    number = _numbers.get(owner)
    if number is None:
        number = _operators.kolo_operators_add(ctypes.addressof(owner.comm))
        if number == 0:
            raise kolo.Unsupported("no more than 4096 communicators can be named by operators at a time")
        _numbers[owner], _sizes[number] = number, comm.size
        weakref.finalize(owner, _remove, number, owner.comm).atexit = False
    return number


_world: "tuple[Optional[Group], int]" = (None, 0)


@torch.compiler.assume_constant_result
def of_world() -> int:
    """handle(), but faster from the second time on, and a constant in compiled code."""
    global _world
    group = dist.group.WORLD
    if group is None or _world[0] is not group:
        _world = (group, handle(group))
    return _world[1]


def reduce_in_place(x: torch.Tensor, comm: int) -> torch.Tensor:
    """The sum over the ranks, in a tensor of any strides; returns it."""
    whole = x.contiguous()
    _all_reduce_(whole, comm)
    return x if whole is x else x.copy_(whole)


# Shapes for tracing.

def _size(comm: int) -> int:
    if comm not in _sizes:
        raise RuntimeError(f"torch.ops.kolo: comm {comm} is no communicator of kolo4py.torch.ops.handle, or one that does "
                           "not exist any more")
    return _sizes[comm]


def _like(input: torch.Tensor, first: Any) -> torch.Tensor:
    return input.new_empty((first, *input.shape[1:]))


@torch.library.register_fake("kolo::all_reduce")
def _(input: torch.Tensor, comm: int, op: int = SUM) -> torch.Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@torch.library.register_fake("kolo::all_gather")
def _(input: torch.Tensor, comm: int) -> torch.Tensor:
    return _like(input, _size(comm) * (input.shape[0] if input.dim() else 1))


@torch.library.register_fake("kolo::reduce_scatter")
def _(input: torch.Tensor, comm: int, op: int = SUM) -> torch.Tensor:
    torch._check(input.shape[0] % _size(comm) == 0)
    return _like(input, input.shape[0] // _size(comm))


@torch.library.register_fake("kolo::all_to_all")
def _(input: torch.Tensor, comm: int) -> torch.Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


_INTO = ("all_reduce_", "all_gather_into", "reduce_scatter_into", "all_to_all_into", "gather_into")
for _name in _INTO:
    torch.library.register_fake(f"kolo::{_name}", lambda *_arguments, **_options: None)

for _name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", *_INTO):  # others wait for a rank that drops a result
    torch.fx.node.has_side_effect(getattr(torch.ops.kolo, _name).default)
