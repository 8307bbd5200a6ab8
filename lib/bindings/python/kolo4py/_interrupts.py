"""Ctrl-C, and every other signal that has a Python handler, while a call waits in the library.

Python runs handlers in its main thread, between two of its instructions; a call that waits in C would hold them back. So
the library asks, about every 100 ms of a wait, whether to go on (kolo_hooks.interrupt). The question is a call of
Python code, in which pending handlers run. One that raises ends the wait: the communicator is aborted for all ranks
with INTERRUPTED, and the caller gets what the handler has raised. One that only notes something does not disturb the
call. One may use other communicators: each asks a generator of its own. Of the communicator that waits it may ask about
things, abort it, set its timeout and close it; Handle.refuse_closed refuses calls.

The question must not lose what a handler raises. A function could be interrupted in its first instruction, before its
`try`. Therefore it is a generator, which is always resumed within one."""

from __future__ import annotations

import ctypes
import threading

from . import _library
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Generator, List, Optional

INTERRUPTED = 130  # the code of the abort, as shells have it for a program that Ctrl-C has ended

raised: List[BaseException] = []  # by handlers, until the call that they have ended raises it


def answers() -> Generator[int, Any, None]:
    """Of one communicator: it is running (gi_running) while a handler runs in a wait."""
    while True:
        try:
            while True:
                yield INTERRUPTED if raised else 0
        except GeneratorExit:
            return
        except BaseException as error:  # whatever the handler has raised is the caller's
            raised.append(error)


def listen(comm: ctypes.c_void_p, asked: Generator[int, Any, None]) -> Any:
    """Has signals interrupt the main thread's calls, if it makes the communicator; others never run handlers. What to
    keep."""
    next(asked)
    hooks = _library.Hooks(ctypes.sizeof(_library.Hooks), _library.INTERRUPT(asked.send))
    if threading.current_thread() is threading.main_thread():
        _library.load().kolo_comm_set_hooks(comm, ctypes.addressof(hooks))
    return hooks


def take() -> Optional[BaseException]:
    """What a handler has raised, in the main thread; None: nothing, or this is another thread."""
    if not raised or threading.current_thread() is not threading.main_thread():
        return None
    error = raised[0]
    raised.clear()
    return error


def call_apart(function: Any, place: ctypes.c_void_p, *arguments: Any,
               ended: "Callable[[], None]" = lambda: None) -> "tuple[int, str]":
    """Calls a function of the library that makes a communicator in `place`, which is one of the arguments by reference,
    and waits without asking, such as kolo_comm_create. It does so in another thread, for which the main thread waits,
    so that signals are handled meanwhile. Its status and message.

    If a handler raises, the thread is left to its end, and destroys what it has made. `ended` is called then, too."""
    def call() -> None:
        status = function(*arguments)
        with lock:
            done.append((status, _library.message() if status < 0 else ""))
            if abandoned and status == 0 and place.value:
                _library.load().kolo_comm_destroy(place)
        ended()

    done: "List[tuple[int, str]]" = []
    abandoned: List[bool] = []
    lock = threading.Lock()
    if threading.current_thread() is not threading.main_thread():
        call()
        return done[0]
    thread = threading.Thread(target=call, name="kolo-call", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        with lock:
            abandoned.append(True)
            if done and done[0][0] == 0 and place.value:
                _library.load().kolo_comm_destroy(place)
        raise
    return done[0]
