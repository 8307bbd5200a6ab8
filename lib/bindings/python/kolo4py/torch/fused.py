"""Optimizers that are a part of the all-reduce: what DistributedDataParallel and torch.optim do one after the other, in
one pass, with the optimizer's state divided among the ranks.

    model = Model()                                     # not in DistributedDataParallel
    optimizer = kolo4py.torch.FusedAdamW(model.parameters(), lr=1e-3)
    loss(model(x)).backward()                           # gradients travel while it goes on
    optimizer.step()                                    # all ranks have the same new parameters
    optimizer.zero_grad()

Each rank updates the part of the parameters that it owns, with the mean of all ranks' gradients, and the others get the
result. So 1/N of the optimizer's memory and work is left to each of N ranks. Every rank makes the same optimizer over the
same parameters, which become those of rank 0; a module's buffers stay each rank's own.

Gradients and parameters lie in one flat piece of memory each: p.grad is a view of this rank's own gradients, not of the
mean. Parameters without a gradient in a step count as having 0. A bucket of gradients is on its way as soon as it and all
before it are complete, in an order that the first step learns; its parameters change before backward() has returned. So
nothing else may use them in a backward pass once their own gradients are there, and nothing change those before step();
with overlap=False all of it happens in step().

A forked child shares the parameters' memory, and sees later steps: what it is to save is copied before the fork.

A failure, such as a rank that dies, is one of kolo's exceptions, with the rank: go on from what was saved."""

import array
import contextlib
import ctypes
import itertools
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import torch
import torch.distributed as dist

import kolo4py as kolo

from .._optimizers import Step
from . import _groups, _optimizer, _sharded
from ._gradient_hooks import call_after

BUCKET_BYTES = 4 << 20  # of gradients that travel together
ALIGNMENT_BYTES = 64  # of each parameter

_State = Dict[str, int]


class _Place(NamedTuple):
    """Where a parameter lies."""
    flat: "_Flat"
    segment: int
    values: torch.Tensor  # the view that the parameter is
    gradients: torch.Tensor  # the view that its gradient is
    gradient: torch.Tensor  # that gradient, which the program has, too


def _memory(comm: kolo.Comm, items: int, dtype: torch.dtype, shared: bool) -> torch.Tensor:
    """Zeroed, mapped by all ranks; ordinary memory where there is no room for that, unless it is to be shared."""
    try:
        return torch.utils.dlpack.from_dlpack(comm.empty(items, dtype, shared=shared))
    except kolo.NoSpace:
        if shared:
            raise
        return torch.zeros(items, dtype=dtype)


class _Flat:
    """All parameters of one type, one behind the other; in buckets, the segments of the optimizer below."""

    def __init__(self, comm: kolo.Comm, parameters: "List[torch.Tensor]", bucket_bytes: int, shared: bool) -> None:
        self.comm, self.parameters, self.dtype = comm, parameters, parameters[0].dtype
        item_bytes = parameters[0].element_size()
        unit = ALIGNMENT_BYTES // item_bytes
        lengths = [-(-max(1, parameter.numel()) // unit) * unit for parameter in parameters]
        runs = _optimizer.buckets(lengths, bucket_bytes // item_bytes)
        self.firsts = [sum(lengths[:index]) for index in range(len(lengths))]
        self.count = sum(lengths)
        self.segment_ends = [self.firsts[end - 1] + lengths[end - 1] for _first, end in runs]
        self.segment_of = [segment for segment, (first, end) in enumerate(runs) for _ in range(first, end)]
        self.gradients = _memory(comm, self.count, self.dtype, False)
        self.values = _memory(comm, self.count, self.dtype, shared)
        self.views = [self._view(self.gradients, index).data for index in range(len(parameters))]  # with versions of their own
        self._take_values(shared)
        self.item_bytes = item_bytes
        self.missing = self._all_missing()
        self.begun: "Set[int]" = set()  # segments of this step
        self.message: Optional[_optimizer.Message] = None

    def _view(self, of: torch.Tensor, index: int) -> torch.Tensor:
        shape = self.parameters[index].shape
        return of[self.firsts[index]:self.firsts[index] + shape.numel()].view(shape)

    def _take_values(self, shared: bool) -> None:
        """Rank 0's parameters become everybody's, and views of the flat memory."""
        if not shared or self.comm.local_rank == 0:
            for index, parameter in enumerate(self.parameters):
                self._view(self.values, index).copy_(parameter.detach())
        if not shared:
            self.comm.broadcast(self.values, 0)
        elif self.comm.nodes > 1:
            own = self.values.clone()
            self.comm.broadcast(own, 0)
            if self.comm.local_rank == 0:
                self.values.copy_(own)
        self.comm.barrier()
        for index, parameter in enumerate(self.parameters):
            parameter.data = self._view(self.values, index)

    def _all_missing(self) -> "List[int]":
        """How many gradients each segment waits for."""
        missing = [0] * len(self.segment_ends)
        for segment in self.segment_of:
            missing[segment] += 1
        return missing

    def begin(self, segment: int) -> None:
        first = self.segment_ends[segment - 1] if segment else 0
        assert self.message is not None
        self.message.begin(segment, self.gradients.data_ptr() + first * self.item_bytes,
                           self.values.data_ptr() + first * self.item_bytes)
        self.begun.add(segment)

    def step(self) -> Step:
        assert self.message is not None
        info = self.message.step(self.gradients.data_ptr(), self.values.data_ptr())
        self.begun, self.missing = set(), self._all_missing()
        return info

    def read(self, which: int) -> "List[torch.Tensor]":
        """A state, whole, as a tensor for each parameter."""
        assert self.message is not None
        whole = torch.empty(self.count, dtype=_state_dtype(self.dtype))
        self.message.read_state(which, whole.data_ptr())
        return [self._view(whole, index).clone() for index in range(len(self.parameters))]

    def read_sharded(self, which: int) -> "List[torch.Tensor]":
        """The same, of which each rank has what it owns; those without dimensions or elements are whole."""
        local = self._local(which).clone()
        values: "List[torch.Tensor]" = []
        for index, (parameter, part) in enumerate(zip(self.parameters, self._parts(self.comm.rank))):
            if not parameter.numel():
                values.append(torch.empty(parameter.shape, dtype=local.dtype))
            elif not parameter.dim():
                values.append(self._read_scalar(index, local))
            else:
                values.append(_sharded.make(parameter.shape, part, local))
        return values

    def _read_scalar(self, index: int, local: torch.Tensor) -> torch.Tensor:
        parts = [self._parts(rank)[index] for rank in range(self.comm.size)]
        owner = next(rank for rank, part in enumerate(parts) if part.first < part.end)
        value = torch.zeros(1, dtype=local.dtype)
        if owner == self.comm.rank:
            value[0] = local[parts[owner].place]
        self.comm.broadcast(value, owner)
        return value[0]

    def write(self, which: int, values: "Sequence[torch.Tensor]", is_check: bool = False) -> None:
        """Takes this rank's part of a state, of whole or sharded tensors. is_check: only raises what it would raise."""
        local = self._local(which)
        for parameter, part, value in zip(self.parameters, self._parts(self.comm.rank), values):
            if value.size() != parameter.size():
                raise kolo.ArgumentError(f"a state of shape {tuple(value.size())} is for a parameter of shape "
                                         f"{tuple(parameter.size())}")
            own = _sharded.elements(value, part)
            if not is_check:
                local[part.place:part.place + part.end - part.first].copy_(own)

    def _parts(self, rank: int) -> "List[_sharded.Part]":
        """What that rank has of the state of each parameter."""
        assert self.message is not None
        owned = [self.message.owned(rank, segment) for segment in range(len(self.segment_ends))]
        places = [0, *itertools.accumulate(end - first for first, end in owned)]
        parts = []
        for begin, parameter, segment in zip(self.firsts, self.parameters, self.segment_of):
            first, end = (min(max(edge - begin, 0), parameter.numel()) for edge in owned[segment])
            parts.append(_sharded.Part(first, end, places[segment] + begin + first - owned[segment][0]))
        return parts

    def _local(self, which: int) -> torch.Tensor:
        """This rank's part of a state: its memory."""
        assert self.message is not None
        address, count = self.message.local_state(which)
        dtype = _state_dtype(self.dtype)
        if not count:
            return torch.empty(0, dtype=dtype)
        return torch.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype=dtype)


class _Order:
    """In which the segments of all types begin, the same on all ranks, whatever the order in which their gradients come
    about. It starts with the last parameters. The first step with gradients replaces that with the order in which rank
    0's segments were complete; those that were not come last, so that no other one waits for them."""

    def __init__(self, comm: kolo.Comm, flats: "List[_Flat]", parameters: "List[torch.Tensor]") -> None:
        self._comm = comm
        place = {parameter: index for index, parameter in enumerate(parameters)}
        last = {(flat, segment): place[parameter] for flat in flats
                for parameter, segment in zip(flat.parameters, flat.segment_of)}  # of each segment's parameters
        self._segments = sorted(last, key=lambda segment: last[segment])
        self._begun = 0  # in this step
        self._learns = True
        self._complete: "List[Tuple[_Flat, int]]" = []  # on this rank, while it learns

    def arrive(self, flat: _Flat, segment: int) -> None:
        """The last gradient of a segment is there. Begins those that are complete, up to one that is not."""
        if self._learns:
            self._complete.append((flat, segment))
        while self._begun < len(self._segments):
            flat, segment = self._segments[self._begun]
            if flat.missing[segment]:
                break
            self._begin_next()

    def _begin_next(self) -> None:
        flat, segment = self._segments[self._begun]
        flat.begin(segment)
        self._begun += 1

    def begin_rest(self) -> None:
        """At the end of a step. So what one rank begins in step() others may have begun before, in the same order."""
        while self._begun < len(self._segments):
            self._begin_next()

    def end_step(self) -> None:
        self._begun = 0
        if self._learns:
            self._learn()

    def _learn(self) -> None:
        number = {segment: index for index, segment in enumerate(self._segments)}
        order = [number[segment] for segment in dict.fromkeys((*self._complete, *self._segments))]
        told = array.array("q", [len(self._complete), *order])
        self._comm.broadcast(told, 0)
        self._segments = [self._segments[index] for index in told[1:]]
        self._learns = told[0] == 0
        self._complete.clear()


def _state_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _check(parameters: "List[torch.Tensor]", bucket_bytes: int, clip_norm: float, skip_nonfinite: bool) -> None:
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise ImportError(f"fused optimizers need PyTorch 2.1 or later, but this is {torch.__version__}")
    dtypes = sorted({str(parameter.dtype) for parameter in parameters if parameter.requires_grad})
    known = [str(dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
    for index, parameter in enumerate(parameters):
        if parameter.device.type != "cpu" or parameter.layout != torch.strided or str(parameter.dtype) not in known:
            raise kolo.ArgumentError(f"parameter {index} is {parameter.dtype}, {parameter.layout}, on {parameter.device}: "
                                     f"fused optimizers take dense ones on the CPU, of {', '.join(known)}")
    if not dtypes:
        raise kolo.ArgumentError("no parameter requires a gradient")
    if bucket_bytes < 1:
        raise kolo.ArgumentError(f"bucket_bytes {bucket_bytes} is below 1")
    if len(dtypes) > 1 and (clip_norm or skip_nonfinite):
        raise kolo.ArgumentError(f"clip_norm and skip_nonfinite take parameters of one type, not {', '.join(dtypes)}")


def _close(flats: "List[_Flat]", comm: kolo.Comm, hooks: "List[Any]") -> None:
    for hook in hooks:
        hook.remove()
    for flat in flats:
        if flat.message is not None:
            flat.message.close()
    comm.close()


class FusedOptimizer(torch.optim.Optimizer):
    """What FusedAdamW and FusedSGD share; their arguments beside the optimizer's own:

    group: a process group of any backend, or a kolo.Comm; None: that of all ranks. Gradients are averaged over it.
    overlap: buckets of about bucket_bytes begin during the backward pass: in the first step those of the last parameters
    first, then in the order in which rank 0's were complete in that step.
    shared_parameters: the ranks of a machine have one copy of the parameters, which each reads, and of which it updates
    its part. Between backward() and step() a rank must not read them: others may be done already.
    clip_norm: gradients are multiplied by min(1, clip_norm / (norm + 1e-6)), as clip_grad_norm_ does, with the norm of
    the averaged gradients of all parameters; 0: they are not.
    skip_nonfinite: a step with a NaN or an infinity among the averaged gradients changes nothing, on no rank.
    master_weights: for float16 and bfloat16, the owner of a parameter keeps and updates it in float32, from what the
    program has written into it, if it has.
    sharded_state: state_dict() has each rank's part alone, so that no rank collects or saves the whole. An attribute.

    `info` says what the last step did: steps, skipped, norm, clip. Raises kolo.ArgumentError for arguments that do not
    fit; kolo.Mismatch where ranks differ in them."""
    _kind: int
    _states: _State  # names in state_dict, as those of torch.optim
    info: Optional[Step] = None

    def __init__(self, params: Any, defaults: "Dict[str, Any]", *, group: "Union[kolo.Comm, dist.ProcessGroup, None]" = None,
                 overlap: bool = True, bucket_bytes: int = BUCKET_BYTES, shared_parameters: bool = False,
                 clip_norm: float = 0, skip_nonfinite: bool = False, master_weights: bool = False,
                 sharded_state: bool = False) -> None:
        self._flats: "List[_Flat]" = []
        self._hooks: "List[Any]" = []
        super().__init__(params, defaults)
        self._overlap, self._accumulates = overlap, False
        self._arrived: "Dict[torch.Tensor, int]" = {}  # versions of gradients since the last step, but for those in no_sync
        own = [parameter for listed in self.param_groups for parameter in listed["params"]]
        _check(own, bucket_bytes, clip_norm, skip_nonfinite)
        self.sharded_state = sharded_state
        self._comm = _groups.own(group)
        with torch.no_grad():  # gradients come about in the reverse of the parameters' order
            ordered = [parameter for parameter in reversed(own) if parameter.requires_grad]
            for parameter in own:
                if not parameter.requires_grad:
                    value = parameter.contiguous()
                    self._comm.broadcast(value, 0)
                    parameter.copy_(value)
            for dtype in dict.fromkeys(parameter.dtype for parameter in ordered):
                members = [parameter for parameter in ordered if parameter.dtype == dtype]
                self._flats.append(_Flat(self._comm, members, bucket_bytes, shared_parameters))
        self._order = _Order(self._comm, self._flats, ordered)
        self._set = [self._settings(flat) for flat in self._flats]
        for flat, settings in zip(self._flats, self._set):
            narrow = flat.dtype in (torch.float16, torch.bfloat16)
            flat.message = _optimizer.Message(self._comm, self._kind, flat.dtype, flat.segment_ends,
                                              [group for _index, group in settings], "avg", master_weights and narrow,
                                              clip_norm, skip_nonfinite)
        self._places = {parameter: _Place(flat, flat.segment_of[index], flat._view(flat.values, index),
                                          flat._view(flat.gradients, index), flat.views[index])
                        for flat in self._flats for index, parameter in enumerate(flat.parameters)}
        self._names = {parameter: f"parameter {index}" for index, parameter in enumerate(own)}
        for parameter in self._places:
            self.state[parameter] = {}  # or torch.distributed.checkpoint makes a step to have some
            self._hooks.append(call_after(parameter, self._arrive))
        weakref.finalize(self, _close, self._flats, self._comm, self._hooks)

    def add_param_group(self, param_group: "Dict[str, Any]") -> None:
        if self._flats:
            raise kolo.ArgumentError("parameters cannot be added to a fused optimizer: make it with all of them")
        super().add_param_group(param_group)

    def close(self) -> None:
        """Leaves the communicator. Parameters stay where they are. Also done when the optimizer is gone."""
        _close(self._flats, self._comm, self._hooks)

    # Settings.

    def _settings(self, flat: _Flat) -> "List[Tuple[int, _optimizer.Group]]":
        """Of each torch.optim group that has parameters there, in the order in which they lie."""
        index_of = {parameter: index for index, listed in enumerate(self.param_groups) for parameter in listed["params"]}
        settings: "List[Tuple[int, _optimizer.Group]]" = []
        ends = [*flat.firsts[1:], flat.count]
        for parameter, end in zip(flat.parameters, ends):
            index = index_of[parameter]
            if settings and settings[-1][0] == index:
                settings[-1][1].end = end
            else:
                settings.append((index, self._group(self.param_groups[index], end)))
        return settings

    def _group(self, listed: "Dict[str, Any]", end: int) -> _optimizer.Group:
        raise NotImplementedError

    def _apply_settings(self) -> None:
        """What the program, or a learning-rate scheduler, has changed since the last step."""
        for flat, settings in zip(self._flats, self._set):
            for place, (index, group) in enumerate(settings):
                wanted = self._group(self.param_groups[index], group.end)
                if bytes(wanted) != bytes(group):
                    if flat.begun:
                        raise RuntimeError("a setting of a parameter group was changed between backward() and step(): "
                                           "change it before backward(), or make the optimizer with overlap=False")
                    assert flat.message is not None
                    flat.message.set_group(place, wanted)
                    settings[place] = (index, wanted)

    # Gradients.

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in this context only add to the gradients; that after it lets them travel. Every rank has the
        same contexts."""
        before, self._accumulates = self._accumulates, True
        try:
            yield
        finally:
            self._accumulates = before

    @torch.no_grad()
    def _arrive(self, parameter: torch.Tensor) -> None:
        """A backward pass has added to a parameter's gradient."""
        place, gradient = self._places[parameter], parameter.grad
        flat = place.flat
        if self._overlap and (place.segment in flat.begun or parameter in self._arrived):
            raise RuntimeError(f"{self._names[parameter]} has got a second gradient in this step: call step() after each "
                               "backward(), or have all but the last in no_sync()")
        self._put_back(parameter, place)
        if gradient is not None and gradient is not place.gradient:
            place.gradient.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            parameter.grad = place.gradient
        if self._accumulates or not self._overlap:
            return
        if not self._arrived:
            self._apply_settings()
        self._arrived[parameter] = place.gradient._version
        flat.missing[place.segment] -= 1
        if not flat.missing[place.segment]:
            self._order.arrive(flat, place.segment)

    def _put_back(self, parameter: torch.Tensor, place: _Place) -> None:
        """What the program has given other memory, as by model.to(), goes back into the flat memory, as it is now."""
        for tensor, view in ((parameter, place.values), (place.gradient, place.gradients)):
            if tensor.dtype != view.dtype or tensor.shape != view.shape or tensor.device != view.device:
                raise RuntimeError(f"{self._names[parameter]} or its gradient has become {tensor.dtype} of shape "
                                   f"{tuple(tensor.shape)} on {tensor.device}: make the optimizer after that")
            if not tensor.is_set_to(view):
                view.copy_(tensor)
                tensor.data = view

    def _take_gradient(self, parameter: torch.Tensor) -> None:
        """As the program has left it before step()."""
        place, gradient = self._places.get(parameter), parameter.grad
        if place is None:
            if gradient is not None and parameter.requires_grad:
                raise RuntimeError(f"{self._names[parameter]} required no gradient when the optimizer was made, which so "
                                   "cannot train it: make another one")
            return
        if place.segment in place.flat.begun:
            version = self._arrived.get(parameter)
            if version is not None and (gradient is not place.gradient or gradient._version != version
                                        or not gradient.is_set_to(place.gradients)):
                raise RuntimeError(f"the gradient of {self._names[parameter]} was changed between backward() and step(), "
                                   "while it travelled: use clip_norm or skip_nonfinite, or make the optimizer with "
                                   "overlap=False")
            if not parameter.is_set_to(place.values):
                raise RuntimeError(f"{self._names[parameter]} has got other memory between backward() and step(): change it "
                                   "before backward(), or make the optimizer with overlap=False")
            return
        self._put_back(parameter, place)
        if gradient is None:
            place.gradient.zero_()
        elif gradient is not place.gradient:
            place.gradient.copy_(gradient.to_dense() if gradient.is_sparse else gradient)  # which the program has set

    @torch.no_grad()
    def step(self, closure: "Optional[Callable[[], Any]]" = None) -> Any:
        """Waits until this rank has all new parameters. Every rank calls it. closure: computes the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._apply_settings()
        for parameter in self._names:
            self._take_gradient(parameter)
        if self._overlap:
            self._order.begin_rest()
        for flat in self._flats:
            self.info = flat.step()
        if self._overlap:
            self._order.end_step()
        self._arrived.clear()
        return loss

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """What a GradScaler asks before a step."""
        raise RuntimeError("a GradScaler changes gradients that travel, and lets one rank alone skip a step: make the optimizer "
                           "with skip_nonfinite instead")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """With set_to_none=False gradients that no backward pass writes count as 0, too; it is slower."""
        self._refuse_amid_step("zero_grad")
        super().zero_grad(set_to_none)

    def _refuse_amid_step(self, call: str) -> None:
        if any(flat.begun for flat in self._flats):
            raise RuntimeError(f"{call}() while gradients are on their way: call step() first")

    # State.

    @property
    def state_bytes(self) -> int:
        """What the state takes on this rank."""
        return sum(flat.message.local_state(which)[1] * _state_dtype(flat.dtype).itemsize
                   for flat in self._flats if flat.message is not None for which in range(3))

    def _states_of(self, flat: _Flat) -> _State:
        """Those that it has."""
        assert flat.message is not None
        return {name: which for name, which in self._states.items() if flat.message.local_state(which)[0]}

    @torch.no_grad()
    def state_dict(self) -> "Dict[str, Any]":
        """As that of torch.optim's optimizer of that name, on every rank; every rank calls it. So either may load what
        the other has saved, and torch.distributed.checkpoint saves it, and loads it for any number of ranks.

        With sharded_state a rank has only its part, in tensors for save and load of torch.distributed.checkpoint alone.
        What was saved so can be loaded whole, and the other way round."""
        self._refuse_amid_step("state_dict")
        number = {parameter: index for index, parameter in enumerate(self._names)}
        state: "Dict[int, Dict[str, torch.Tensor]]" = {}
        for flat in self._flats:
            assert flat.message is not None
            with self._comm._handle.undivided():
                found = {name: self._read(flat, which) for name, which in self._states_of(flat).items()}
            for index, parameter in enumerate(flat.parameters if found else ()):
                state[number[parameter]] = {"step": torch.tensor(float(flat.message.steps)),
                                            **{name: values[index] for name, values in found.items()}}
        groups = [{**listed, "params": [number[parameter] for parameter in listed["params"]]}
                  for listed in self.param_groups]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def _read(self, flat: _Flat, which: int) -> "List[torch.Tensor]":
        assert flat.message is not None
        if which == _optimizer.MASTER and not flat.message.steps:  # the first step would make them
            flat.write(which, flat.parameters)
        return flat.read_sharded(which) if self.sharded_state else flat.read(which)

    @torch.no_grad()
    def load_state_dict(self, state_dict: "Dict[str, Any]") -> None:
        """Takes settings and state of a state_dict, of this class or of torch.optim's; each rank its part of it, which
        may be sharded as state_dict() gives it. Every rank loads the same. State that is not there counts as 0. A state
        that is refused changes nothing."""
        groups = state_dict["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise kolo.ArgumentError("the state is that of other parameter groups")
        self._refuse_amid_step("load_state_dict")
        saved_as = dict(zip(self._names, (name for group in groups for name in group["params"])))
        before = self.param_groups
        self.param_groups = [{**own, **group, "params": own["params"]} for own, group in zip(before, groups)]
        try:
            self._apply_settings()  # by which the library tells who has momentum
            for is_check, flat in itertools.product((True, False), self._flats):
                saved = [state_dict["state"].get(saved_as[parameter], {}) for parameter in flat.parameters]
                self._load(flat, saved, is_check)
        except BaseException:
            self.param_groups = before
            raise

    def _load(self, flat: _Flat, saved: "List[Dict[str, Any]]", is_check: bool) -> None:
        assert flat.message is not None
        steps = {int(state.get("step", 1)) for state in saved if any(state.get(name) is not None for name in self._states)}
        if len(steps) > 1:
            raise kolo.ArgumentError(f"the state is of parameters with different numbers of steps, {sorted(steps)}")
        if not is_check:
            flat.message.steps = max(steps, default=0)
        for name, which in self._states_of(flat).items():
            values = [state.get(name) for state in saved]
            if which == _optimizer.MASTER:
                values = [parameter if value is None else value for value, parameter in zip(values, flat.parameters)]
            flat.write(which, [torch.zeros_like(parameter) if value is None else value
                               for value, parameter in zip(values, flat.parameters)], is_check)


class FusedAdamW(FusedOptimizer):
    """torch.optim.AdamW in the all-reduce: same arguments, formulas and state_dict, without amsgrad and maximize; for the
    others see FusedOptimizer."""
    _kind = _optimizer.ADAMW
    _states = {"exp_avg": _optimizer.MOMENTUM, "exp_avg_sq": _optimizer.VARIANCE, "master_param": _optimizer.MASTER}

    def __init__(self, params: Any, lr: float = 1e-3, betas: "Tuple[float, float]" = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, **shared: Any) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}, **shared)

    def _group(self, listed: "Dict[str, Any]", end: int) -> _optimizer.Group:
        _refuse(listed, "amsgrad", "maximize")
        return _optimizer.Group(_optimizer.GROUP_BYTES, end, float(listed["lr"]), listed["weight_decay"],
                                *map(float, listed["betas"]), listed["eps"])


class FusedSGD(FusedOptimizer):
    """torch.optim.SGD in the all-reduce: same arguments, formulas and state_dict, without maximize; for the others see
    FusedOptimizer."""
    _kind = _optimizer.SGD
    _states = {"momentum_buffer": _optimizer.MOMENTUM, "master_param": _optimizer.MASTER}

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, **shared: Any) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov}, **shared)

    def _group(self, listed: "Dict[str, Any]", end: int) -> _optimizer.Group:
        _refuse(listed, "maximize")
        return _optimizer.Group(_optimizer.GROUP_BYTES, end, float(listed["lr"]), listed["weight_decay"], 0.9, 0.999, 1e-8,
                                listed["momentum"], listed["dampening"], listed["nesterov"])


def _refuse(listed: "Dict[str, Any]", *names: str) -> None:
    for name in names:
        if listed.get(name):
            raise kolo.ArgumentError(f"{name} is not in the fused optimizers")
