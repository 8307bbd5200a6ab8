"""What kolo raises. An error of the library has its status, KOLO_ERR_*, and its message."""

from __future__ import annotations

from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Optional, Tuple


ARG, SYSTEM, NO_SPACE, TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, VERSION, UNSUPPORTED, STATE = range(-1, -11, -1)


class Error(Exception):
    """Any failure of kolo. After one of these, unless it is an ArgumentError, Unsupported or RankFailed, the communicator
    is broken for every rank: only shrink(), close() and questions about it still work.

    status: the library's KOLO_ERR_*, a negative number."""
    status = SYSTEM

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class ArgumentError(Error, ValueError):
    """An argument, option or environment variable has a wrong value. Nothing was done, and the other ranks are not told:
    they wait for this rank's call, and take the next one like it for that. So make the call, or abort(). (An argument of a
    type that kolo cannot take at all is a TypeError, of which the same is true.)"""
    status = ARG


class RankFailed(Error):
    """A rank could not do its part of a call that moves objects: it could not pickle its object, had no memory for those
    of others, or could not load one. The call is over for every rank, and the communicator stays usable. All ranks of a
    collective get it; of an object that cannot be loaded only the rank where that is so, since the others have theirs.
    There __cause__ is what went wrong.

    rank: which one."""
    status = ARG

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


class Unsupported(Error):
    """Legal, but not available in this build or on this machine. Nothing was done."""
    status = UNSUPPORTED


class NoSpace(Error, MemoryError):
    """No room for shared memory. The message gives need and limit."""
    status = NO_SPACE


class VersionMismatch(Error, ImportError):
    """The package and the library, or the libraries of two ranks, are of different versions."""
    status = VERSION


class Broken(Error):
    """The communicator was broken before, was closed, or was inherited through fork."""
    status = STATE


class PeerDead(Error):
    """A rank ended, or left, while it was still needed.

    rank: which one; None: not known. signal: what killed it; None: it was not killed, or that is not known.
    exit_status: with what it exited; None likewise."""
    status = PEER_DEAD

    def __init__(self, message: str, rank: Optional[int] = None, signal: Optional[int] = None,
                 exit_status: Optional[int] = None) -> None:
        super().__init__(message)
        self.rank, self.signal, self.exit_status = rank, signal, exit_status


class Timeout(Error):
    """A rank did not come before the deadline.

    missing: the ranks that did not come, as far as they are known."""
    status = TIMEOUT

    def __init__(self, message: str, missing: Tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class Mismatch(Error):
    """Ranks made different calls, or have different settings. The message has both calls in words."""
    status = MISMATCH


class Aborted(Error):
    """A rank called abort(code), or was interrupted while it waited.

    rank: which one. code: what it chose; 130: it was interrupted."""
    status = ABORTED

    def __init__(self, message: str, rank: Optional[int] = None, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.rank, self.code = rank, code


WITHOUT_FACTS = {kind.status: kind for kind in (ArgumentError, Unsupported, NoSpace, VersionMismatch, Broken, Mismatch,
                                                PeerDead, Aborted)}
