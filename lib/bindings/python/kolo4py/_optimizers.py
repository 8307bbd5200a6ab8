"""Optimizers whose update is a part of the all-reduce of the gradients: each rank updates its part of the parameters."""

from __future__ import annotations

import array
import ctypes

from . import _elements, _interrupts, _library, _memory
from ._errors import ArgumentError
from ._library import COUNT_MAX, integer
from ._typing import NamedTuple, TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence

    from ._comm import Comm

KINDS = ("sgd", "adam", "adamw")
STATES = ("momentum", "variance", "master")
STEPS = len(STATES)  # the state behind them: one number
SETTINGS = {"lr": "learning_rate", "weight_decay": "weight_decay", "beta1": "beta1", "beta2": "beta2",
            "eps": "epsilon", "momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov"}
DEFAULTS: "Dict[str, Any]" = {"learning_rate": 0.001, "weight_decay": 0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                              "momentum": 0, "dampening": 0, "nesterov": 0}


class Step(NamedTuple):
    """What a step did."""
    steps: int  # so far, without those that were skipped
    skipped: bool  # this one was
    norm: float  # of all reduced gradients; 0: neither clipping nor skipping needed it
    clip: float  # by what they were multiplied


def _set(group: _library.ParameterGroup, settings: "Dict[str, Any]") -> _library.ParameterGroup:
    for name, value in settings.items():
        if name == "betas":
            group.beta1, group.beta2 = value
        elif name in SETTINGS:
            setattr(group, SETTINGS[name], value)
        else:
            raise ArgumentError(f"setting {name!r} is none of betas, {', '.join(SETTINGS)}")
    return group


def _group(end: int, **settings: Any) -> _library.ParameterGroup:
    return _set(_library.ParameterGroup(ctypes.sizeof(_library.ParameterGroup), end, **DEFAULTS), settings)


class Optimizer:
    """SGD, Adam or AdamW for one flat array of parameters, the same on every rank, of float32, float64, float16 or
    bfloat16. Every rank makes the same calls. The state is 1/size of that of an optimizer on each rank.

        optimizer = kolo.Optimizer(comm, parameters, "adamw", lr=1e-3, weight_decay=0.01)
        optimizer.step(gradients)   # averages them over the ranks, and updates the parameters of all

    groups: settings for consecutive parts, dictionaries with `end` and those that differ from the others given. segments:
    where parts end that can be begun by themselves. As kolo_optimizer_options: op ("avg" or "sum"), master_weights,
    gradient_scale, clip_norm, skip_nonfinite."""

    def __init__(self, comm: "Comm", parameters: Any, kind: str = "adamw", *,
                 groups: "Optional[Sequence[Dict[str, Any]]]" = None, segments: "Optional[Sequence[int]]" = None,
                 op: str = "avg", master_weights: bool = False, gradient_scale: float = 1.0, clip_norm: float = 0.0,
                 skip_nonfinite: bool = False, **settings: Any) -> None:
        self._address = ctypes.c_void_p()
        self._caller = comm._caller
        self._library = _library.load()
        self._parameters = _memory.view(parameters, "parameters", True)
        self._begun: "List[_memory.View]" = []
        if kind not in KINDS:
            raise ArgumentError(f"kind {kind!r} is none of {', '.join(KINDS)}")
        count = self._parameters.count
        self.segments = [integer(end, "segments: end", 0, COUNT_MAX) for end in segments or [count]]
        ends = (ctypes.c_size_t * len(self.segments))(*self.segments)
        parts = [_group(**{**settings, **group}) for group in groups or [{"end": count}]]
        made = (_library.ParameterGroup * len(parts))(*parts)
        options = _library.OptimizerOptions(
            ctypes.sizeof(_library.OptimizerOptions), KINDS.index(kind), self._parameters.element.code, count,
            ctypes.addressof(ends), len(ends), _elements.op_code(op, self._parameters.element), master_weights,
            gradient_scale, clip_norm, skip_nonfinite)
        self._make("create", self._caller.handle.comm, ctypes.addressof(options), ctypes.addressof(made), len(made),
                   ctypes.addressof(self._address))

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self._library.kolo_optimizer_destroy(self._address)

    def _make(self, name: str, *arguments: Any) -> None:
        handle = self._caller.handle
        handle.refuse_closed()
        if name != "begin_segment":
            self._caller.settle()
        status = getattr(self._library, f"kolo_optimizer_{name}")(*arguments)
        if status or _interrupts.raised:
            handle.fail(status)

    def _view(self, gradients: Any) -> _memory.View:
        view = _memory.view(gradients, "gradients")
        if view.element != self._parameters.element or view.count != self._parameters.count:
            raise ArgumentError(f"gradients are {view.count} of {view.element.name}, and the parameters "
                                f"{self._parameters.count} of {self._parameters.element.name}")
        return view

    def begin(self, segment: int, gradients: Any) -> None:
        """Begins a segment of the next step in the background: of `gradients`, which is of all parameters, that part
        is complete, and must stay until step() has returned. Every rank begins the same segments in the same order."""
        view = self._view(gradients)
        segment = integer(segment, "segment", 0, len(self.segments) - 1)
        first = self.segments[segment - 1] if segment else 0
        at = first * view.element.bytes
        self._begun.append(view)  # before a handler may raise behind the call
        self._make("begin_segment", self._address, segment, view.address + at, self._parameters.address + at)

    def step(self, gradients: Any) -> Step:
        """Averages the gradients over all ranks and updates the parameters, the same bits on every rank."""
        view = self._view(gradients)
        info = _library.StepInfo(info_bytes=ctypes.sizeof(_library.StepInfo))
        self._make("step", self._address, view.address, self._parameters.address, ctypes.addressof(info))
        self._begun.clear()  # not behind an error: segments may be in flight still
        return Step(info.steps, bool(info.skipped), info.norm, info.clip)

    def set_group(self, index: int = 0, **settings: Any) -> None:
        """Changes settings of a group, such as lr, from the next step on."""
        index = integer(index, "index", 0, COUNT_MAX)
        group = _library.ParameterGroup(ctypes.sizeof(_library.ParameterGroup))
        self._make("group", self._address, index, None, ctypes.addressof(group))
        self._make("group", self._address, index, ctypes.addressof(_set(group, settings)), None)

    @property
    def steps(self) -> int:
        """Steps so far."""
        steps = ctypes.c_uint64()
        self._make("read_state", self._address, STEPS, ctypes.addressof(steps), -1)
        return steps.value

    def _states(self) -> "Dict[str, int]":
        """Those that there are: their numbers."""
        values, count = ctypes.c_void_p(), ctypes.c_size_t()
        found = {}
        for number, name in enumerate(STATES):
            self._make("local_state", self._address, number, ctypes.addressof(values), ctypes.addressof(count))
            if values.value:
                found[name] = number
        return found

    def state_dict(self) -> "Dict[str, Any]":
        """The whole state, the same on every rank: the steps, and arrays of float32 or float64. Collective."""
        code = "d" if self._parameters.element.code == _elements.F64 else "f"
        state: "Dict[str, Any]" = {"steps": self.steps}
        with self._caller.handle.undivided(begun=False) as call:
            for name, number in self._states().items():
                whole = array.array(code, bytes(self._parameters.count * array.array(code).itemsize))
                self._make("read_state", self._address, number, whole.buffer_info()[0], -1)
                call.begun = True
                state[name] = whole
        return state

    def load_state_dict(self, state: "Dict[str, Any]") -> None:
        """Goes on from what state_dict gave, there with any number of ranks. ArgumentError: nothing was loaded."""
        real = _elements.F64 if self._parameters.element.code == _elements.F64 else _elements.F32
        steps, loaded = integer(state["steps"], "steps", 0, COUNT_MAX), []
        for name, number in self._states().items():
            view = _memory.view(state[name], name)
            if view.element.code != real or view.count != self._parameters.count:
                raise ArgumentError(f"{name} is {view.count} of {view.element.name}")
            loaded.append((number, view))
        done = ctypes.c_uint64(steps)
        self._make("write_state", self._address, STEPS, ctypes.addressof(done))
        for number, view in loaded:
            self._make("write_state", self._address, number, view.address)
