"""Ranges of the program's own in the trace that KOLO_TRACE asks for (kolo_trace.h)."""

from contextlib import contextmanager
from typing import Iterator

from ._library import load


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
