"""Calls in the background."""

from __future__ import annotations

import ctypes
import itertools
import os
import select
import time
from types import FunctionType

from . import _library
from ._errors import ArgumentError, Error
from ._typing import Generic, TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    from typing import Any, Callable, Dict, Generator, List, Optional, Sequence

    from ._handle import Handle

T = TypeVar("T")
SLICE_S = 0.05  # longest sleep between two looks at a request

_issued = itertools.count()


class Background:
    """Of one communicator with a progress thread: its eventfd, and who waits for it."""

    def __init__(self, handle: "Handle") -> None:
        number = ctypes.c_int(-1)
        status = handle.library.kolo_comm_eventfd(handle.comm, ctypes.byref(number))
        if status:
            handle.fail(status)
        self.fd, self._process = number.value, os.getpid()
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)
        self._waiting: "Dict[Request[Any], List[asyncio.Future[None]]]" = {}  # a future for each coroutine
        self._loop: "Optional[asyncio.AbstractEventLoop]" = None

    def sleep(self, longest_s: float) -> None:
        """Until a request of the communicator completes; signals are handled."""
        self._poll.poll(1000 * longest_s)
        self.drain()

    def drain(self) -> None:
        """Takes the count of completions, and wakes the coroutines whose requests are complete."""
        try:
            os.read(self.fd, 8)
        except OSError:  # none have completed, or all: the descriptor is gone
            pass
        self._forget_closed_loop()
        for request in [request for request in self._waiting if request.done()]:
            for future in self._waiting.pop(request):
                _wake(future)
        if not self._waiting and self._loop is not None:
            self._loop.remove_reader(self.fd)
            self._loop = None

    def until_done(self, request: "Request[Any]") -> "asyncio.Future[None]":
        """A future of the running event loop, which is done when the request is."""
        import asyncio
        loop = asyncio.get_running_loop()
        self._forget_closed_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise ArgumentError("requests of one communicator can be awaited in one event loop at a time")
            loop.add_reader(self.fd, self.drain)
            self._loop = loop
        future: "asyncio.Future[None]" = loop.create_future()
        self._waiting.setdefault(request, []).append(future)
        if request.done():  # before it was listed
            loop.call_soon(self.drain)
        return future

    def _forget_closed_loop(self) -> None:
        """Its coroutines never go on, and what would wake them raises."""
        if self._loop is not None and self._loop.is_closed():
            self._loop, self._waiting = None, {}

    def end(self) -> "Callable[[], None]":
        """Before the communicator is destroyed, and its descriptor with it. What is to be done when its requests are
        complete: it wakes all coroutines. A forked child leaves the loop alone: it shares the parent's epoll."""
        self._forget_closed_loop()
        loop, waiting, self._loop, self._waiting = self._loop, self._waiting, None, {}
        loop = loop if os.getpid() == self._process else None
        if loop is not None:
            loop.remove_reader(self.fd)
        self.fd = -1

        def wake() -> None:
            for future in itertools.chain(*waiting.values()):
                if loop is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(_wake, future)

        return wake


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Request(Generic[T]):
    """A call in the background, of async_=True. Its arrays are kept alive, and belong to kolo, until it is complete; so
    wait for each request. `wait` returns what the call would have returned, and raises what it would have raised, as
    often as it is asked."""

    def __init__(self, handle: "Handle", result: Any, keep: object, background: "Optional[Background]",
                 is_message: bool) -> None:
        self.address = ctypes.c_void_p()  # which the library fills in
        self._handle, self._result, self._keep = handle, result, keep
        self._background, self.is_message = background, is_message
        self._status: "List[int]" = []  # one number, from when the library has freed it
        self._error: Optional[Error] = None
        self.issued = next(_issued)

    def done(self) -> bool:
        """Whether it is complete. Without a progress thread the question carries out the communicator's oldest request,
        and waits for the other ranks."""
        if self._status:
            return True
        self._handle.refuse_handler()
        flag = ctypes.c_int()
        self._handle.library.kolo_request_test(self.address, ctypes.byref(flag))
        self._handle.fail(0)  # what a handler has raised meanwhile
        return bool(flag.value)

    def wait(self, timeout: Optional[float] = None) -> T:
        """Blocks until it is complete. With a timeout, in seconds, for which the communicator needs a progress thread:
        raises TimeoutError when it has passed; the request goes on, and can be waited for again."""
        if timeout is not None and not self._background and not self._status:
            raise ArgumentError("a timeout needs a communicator with progress=True")
        self.wait_for_thread(timeout)
        if self in self._handle.flying:
            self._handle.refuse_handler()
            self.collect()
            self._handle.fail(0)  # what a handler has raised meanwhile
        if self._error is not None:
            raise self._error
        if isinstance(self._result, FunctionType):
            self._result = self._result()
        result: T = self._result
        return result

    def wait_for_thread(self, timeout: Optional[float] = None) -> None:
        """If there is one: until it has completed the request, whatever the outcome."""
        background = self._background
        if self._status or not background:
            return
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            left = SLICE_S if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"the request was not complete after {timeout} s; it goes on")
            background.sleep(min(left, SLICE_S))

    def collect(self) -> None:
        """Takes the status of a complete request, and frees it. Another call goes on where a handler has ended one: handlers
        run between two instructions of Python, and the status is stored in the one that frees the request."""
        handle = self._handle
        if not self._status:
            self._status.extend(map(handle.library.kolo_request_wait, (self.address,)))
        if self._status[0] < 0:
            self._error = handle.error(self._status[0], _library.message())
        self._keep = None
        handle.flying.pop(self, None)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._status and not self._background:
            raise ArgumentError("await needs a communicator with progress=True")
        while not self.done() and self._background:
            yield from self._background.until_done(self)
        return self.wait()


def wait_all(requests: "Sequence[Request[Any]]") -> "List[Any]":
    """Waits for all of them, in the order of issue, and returns their results in the order given. Then raises the error
    of the first in the list that has one."""
    first: "Dict[int, BaseException]" = {}
    for index in sorted(range(len(requests)), key=lambda i: requests[i].issued):
        try:
            requests[index].wait()
        except Error as error:
            first[index] = error
    if first:
        raise first[min(first)]
    return [request.wait() for request in requests]


def wait_any(requests: "Sequence[Request[Any]]") -> int:
    """Waits until one of them is complete, and returns its index: requests[index].wait() then returns at once. Leave
    those out that you have had."""
    if not requests:
        raise ArgumentError("wait_any of no requests")
    ordered = sorted(range(len(requests)), key=lambda i: requests[i].issued)
    while True:
        for index in ordered:
            if requests[index].done():
                return index
        threads = {request._background for request in requests}
        thread = None if None in threads else threads.pop()
        if thread:  # each request has one
            thread.sleep(SLICE_S / 50 if threads else SLICE_S)
