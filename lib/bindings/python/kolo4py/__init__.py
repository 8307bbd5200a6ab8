"""kolo4py: all-reduce and the other collectives between the processes of one machine, or of a few.

    import kolo4py as kolo
    with kolo.init() as comm:            # rank and size come from the launcher, such as kolorun -n 2
        total = comm.all_reduce(x)       # a NumPy array, or anything with the buffer protocol or DLPack

Needs the library libkolo of the same version, and no NumPy."""

from __future__ import annotations

import os
import sys

from ._comm import Comm, Failure, init, join, unlisten
from ._errors import (Aborted, ArgumentError, Broken, Error, Mismatch, NoSpace, PeerDead, RankFailed, Timeout, Unsupported,
                      VersionMismatch)
from ._library import VERSION as __version__
from ._messages import ANY, Received
from ._requests import Request, wait_all, wait_any
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ._buckets import Buckets
    from ._exact import Exact, exact
    from ._optimizers import Optimizer, Step
    from ._shared import Shared, SharedArray, share
    from ._tables import Table
    from ._trace import trace

_LATER = {"Buckets": "_buckets", "Exact": "_exact", "exact": "_exact", "Optimizer": "_optimizers", "Step": "_optimizers",
          "Shared": "_shared", "SharedArray": "_shared", "share": "_shared", "Table": "_tables",
          "trace": "_trace"}  # what is imported when it is first asked for

# A build has the compiled part in another folder.
__path__ += [folder for folder in (os.path.join(entry, __name__) for entry in sys.path)
             if folder not in __path__ and os.path.isdir(folder)]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return globals()[name]


def __dir__() -> "list[str]":
    return sorted({*globals(), *_LATER})


for _error in (Aborted, ArgumentError, Broken, Error, Mismatch, NoSpace, PeerDead, RankFailed, Timeout, Unsupported,
               VersionMismatch):
    _error.__module__ = "kolo4py"  # what tracebacks show

__all__ = ["ANY", "Aborted", "ArgumentError", "Broken", "Buckets", "Comm", "Error", "Exact", "Failure", "Mismatch", "NoSpace",
           "Optimizer", "PeerDead", "RankFailed", "Received", "Request", "Shared", "SharedArray", "Step", "Table", "Timeout",
           "Unsupported", "VersionMismatch", "__version__", "exact", "init", "join", "share", "trace", "unlisten", "wait_all", "wait_any"]
