"""Ranges of the program's own in the trace that KOLO_TRACE asks for (kolo_trace.h)."""

from __future__ import annotations

from contextlib import contextmanager

from ._library import load
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterator


@contextmanager
def trace(name: str) -> "Iterator[None]":
    """What happens within it is a range of this name in the trace of the calling thread: `with kolo.trace("backward"):`.
    Without KOLO_TRACE nothing happens. The first 63 bytes of the name, in UTF-8, count."""
    library = load()
    library.kolo_trace_begin(name.encode())
    try:
        yield
    finally:
        library.kolo_trace_end()
