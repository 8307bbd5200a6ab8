"""How every collective and message is made: at once, in the background, or kept for later as a plan."""

from __future__ import annotations

import ctypes
import functools
from types import FunctionType

from . import _interrupts, _library
from ._handle import Handle
from ._requests import Background, Request
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple, Union


MESSAGES = ("send", "recv", "sendrecv")


class Call:
    """A function of the library with its arguments behind the communicator; what it returns, or a function that tells
    that when it is complete; and what it uses until then."""
    __slots__ = ("name", "arguments", "result", "keep")

    def __init__(self, name: str, arguments: "Tuple[Any, ...]", result: Any, keep: object) -> None:
        self.name, self.arguments, self.result, self.keep = name, arguments, result, keep


def collective(name: str, result: Any, keep: object, **fields: Any) -> Call:
    """A collective with the fields of kolo_call that it has."""
    call = _library.CollectiveCall(ctypes.sizeof(_library.CollectiveCall), _library.collectives()[name], **fields)
    return Call("call_make", (ctypes.addressof(call),), result, (call, keep))


def bind(caller: "Caller", call: Call) -> "Callable[[], Any]":
    """The call as a function without arguments. It uses a function object without argtypes, and arguments that are
    ctypes objects, so that a call converts nothing."""
    handle, settle = caller.handle, caller.settle
    kinds = _library.CALLS[call.name]
    bound = [value if isinstance(value, ctypes.Array) else _library.KINDS[kind](value)
             for kind, value in zip(kinds, call.arguments)]
    once = functools.partial(handle.library[f"kolo_{call.name}"], handle.comm, *bound)
    raised, fail, result, keep = _interrupts.raised, handle.fail, call.result, call.keep
    answers = handle.answers

    def planned(_keep: object = keep) -> Any:
        if answers.gi_running:
            settle()
        status = once()
        if status or raised:
            fail(status)
        return result

    def planned_beside_thread() -> Any:
        settle()
        return planned()

    return planned_beside_thread if caller.has_thread else planned


class Caller:
    """What makes calls on one communicator."""

    def __init__(self, handle: Handle, has_thread: bool) -> None:
        self.handle = handle
        self.has_thread = has_thread
        self._functions: "Dict[str, Callable[..., int]]" = {}

    def _function(self, name: str) -> "Callable[..., int]":
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = getattr(self.handle.library, f"kolo_{name}")
        return function

    def settle(self, messages: bool = False) -> None:
        """Before a call that is not in the background: the library would wait, without asking whether to go on, for what
        a progress thread carries out before it. messages: for those, too."""
        self.handle.refuse_handler()
        for request in list(self.handle.flying) if self.has_thread else ():
            if messages or not request.is_message:
                request.wait_for_thread()

    def now(self, call: Call) -> Any:
        if self.has_thread or self.handle.answers.gi_running:
            self.settle()
        status = self._function(call.name)(self.handle.comm, *call.arguments)
        if status or _interrupts.raised:
            self.handle.fail(status)
        return call.result() if isinstance(call.result, FunctionType) else call.result

    def begin(self, call: Call) -> "Request[Any]":
        """In the background."""
        handle = self.handle
        handle.refuse_closed()
        if self.has_thread and handle.background is None:
            with handle.undivided(begun=False):  # no thread or no descriptor is left: the others are told
                handle.background = Background(handle)
        function = self._function(_library.background(call.name))
        request: "Request[Any]" = Request(handle, call.result, call.keep, handle.background, call.name in MESSAGES)
        try:
            handle.flying[request] = None  # before it is: a handler may raise as soon as the library has begun it
            status = function(handle.comm, *call.arguments, ctypes.addressof(request.address))
            if status:
                with handle.undivided(begun=False):
                    handle.fail(status)
        finally:
            if not request.address:
                handle.flying.pop(request, None)
        return request

    def make(self, call: Call, async_: bool) -> "Union[Any, Request[Any]]":
        return self.begin(call) if async_ else self.now(call)
