"""Collectives on tensors. Every rank makes the same calls in the same order; `name` is there for scripts of Horovod, and
says nothing. The functions that end in _ write into the tensors that they get. allreduce, grouped_allreduce,
reducescatter, allgather and broadcast can be differentiated."""

import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type, Union

import torch

import kolo4py as kolo

from .. import _elements
from ..torch.compression import Compression, Compressor
from ._job import communicator

Average, Sum, Adasum, Min, Max, Product = "avg", "sum", "adasum", "min", "max", "prod"


class Handle:
    """A call in the background, for synchronize and poll, of one or several requests. outs: the tensors that it changes.
    copies: when it begins or ends it copies, or multiplies, what the caller has."""

    def __init__(self, requests: "Sequence[kolo.Request[Any]]", finish: "Callable[..., Any]",
                 outs: "Sequence[torch.Tensor]", copies: bool) -> None:
        self._requests, self.copies = requests, copies
        self._finish: "Optional[Callable[..., Any]]" = finish
        self._result: Any = None
        self.memories = {_memory(out) for out in outs}
        _in_flight.add(self)
        for request in requests:
            request._keep = request._keep, self  # the call is known while it is in flight

    def done(self) -> bool:
        return all(request.done() for request in self._requests)

    def wait(self) -> Any:
        if self._finish is not None:
            try:
                done = [request.wait() for request in self._requests]
            except kolo.Error:
                _in_flight.discard(self)
                raise
            finish, self._finish = self._finish, None  # not when a handler has raised: the call goes on
            self._requests = ()
            _in_flight.discard(self)
            self._result = finish(*done)
        return self._result

    def tensor(self) -> torch.Tensor:
        """The same, of a call for one tensor."""
        result: torch.Tensor = self.wait()
        return result

    __call__ = wait  # as scripts call what sparse_allreduce_async returns


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Without its history."""
    if tensor.layout is not torch.strided:
        raise kolo.ArgumentError(f"the tensor's layout is {tensor.layout}: make it dense, by to_dense(); only allreduce and "
                                 "sparse_allreduce_async take tensors of torch.sparse_coo")
    return tensor.detach()


_in_flight: "weakref.WeakSet[Handle]" = weakref.WeakSet()


def _memory(tensor: torch.Tensor) -> int:
    """Equal for views of one tensor."""
    storage: Any = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.data_ptr())


def _await_changes(tensor: torch.Tensor, copies: bool) -> None:
    """Before a call with the tensor. Calls are carried out in order, but copies are made when a call begins and when its
    end is waited for: so before a copy the calls in flight that change the tensor are waited for, and their copies."""
    memory = _memory(tensor)
    for handle in [handle for handle in _in_flight if memory in handle.memories and (copies or handle.copies)]:
        handle.wait()


def poll(handle: Handle) -> bool:
    """Whether the call is complete, so that synchronize returns at once."""
    return handle.done()


def synchronize(handle: Handle) -> Any:
    """Waits for the call, and returns its result: a tensor, or a list of tensors."""
    return handle.wait()


def checked_op(op: Optional[str], average: Optional[bool] = None) -> str:
    """average: an older way to say op."""
    if op is not None and average is not None:
        raise kolo.ArgumentError("both op and average are given: leave average out, as op says more")
    if op == Adasum:
        raise kolo.ArgumentError("op Adasum is not in kolo: use op=hvd.Average")
    return op or (Sum if average is False else Average)


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Of the same type: integers are multiplied as float64, and cut off."""
    if factor == 1:
        return x
    return ((x if x.is_floating_point() or x.is_complex() else x.double()) * factor).to(x.dtype)


def _allreduce(tensor: torch.Tensor, out: Optional[torch.Tensor], op: str, compression: Type[Compressor], prescale: float,
               postscale: float) -> Handle:
    if tensor.is_sparse:
        return _sparse_allreduce(tensor, out, op, prescale, postscale)
    x = _dense(tensor)
    begins_with_copy = prescale != 1 or compression is not Compression.none or not x.is_contiguous()
    _await_changes(x, begins_with_copy)
    wire, context = compression.compress(_scaled(x, prescale))
    wire = wire.contiguous()
    is_in_place = out is not None and wire.data_ptr() == out.data_ptr()
    target = wire if is_in_place else torch.empty_like(wire)

    def finish(reduced: torch.Tensor) -> torch.Tensor:
        result = _scaled(compression.decompress(reduced, context), postscale)
        if out is None:
            return result
        if result.data_ptr() != out.data_ptr():
            out.detach().copy_(result)
        return out

    return Handle([communicator().all_reduce(wire, target, op, async_=True)], finish, () if out is None else (out,),
                  begins_with_copy or postscale != 1)


# Has PyTorch, from 2.0 on, check what it makes; else it warns.
CHECKED: "Dict[str, Any]" = {"check_invariants": True} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}


def _sparse_allreduce(tensor: torch.Tensor, out: Optional[torch.Tensor], op: str, prescale: float, postscale: float,
                      comm: Optional[kolo.Comm] = None) -> Handle:
    """Every rank gets all ranks' entries, and adds up those that have the same index. comm: the job's if not given."""
    if op not in (Average, Sum):
        raise kolo.ArgumentError(f"op {op!r} cannot be done with sparse tensors, only Average and Sum")
    for part in (tensor._indices(), tensor._values()):
        _await_changes(part, True)
    comm, x = comm or communicator(), tensor.detach()  # with the entries of now, and not those that copy_ gives the tensor
    own = _scaled(x, prescale).coalesce()
    with comm._handle.undivided(begun=False) as calls:
        indices = own.indices().t().contiguous()  # an entry each row
        shapes = comm.all_gather(torch.tensor([*indices.shape, *x.shape])).tolist()
        counts = [shape.pop(0) for shape in shapes]
        for rank, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise kolo.ArgumentError(f"rank {rank}'s sparse tensor has the sizes {shape[1:]}, the first {shape[0]} of them"
                                         f" sparse, and rank 0's {shapes[0][1:]}, the first {shapes[0][0]}")
        calls.begun = True
        requests = [comm.all_gather(part, part.new_empty((sum(counts), *part.shape[1:])), counts, async_=True)
                    for part in (indices, own.values().contiguous())]

    def finish(indices: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        total = torch.sparse_coo_tensor(indices.t(), values, x.shape, **CHECKED).coalesce()
        result = _scaled(total, postscale / comm.size if op == Average else postscale)
        if out is None:
            return result
        with torch.no_grad():
            return out.copy_(result)

    return Handle(requests, finish, () if out is None else (out._values(),), True)


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str] = None, op: Optional[str] = None) -> Handle:
    """allreduce of a sparse tensor, whose entries all ranks gather, in the background: synchronize(handle), or handle(),
    returns a sparse tensor. op: Average (if not given) or Sum."""
    if not tensor.is_sparse:
        raise kolo.ArgumentError(f"the tensor's layout is {tensor.layout}, not torch.sparse_coo: use allreduce_async")
    return _sparse_allreduce(tensor, None, checked_op(op), 1, 1)


def _grouped_allreduce(tensors: "Sequence[torch.Tensor]", is_in_place: bool, op: str, compression: Type[Compressor],
                       prescale: float, postscale: float) -> Handle:
    """One message for all tensors of a type."""
    xs = [_dense(tensor) for tensor in tensors]
    for x in xs:
        _await_changes(x, True)
    packed = [compression.compress(_scaled(x, prescale)) for x in xs]
    wires = [wire.contiguous() if is_in_place else wire.clone(memory_format=torch.contiguous_format) for wire, _ in packed]
    requests = []
    for wire in wires:  # before the first message is on its way
        _elements.op_code(op, _elements.must_name(wire.dtype))
    with communicator()._handle.undivided(begun=False) as calls:
        for dtype in dict.fromkeys(wire.dtype for wire in wires):
            alike = [wire for wire in wires if wire.dtype == dtype]
            requests.append(communicator().all_reduce_many(alike, op, async_=True))
            calls.begun = True

    def finish(*_: Any) -> "List[torch.Tensor]":
        results = [_scaled(compression.decompress(wire, context), postscale) for wire, (_, context) in zip(wires, packed)]
        for tensor, result in zip(tensors, results):
            if is_in_place and tensor.data_ptr() != result.data_ptr():
                tensor.detach().copy_(result)
        return list(tensors) if is_in_place else results

    return Handle(requests, finish, tensors if is_in_place else (), True)


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
        ctx.arguments = arguments
        return _allreduce(tensor, None, *arguments).tensor()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if ctx.arguments[0] not in (Average, Sum):
            raise kolo.ArgumentError(f"an allreduce with op {ctx.arguments[0]!r} has no gradient: only Average and Sum do")
        return (_Allreduce.apply(gradient, *ctx.arguments), *(None for _ in ctx.arguments))


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, op: Optional[str] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0) -> torch.Tensor:
    """A new tensor: op over all ranks' tensors, item by item. op: Average (if not given), Sum, Min, Max, Product."""
    result: torch.Tensor = _Allreduce.apply(tensor, checked_op(op, average), compression, prescale_factor,
                                            postscale_factor)
    return result


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Handle:
    """allreduce in the background. The tensor must not change until synchronize has returned the result."""
    return _allreduce(tensor, None, checked_op(op, average), Compression.none, prescale_factor, postscale_factor)


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[str] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> torch.Tensor:
    """allreduce in place."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor).tensor()


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Handle:
    """allreduce in place and in the background."""
    return _allreduce(tensor, tensor, checked_op(op, average), Compression.none, prescale_factor, postscale_factor)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arguments: Any, *tensors: torch.Tensor) -> Any:
        ctx.arguments = arguments
        return tuple(_grouped_allreduce(tensors, False, *arguments).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        if ctx.arguments[0] not in (Average, Sum):
            raise kolo.ArgumentError(f"a grouped_allreduce with op {ctx.arguments[0]!r} has no gradient: only Average and "
                                     "Sum do")
        return (None, *_GroupedAllreduce.apply(ctx.arguments, *gradients))


def grouped_allreduce(tensors: "Sequence[torch.Tensor]", average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none, op: Optional[str] = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> "List[torch.Tensor]":
    """allreduce of each tensor; those of one type travel as one message."""
    arguments = checked_op(op, average), compression, prescale_factor, postscale_factor
    return list(_GroupedAllreduce.apply(arguments, *tensors))


def grouped_allreduce_async(tensors: "Sequence[torch.Tensor]", average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) \
        -> Handle:
    """grouped_allreduce in the background: synchronize returns the list."""
    return _grouped_allreduce(tensors, False, checked_op(op, average), Compression.none, prescale_factor, postscale_factor)


def grouped_allreduce_(tensors: "Sequence[torch.Tensor]", average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) \
        -> "List[torch.Tensor]":
    """grouped_allreduce in place."""
    result: "List[torch.Tensor]" = grouped_allreduce_async_(tensors, average, name, op, prescale_factor,
                                                            postscale_factor).wait()
    return result


def grouped_allreduce_async_(tensors: "Sequence[torch.Tensor]", average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[str] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0) -> Handle:
    """grouped_allreduce in place and in the background."""
    return _grouped_allreduce(tensors, True, checked_op(op, average), Compression.none, prescale_factor, postscale_factor)


def _reducescatter(tensor: torch.Tensor, op: str, compression: Type[Compressor], prescale: float, postscale: float) \
        -> "Tuple[Handle, List[int]]":
    comm, x = communicator(), _dense(tensor)
    if x.dim() == 0:
        raise kolo.ArgumentError("reducescatter of a tensor without dimensions, which has no rows for the ranks")
    _await_changes(x, True)
    each, more = divmod(x.shape[0], comm.size)
    counts = [each + (rank < more) for rank in range(comm.size)]
    wire, context = compression.compress(_scaled(x, prescale))
    out = wire.new_empty((counts[comm.rank], *wire.shape[1:]))
    request = comm.reduce_scatter(wire.contiguous(), out, op, counts, async_=True)
    return Handle([request], lambda rows: _scaled(compression.decompress(rows, context), postscale), (), True), counts


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
        ctx.arguments = arguments
        handle, ctx.counts = _reducescatter(tensor, *arguments)
        return handle.tensor()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        op, _, prescale, postscale = ctx.arguments
        if op not in (Average, Sum):
            raise kolo.ArgumentError(f"a reducescatter with op {op!r} has no gradient: only Average and Sum do")
        factor = prescale * postscale / (communicator().size if op == Average else 1)
        out = gradient.new_empty((sum(ctx.counts), *gradient.shape[1:]))
        return (communicator().all_gather(gradient.contiguous(), out, ctx.counts).mul_(factor),
                *(None for _ in ctx.arguments))


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Type[Compressor] = Compression.none,
                  op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> torch.Tensor:
    """This rank's part of the rows of what allreduce returns; where they cannot be divided evenly, the first ranks have
    one more."""
    result: torch.Tensor = _Reducescatter.apply(tensor, checked_op(op), compression, prescale_factor, postscale_factor)
    return result


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: Optional[str] = None,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Handle:
    """reducescatter in the background."""
    return _reducescatter(tensor, checked_op(op), Compression.none, prescale_factor, postscale_factor)[0]


def _row_counts(x: torch.Tensor) -> "List[int]":
    """Of every rank's tensor, how long its first dimension is."""
    counts: "List[int]" = communicator().all_gather(torch.tensor(x.shape[:1])).flatten().tolist()
    return counts


def _allgather(tensor: torch.Tensor) -> "Tuple[Handle, List[int]]":
    x = _dense(tensor)
    _await_changes(x, not x.is_contiguous())
    x = torch.atleast_1d(x).contiguous()
    with communicator()._handle.undivided():
        counts = _row_counts(x)
        out = x.new_empty((sum(counts), *x.shape[1:]))
        request = communicator().all_gather(x, out, counts, async_=True)
        return Handle([request], lambda result: result, (), True), counts


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        handle, ctx.counts = _allgather(tensor)
        ctx.shape = tensor.shape
        return handle.tensor()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        own: torch.Tensor = communicator().reduce_scatter(gradient.contiguous(), counts=ctx.counts)
        return own.view(ctx.shape)


def allgather(tensor: torch.Tensor, name: Optional[str] = None) -> torch.Tensor:
    """A new tensor: the rows of all ranks' tensors, one rank after the other. The first dimension may differ."""
    result: torch.Tensor = _Allgather.apply(tensor)
    return result


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None) -> Handle:
    """allgather in the background; the ranks tell each other at once how many rows they have."""
    return _allgather(tensor)[0]


def _broadcast(tensor: torch.Tensor, out: torch.Tensor, root_rank: int) -> Handle:
    copies = out is not tensor or not _dense(out).is_contiguous()
    _await_changes(tensor, copies)
    x = out.detach().contiguous()
    if out is not tensor:
        x.copy_(tensor.detach())

    def finish(result: torch.Tensor) -> torch.Tensor:
        if result.data_ptr() != out.data_ptr():
            out.detach().copy_(result)
        return out

    return Handle([communicator().broadcast(x, root_rank, async_=True)], finish, (out,), copies)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int) -> torch.Tensor:
        ctx.root_rank = root_rank
        return _broadcast(tensor, torch.empty_like(_dense(tensor), memory_format=torch.contiguous_format), root_rank).tensor()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = communicator().reduce(gradient.contiguous(), root=ctx.root_rank)
        return torch.zeros_like(gradient) if total is None else total, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """A new tensor: that of rank root_rank, of the same shape and type on every rank."""
    result: torch.Tensor = _Broadcast.apply(tensor, root_rank)
    return result


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> Handle:
    """broadcast in the background."""
    return _broadcast(tensor, torch.empty_like(_dense(tensor), memory_format=torch.contiguous_format), root_rank)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """broadcast in place."""
    return _broadcast(tensor, tensor, root_rank).tensor()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> Handle:
    """broadcast in place and in the background."""
    return _broadcast(tensor, tensor, root_rank)


def alltoall(tensor: torch.Tensor, splits: "Union[torch.Tensor, Sequence[int], None]" = None,
             name: Optional[str] = None) -> "Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]":
    """splits[r] of the tensor's rows go to rank r; without splits every rank gets as many. A new tensor of the rows that
    come, one rank's after the other; with splits, and how many came from each rank. ArgumentError: nothing was done."""
    x = _dense(tensor)
    _await_changes(x, not x.is_contiguous())
    comm, x = communicator(), x.contiguous()
    if splits is None:
        result: torch.Tensor = comm.all_to_all(x)
        return result
    sent = torch.as_tensor(splits, dtype=torch.int64).flatten().contiguous()
    rows = x.shape[0] if x.dim() else 0
    if len(sent) != comm.size or sent.min() < 0 or sent.sum() != rows:
        raise kolo.ArgumentError(f"splits is {sent.tolist()}: give a number of rows, 0 or more, for each of the {comm.size} "
                                 f"ranks, {rows} together")
    with comm._handle.undivided():
        received = comm.all_to_all(sent)
        out = x.new_empty((int(received.sum()), *x.shape[1:]))
        return comm.all_to_all(x, out, sent.tolist(), received.tolist()), received.to(torch.int32)


def barrier() -> None:
    """Returns when every rank has called it."""
    communicator().barrier()


def broadcast_object(obj: Any = None, root_rank: int = 0, name: Optional[str] = None) -> Any:
    """Rank root_rank's object, on every rank. By pickle: for ranks that trust each other only."""
    return communicator().broadcast_object(obj, root_rank)


def allgather_object(obj: Any, name: Optional[str] = None) -> "List[Any]":
    """Every rank's object, in the order of the ranks. By pickle: for ranks that trust each other only."""
    return communicator().all_gather_object(obj)
