"""Training of one model by all ranks: they begin with the same parameters, and step with the same gradients."""

import contextlib
import os
import pickle
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union

import torch

import kolo4py as kolo

from ..torch.compression import Compression, Compressor
from ._gradients import Reducer
from ._job import communicator
from ._tensors import Average, Sum, broadcast_async_, checked_op

Parameters = Union[Mapping[str, torch.Tensor], "Iterable[Union[torch.Tensor, Tuple[str, torch.Tensor]]]"]

BUCKET_BYTES = 4 << 20  # of gradients that travel together


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Rank root_rank's tensors go to all ranks. params: model.state_dict(), model.named_parameters(), or the tensors.
    RankFailed, on all ranks: one cannot list its tensors, or has another number of them than rank root_rank."""
    def listed() -> "List[torch.Tensor]":
        entries = params.items() if isinstance(params, Mapping) else params
        tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]

    comm = communicator()
    root = comm._root(root_rank)
    with comm._handle.undivided():
        tensors, failure = comm._attempt("could not list its parameters", listed)
        lengths = comm._agree(len(tensors or ()), failure)
        other = next((rank for rank, length in enumerate(lengths) if length != lengths[root]), None)
        if other is not None:
            raise kolo.RankFailed(f"rank {other} has {lengths[other]} tensors to broadcast, and rank {root} {lengths[root]}",
                                  other)
        for handle in [broadcast_async_(tensor, root) for tensor in tensors or ()]:
            handle.wait()


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Rank root_rank's state_dict goes to all ranks, learning rates and momenta included. By pickle: for ranks that trust
    each other only. RankFailed, on all ranks: rank root_rank cannot make it."""
    comm = communicator()
    data = comm._broadcast_pickle(lambda: pickle.dumps(optimizer.state_dict()), root_rank)
    if comm.rank != root_rank:
        optimizer.load_state_dict(comm._load(data, root_rank))


class _Distributed:
    """Comes before the optimizer's own class in the class of what DistributedOptimizer returns."""
    _reducer: Reducer
    _steps_alone = False

    def synchronize(self) -> None:
        """Waits for the gradients of all ranks, such as before clipping them. The next step() does not do so again, unless
        a backward pass has added to a gradient, on any rank, since then."""
        self._reducer.finish()
        self._reducer.is_reduced = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In this context step() takes the gradients as they are."""
        self._steps_alone = True
        try:
            yield
        finally:
            self._steps_alone = False

    def set_backward_passes_per_step(self, passes: int) -> None:
        self._reducer.set_passes(passes)

    def step(self, closure: "Optional[Callable[[], Any]]" = None) -> Any:
        """The optimizer's own, with the gradients of all ranks. closure: every rank must call it as often."""
        def reduced() -> Any:
            assert closure is not None
            loss = closure()
            self._reducer.finish_new()
            return loss

        if self._steps_alone:
            self._reducer.is_reduced = False
        elif closure is None:
            self._reducer.finish_new()
        return super().step(None if closure is None else closure if self._steps_alone else reduced)  # type: ignore

    def add_param_group(self, param_group: "Dict[str, Any]") -> None:
        raise kolo.ArgumentError("parameters cannot be added to a distributed optimizer: make it with all of them")

    def zero_grad(self, *arguments: Any, **named: Any) -> None:
        if self._reducer.is_busy():
            raise RuntimeError("zero_grad() while gradients are on their way: call step() or synchronize() first")
        super().zero_grad(*arguments, **named)  # type: ignore


def _names(optimizer: torch.optim.Optimizer, named_parameters: "Optional[Iterable[Tuple[str, torch.Tensor]]]") \
        -> "Dict[torch.Tensor, str]":
    """Of all parameters that the optimizer trains, in its order."""
    given = list(named_parameters or ())
    if len({name for name, _ in given}) != len(given):
        raise kolo.ArgumentError("named_parameters has a name twice")
    known = {parameter: name for name, parameter in given}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if given and any(parameter not in known for parameter in parameters):
        raise kolo.ArgumentError("named_parameters lacks a parameter of the optimizer: pass model.named_parameters()")
    return {parameter: known.get(parameter, f"parameter {index}") for index, parameter in enumerate(parameters)}


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: "Optional[Iterable[Tuple[str, torch.Tensor]]]" = None,
                         compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: str = Average, gradient_predivide_factor: float = 1.0, sparse_as_dense: bool = False) -> Any:
    """The optimizer, whose step() uses the gradients of all ranks; also an instance of the optimizer's class. Every rank
    calls it at the same time. Gradients travel during the backward pass, several at once: buckets of up to
    HOROVOD_FUSION_THRESHOLD bytes, 4 MiB if not set.

    compression: of what travels, Compression.none, fp16 or bf16. backward_passes_per_step: how many times a gradient is
    added to before it travels. op: Average or Sum. gradient_predivide_factor: with Average, by what gradients are divided
    before they are added up; the sum is divided by the rest. sparse_as_dense: sparse gradients become dense ones; else every
    rank gathers the entries of all.

    A parameter whose gradient no rank has gets 0 as its gradient."""
    if checked_op(op) not in (Average, Sum):
        raise kolo.ArgumentError(f"op {op!r} is neither Average nor Sum")
    if gradient_predivide_factor != 1 and op != Average:
        raise kolo.ArgumentError("gradient_predivide_factor is for op Average only")
    if backward_passes_per_step < 1:
        raise kolo.ArgumentError(f"backward_passes_per_step is {backward_passes_per_step}: it has to be 1 or more")
    if isinstance(optimizer, _Distributed):
        raise kolo.ArgumentError("the optimizer is one that DistributedOptimizer has made already")
    kind = type(optimizer)
    bucket_bytes = int(os.environ.get("HOROVOD_FUSION_THRESHOLD", BUCKET_BYTES))
    made: Any = optimizer  # itself, since a learning-rate scheduler may have it
    made._reducer = Reducer(_names(optimizer, named_parameters), compression, op, gradient_predivide_factor,
                            backward_passes_per_step, sparse_as_dense, bucket_bytes)
    made.__class__ = type(kind.__name__, (_Distributed, kind), {})
    vars(made).pop("step", None)  # what a scheduler has put in its place
    return made
