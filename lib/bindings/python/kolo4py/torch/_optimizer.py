"""kolo_optimizer.h as Python sees it: one optimizer over one flat message of a communicator."""

import ctypes
from typing import Any, List, Sequence, Tuple

import kolo4py as kolo

from .. import _elements, _library
from .._optimizers import Step

SGD, ADAM, ADAMW = range(3)  # kolo_optimizer_kind
MOMENTUM, VARIANCE, MASTER, STEPS = range(4)  # kolo_optimizer_state

Group = _library.ParameterGroup
GROUP_BYTES = ctypes.sizeof(Group)


class Message:
    """Gradients and parameters of one type, each of `count` elements, and their optimizer. Made by all ranks alike.

    segments, groups: where the message's consecutive parts end; a group's settings are for its part."""

    def __init__(self, comm: kolo.Comm, kind: int, dtype: Any, segments: "Sequence[int]", groups: "Sequence[Group]",
                 op: str, master_weights: bool, clip_norm: float, skip_nonfinite: bool) -> None:
        self._library, self._handle = _library.load(), comm._handle
        self._segments, self._code = list(segments), _elements.must_name(dtype).code
        ends = (ctypes.c_size_t * len(segments))(*segments)
        listed = (Group * len(groups))(*groups)
        options = _library.OptimizerOptions(ctypes.sizeof(_library.OptimizerOptions), kind, self._code, segments[-1],
                                            ctypes.addressof(ends), len(segments), _elements.OPS[op], master_weights,
                                            1.0, clip_norm, skip_nonfinite)
        place = ctypes.c_void_p()
        self.address: "ctypes.c_void_p | None" = None
        self._check(self._library.kolo_optimizer_create(self._handle.comm, ctypes.addressof(options),
                                                        ctypes.addressof(listed), len(groups), ctypes.addressof(place)))
        self.address = place
        self._info = _library.StepInfo(ctypes.sizeof(_library.StepInfo))
        self._begin = self._library.kolo_optimizer_begin_segment

    def _check(self, status: int) -> None:
        if status:
            self._handle.fail(status)

    def close(self) -> None:
        address, self.address = self.address, None
        if address is not None and not self._handle.closed:
            self._library.kolo_optimizer_destroy(address)

    def begin(self, segment: int, gradients: int, parameters: int) -> None:
        """Starts a segment of the next step in the background. The addresses are those of the segment's elements."""
        status = self._begin(self.address, segment, gradients, parameters)
        if status:
            self._handle.fail(status)

    def step(self, gradients: int, parameters: int) -> Step:
        """Blocks until this rank has the new parameters; what is not begun is done now."""
        status = self._library.kolo_optimizer_step(self.address, gradients, parameters, ctypes.addressof(self._info))
        self._handle.fail(status)  # also what a signal's handler has raised
        return Step(self._info.steps, bool(self._info.skipped), self._info.norm, self._info.clip)

    def set_group(self, index: int, group: Group) -> None:
        self._check(self._library.kolo_optimizer_group(self.address, index, ctypes.addressof(group), None))

    def read_state(self, which: int, to: int) -> None:
        """The whole of a state, written to that address on every rank."""
        self._handle.fail(self._library.kolo_optimizer_read_state(self.address, which, to, -1))

    def owned(self, rank: int, segment: int) -> "Tuple[int, int]":
        """What a rank owns of a segment: the first element, of the message, and the end."""
        begin = self._segments[segment - 1] if segment else 0
        first, owned = ctypes.c_size_t(), ctypes.c_size_t()
        self._check(self._library.kolo_apply_owned(self._handle.comm, rank, self._segments[segment] - begin, self._code,
                                                   ctypes.addressof(first), ctypes.addressof(owned)))
        return begin + first.value, begin + first.value + owned.value

    def local_state(self, which: int) -> "Tuple[int, int]":
        """Where this rank's part of a state is, of one segment after the other what it owns, and how many numbers. The
        memory is the optimizer's. Address 0: there is no such state, on no rank."""
        values, count = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self._library.kolo_optimizer_local_state(self.address, which, ctypes.addressof(values),
                                                             ctypes.addressof(count)))
        return values.value or 0, count.value

    @property
    def steps(self) -> int:
        number = ctypes.c_uint64()
        self._check(self._library.kolo_optimizer_read_state(self.address, STEPS, ctypes.addressof(number), -1))
        return number.value

    @steps.setter
    def steps(self, steps: int) -> None:
        number = ctypes.c_uint64(steps)
        self._check(self._library.kolo_optimizer_write_state(self.address, STEPS, ctypes.addressof(number)))


def buckets(lengths: "Sequence[int]", wanted: int) -> "List[Tuple[int, int]]":
    """Divides consecutive pieces of those lengths into runs of about `wanted`: [(first, end)] of the pieces."""
    runs: "List[Tuple[int, int]]" = []
    first, length = 0, 0
    for index, piece in enumerate(lengths):
        if index > first and length + piece > wanted:
            runs.append((first, index))
            first, length = index, 0
        length += piece
    return [*runs, (first, len(lengths))]
