"""Collectives on tensors. Every rank makes the same calls in the same order; `name` is there for scripts of Horovod, and
says nothing. The functions that end in _ write into the tensor that they get. allreduce, allgather and broadcast can be
differentiated."""

import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple, Type, Union

import torch

import kolo

from ._compression import Compression, Compressor
from ._job import communicator

Average, Sum, Adasum, Min, Max, Product = "avg", "sum", "adasum", "min", "max", "prod"


class Handle:
    """A call in the background, for synchronize and poll. out: the tensor that it changes. copies: when it begins or ends
    it copies, or multiplies, what the caller has."""

    def __init__(self, request: "kolo.Request[Any]", finish: "Callable[[torch.Tensor], torch.Tensor]",
                 out: Optional[torch.Tensor], copies: bool) -> None:
        self._request: "Optional[kolo.Request[Any]]" = request
        self._finish, self.copies = finish, copies
        self._result: Optional[torch.Tensor] = None
        self.memory = _memory(out) if out is not None else 0
        _in_flight.add(self)

    def done(self) -> bool:
        return self._request is None or self._request.done()

    def wait(self) -> torch.Tensor:
        if self._request is not None:
            _in_flight.discard(self)
            self._result = self._finish(self._request.wait())
            self._request = None
        assert self._result is not None
        return self._result


_in_flight: "weakref.WeakSet[Handle]" = weakref.WeakSet()


def _memory(tensor: torch.Tensor) -> int:
    """Equal for views of one tensor."""
    storage: Any = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.data_ptr())


def _await_changes(tensor: torch.Tensor, copies: bool) -> None:
    """Before a call with the tensor. Calls are carried out in order, but copies are made when a call begins and when its
    end is waited for: so before a copy the calls in flight that change the tensor are waited for, and their copies."""
    memory = _memory(tensor)
    for handle in [handle for handle in _in_flight if handle.memory == memory and (copies or handle.copies)]:
        handle.wait()


def poll(handle: Handle) -> bool:
    """Whether the call is complete, so that synchronize returns at once."""
    return handle.done()


def synchronize(handle: Handle) -> torch.Tensor:
    """Waits for the call, and returns its result."""
    return handle.wait()


def checked_op(op: Optional[str], average: Optional[bool] = None) -> str:
    """average: an older way to say op."""
    if op == Adasum:
        raise kolo.ArgumentError("op Adasum is not in kolo: use op=hvd.Average")
    return op or (Sum if average is False else Average)


def _allreduce(tensor: torch.Tensor, out: Optional[torch.Tensor], op: str, compression: Type[Compressor], prescale: float,
               postscale: float) -> Handle:
    x = tensor.detach()
    begins_with_copy = prescale != 1 or compression is not Compression.none or not x.is_contiguous()
    _await_changes(x, begins_with_copy)
    wire, context = compression.compress(x if prescale == 1 else x * prescale)
    wire = wire.contiguous()
    is_in_place = out is not None and wire.data_ptr() == out.data_ptr()
    target = wire if is_in_place else torch.empty_like(wire)

    def finish(reduced: torch.Tensor) -> torch.Tensor:
        result = compression.decompress(reduced, context)
        if postscale != 1:
            result.mul_(postscale)
        if out is None:
            return result
        if not is_in_place:
            out.detach().copy_(result)
        return out

    return Handle(communicator().all_reduce(wire, target, op, async_=True), finish, out, begins_with_copy or postscale != 1)


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
        ctx.arguments = arguments
        return _allreduce(tensor, None, *arguments).wait()

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
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor).wait()


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[str] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Handle:
    """allreduce in place and in the background."""
    return _allreduce(tensor, tensor, checked_op(op, average), Compression.none, prescale_factor, postscale_factor)


def _row_counts(x: torch.Tensor) -> "List[int]":
    """Of every rank's tensor, how long its first dimension is."""
    counts: "List[int]" = communicator().all_gather(torch.tensor(x.shape[:1])).flatten().tolist()
    return counts


def _allgather(tensor: torch.Tensor) -> "Tuple[Handle, List[int]]":
    _await_changes(tensor, not tensor.is_contiguous())
    x = torch.atleast_1d(tensor.detach()).contiguous()
    with communicator()._handle.undivided():
        counts = _row_counts(x)
        out = x.new_empty((sum(counts), *x.shape[1:]))
        request = communicator().all_gather(x, out, counts, async_=True)
        return Handle(request, lambda result: result, None, True), counts


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        handle, ctx.counts = _allgather(tensor)
        ctx.shape = tensor.shape
        return handle.wait()

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
    copies = out is not tensor or not out.is_contiguous()
    _await_changes(tensor, copies)
    x = out.detach().contiguous()
    if out is not tensor:
        x.copy_(tensor.detach())

    def finish(result: torch.Tensor) -> torch.Tensor:
        if result.data_ptr() != out.data_ptr():
            out.detach().copy_(result)
        return out

    return Handle(communicator().broadcast(x, root_rank, async_=True), finish, out, copies)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int) -> torch.Tensor:
        ctx.root_rank = root_rank
        return _broadcast(tensor, torch.empty_like(tensor, memory_format=torch.contiguous_format), root_rank).wait()

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
    return _broadcast(tensor, torch.empty_like(tensor, memory_format=torch.contiguous_format), root_rank)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """broadcast in place."""
    return _broadcast(tensor, tensor, root_rank).wait()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> Handle:
    """broadcast in place and in the background."""
    return _broadcast(tensor, tensor, root_rank)


def alltoall(tensor: torch.Tensor, splits: "Union[torch.Tensor, Sequence[int], None]" = None,
             name: Optional[str] = None) -> "Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]":
    """splits[r] of the tensor's rows go to rank r; without splits every rank gets as many. A new tensor of the rows that
    come, one rank's after the other; with splits, and how many came from each rank. ArgumentError: nothing was done."""
    _await_changes(tensor, not tensor.is_contiguous())
    comm, x = communicator(), tensor.detach().contiguous()
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
