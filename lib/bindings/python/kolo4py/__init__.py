"""kolo4py: all-reduce and the other collectives between the processes of one machine, or of a few.

    import kolo4py as kolo
    with kolo.init() as comm:            # rank and size come from the launcher, such as kolorun -n 2
        total = comm.all_reduce(x)       # a NumPy array, or anything with the buffer protocol or DLPack

Needs the library libkolo of the same version, and no NumPy."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)  # a build has the compiled part in another folder

from ._buckets import Buckets
from ._comm import Comm, Failure, init, join, unlisten
from ._errors import (Aborted, ArgumentError, Broken, Error, Mismatch, NoSpace, PeerDead, RankFailed, Timeout, Unsupported,
                      VersionMismatch)
from ._exact import Exact, exact
from ._library import VERSION as __version__
from ._messages import ANY, Received
from ._optimizers import Optimizer, Step
from ._requests import Request, wait_all, wait_any
from ._shared import Shared, SharedArray, share
from ._tables import Table
from ._trace import trace

for _error in (Aborted, ArgumentError, Broken, Error, Mismatch, NoSpace, PeerDead, RankFailed, Timeout, Unsupported,
               VersionMismatch):
    _error.__module__ = "kolo4py"  # what tracebacks show

__all__ = ["ANY", "Aborted", "ArgumentError", "Broken", "Buckets", "Comm", "Error", "Exact", "Failure", "Mismatch", "NoSpace",
           "Optimizer", "PeerDead", "RankFailed", "Received", "Request", "Shared", "SharedArray", "Step", "Table", "Timeout",
           "Unsupported", "VersionMismatch", "__version__", "exact", "init", "join", "share", "trace", "unlisten", "wait_all", "wait_any"]
