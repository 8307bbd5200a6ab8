"""Gradients are reduced during the backward pass.

The parameters are in buckets, in the reverse of their order, since gradients come about in that order. A bucket is one flat
buffer and one call. It starts when it and all before it are full, and goes on in the background while the pass goes on.
So every rank makes the same calls in the same order, whatever the order in which its gradients come. `finish` starts what
is left: gradients that never came count as 0. A bucket that lacks a gradient on one rank starts later there than on others,
so the calls have a communicator of their own: what the program and other optimizers call in between does not matter.

Which parameters have sparse gradients the ranks agree on in the first `finish`, before which nothing travels: those are in
no bucket, and their entries are gathered in `finish`. What comes sparse later is made dense."""

import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Type

import torch

import kolo4py as kolo

from ..torch._gradient_hooks import call_after
from ..torch.compression import Compressor
from ._job import duplicate
from ._tensors import CHECKED, Average, Max, Sum, _sparse_allreduce


class Bucket:
    """Parameters of one type, whose gradients travel together."""

    def __init__(self, comm: kolo.Comm, parameters: "Sequence[torch.Tensor]", compression: Type[Compressor]) -> None:
        self._comm, self.parameters, self._compression = comm, parameters, compression
        self.flat = _shared(comm, sum(parameter.numel() for parameter in parameters), parameters[0].dtype)
        pieces = self.flat.split([parameter.numel() for parameter in parameters])
        self._views = [piece.view(parameter.shape) for piece, parameter in zip(pieces, parameters)]
        self._missing = set(parameters)
        self._request: "Optional[kolo.Request[Any]]" = None
        self._context: Any = None

    def take(self, parameter: torch.Tensor) -> None:
        """Its gradient has come."""
        self._missing.discard(parameter)

    def is_full(self) -> bool:
        return not self._missing

    def start(self, op: str, prescale: float) -> None:
        for view, parameter in zip(self._views, self.parameters):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
        if prescale != 1:
            self.flat.mul_(prescale)
        wire, self._context = self._compression.compress(self.flat)
        self._request = self._comm.all_reduce(wire, wire, op, async_=True)

    def finish(self, postscale: float) -> None:
        """Waits, and writes the gradients of all ranks."""
        assert self._request is not None
        reduced = self._compression.decompress(self._request.wait(), self._context)
        self._request, self._context = None, None
        if reduced is not self.flat:
            self.flat.copy_(reduced)
        if postscale != 1:
            self.flat.mul_(postscale)
        for view, parameter in zip(self._views, self.parameters):
            if parameter.grad is not None:
                parameter.grad.copy_(view)
            elif parameter.requires_grad:
                parameter.grad = view.clone()
        self._missing = set(self.parameters)


def _shared(comm: kolo.Comm, items: int, dtype: torch.dtype) -> torch.Tensor:
    """In memory that all ranks have mapped, where there is room for that."""
    try:
        return torch.utils.dlpack.from_dlpack(comm.empty(max(1, items), dtype))[:items]
    except (kolo.NoSpace, kolo.ArgumentError):  # a type that kolo does not know
        return torch.zeros(items, dtype=dtype)


def divide(parameters: "Iterable[torch.Tensor]", bucket_bytes: int) -> "List[List[torch.Tensor]]":
    """Into lists of one type and about so many bytes, each of at least one parameter."""
    lists: "List[List[torch.Tensor]]" = []
    open_lists: "Dict[torch.dtype, Tuple[List[torch.Tensor], int]]" = {}
    for parameter in parameters:
        own_bytes = parameter.numel() * parameter.element_size()
        members, used_bytes = open_lists.get(parameter.dtype, ([], 0))
        if not members or used_bytes + own_bytes > bucket_bytes:
            members, used_bytes = [], 0
            lists.append(members)
        members.append(parameter)
        open_lists[parameter.dtype] = (members, used_bytes + own_bytes)
    return lists


class Reducer:
    """Of one optimizer. passes: how many backward passes there are for each `finish`."""

    def __init__(self, named: "Dict[torch.Tensor, str]", compression: Type[Compressor], op: str, predivide: float,
                 passes: int, sparse_as_dense: bool, bucket_bytes: int) -> None:
        self._frozen = {parameter: name for parameter, name in named.items() if not parameter.requires_grad}
        self._names = named = {parameter: name for parameter, name in named.items() if parameter.requires_grad}
        self._passes = passes
        self._op = op if predivide == 1 else Sum
        self._predivide, self._compression, self._bucket_bytes = predivide, compression, bucket_bytes
        self._bucket_of: "Dict[torch.Tensor, Bucket]" = {}
        self._buckets: "List[Bucket]" = []
        self._sparse: "Optional[Dict[torch.Tensor, int]]" = {} if sparse_as_dense else None  # see _divide; None: not known yet
        self._left = dict.fromkeys(named, passes)
        self.is_reduced = False  # by synchronize(), which no step() has followed; the same on every rank
        self._join()
        hooks = [call_after(parameter, self._arrive) for parameter in named]
        weakref.finalize(self, lambda: [hook.remove() for hook in hooks])

    def _join(self) -> None:
        """Begins in the job that there is now. Every rank calls it."""
        self._comm, self._started = duplicate(), 0
        self._prescale = 1 / self._predivide
        self._postscale = self._predivide / self._comm.size if self._predivide != 1 else 1.0  # which is for Average
        if self._sparse is not None:
            self._divide(self._sparse)

    def set_passes(self, passes: int) -> None:
        self._passes = passes
        self._left = dict.fromkeys(self._left, passes)

    def is_busy(self) -> bool:
        """Whether gradients are on their way, or will be in `finish`."""
        return self._started > 0 or (self._waits() and not all(self._left.values()))

    def _waits(self) -> bool:
        """Whether nothing travels before `finish`: in the first one of a job the ranks agree on the buckets, and after
        synchronize() on whether there are new gradients."""
        return self._sparse is None or self.is_reduced or self._comm.closed

    @torch.no_grad()
    def _divide(self, sparse: "Dict[torch.Tensor, int]") -> None:
        """Makes the buckets. sparse: what is in none, with its number of sparse dimensions."""
        dense = [parameter for parameter in self._names if parameter not in sparse]
        self._buckets = [Bucket(self._comm, members, self._compression)
                         for members in divide(reversed(dense), self._bucket_bytes)]
        self._bucket_of = {parameter: bucket for bucket in self._buckets for parameter in bucket.parameters}
        self._sparse = sparse

    def _agree(self) -> None:
        """Which gradients are sparse, on any rank."""
        grads = [parameter.grad for parameter in self._names]
        dims = torch.tensor([grad.sparse_dim() if grad is not None and grad.is_sparse else 0 for grad in grads])
        with self._comm._handle.undivided():
            agreed = self._comm.all_reduce(dims, dims, Max).tolist()
            self._divide({parameter: dim for parameter, dim in zip(self._names, agreed) if dim})

    def _entries(self, parameter: torch.Tensor, dim: int) -> torch.Tensor:
        """Its gradient, sparse; without entries where there is none."""
        if parameter.grad is None:
            return torch.sparse_coo_tensor(torch.empty((dim, 0), dtype=torch.int64),
                                           parameter.new_empty((0, *parameter.shape[dim:])), parameter.shape,
                                           **CHECKED)
        return parameter.grad if parameter.grad.is_sparse else parameter.grad.to_sparse(dim)

    def _arrive(self, parameter: torch.Tensor) -> None:
        """A backward pass has added to a parameter's gradient."""
        name = self._names[parameter]
        if not self._left[parameter]:
            raise RuntimeError(f"{name} has got more than {self._passes} gradients since the last step() or synchronize(): "
                               "pass a larger backward_passes_per_step to DistributedOptimizer")
        bucket = self._bucket_of.get(parameter)
        if bucket is not None and parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()
        self._left[parameter] -= 1
        if bucket is not None and not self._left[parameter]:
            bucket.take(parameter)
            while not self._waits() and self._started < len(self._buckets) and self._buckets[self._started].is_full():
                self._start()

    @torch.no_grad()
    def _start(self) -> None:
        self._started += 1
        with self._comm._handle.undivided():  # the others start the same bucket
            self._buckets[self._started - 1].start(self._op, self._prescale)

    def finish_new(self) -> None:
        """`finish`, but after synchronize() only if a rank has got a gradient since then."""
        is_reduced, self.is_reduced = self.is_reduced, False
        if not is_reduced:
            self.finish()
            return
        if self._comm.closed:  # by shutdown()
            self._join()
        is_new = torch.tensor([int(any(left < self._passes for left in self._left.values()))])
        with self._comm._handle.undivided():
            if self._comm.all_reduce(is_new, is_new, Max).item():
                self.finish()

    @torch.no_grad()
    def finish(self) -> None:
        """All gradients become those of all ranks. Every rank calls it as often."""
        for parameter, name in self._frozen.items():
            if parameter.requires_grad and parameter.grad is not None:
                raise RuntimeError(f"{name} required no gradient when the optimizer was made, which so cannot train it: "
                                   "freeze parameters after that")
        if self._comm.closed:  # by shutdown()
            self._join()
        if self._sparse is None:
            self._agree()
        while self._started < len(self._buckets):
            self._start()
        with self._comm._handle.undivided():
            gathered = {parameter: _sparse_allreduce(self._entries(parameter, dim), None, self._op, self._prescale,
                                                     self._postscale, self._comm)
                        for parameter, dim in (self._sparse or {}).items()}
            for bucket in self._buckets:
                bucket.finish(self._postscale)
            for parameter, handle in gathered.items():
                parameter.grad = handle.wait()
        self._started = 0
        self.set_passes(self._passes)
