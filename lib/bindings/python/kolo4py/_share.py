"""Memory that the program has, of NumPy, PyTorch or any allocator, made into memory that all ranks have mapped."""

from typing import TYPE_CHECKING, Any

from . import _memory

if TYPE_CHECKING:
    from ._comm import Comm


class Shared:
    """What Comm.share has done with an array, until close(), the end of a with block, or the end of the communicator.
    The array lives until then, at least."""

    def __init__(self, comm: "Comm", array: Any) -> None:
        found = _memory.view(array, "array")
        self._caller = comm._caller
        self._handle = comm._handle
        self.address = found.address
        self.bytes = found.items * found.element.bytes
        self._caller.settle(messages=True)
        status = self._handle.library.kolo_share(self._handle.comm, self.address, self.bytes)
        if status:
            self._handle.fail(status)
        self._handle.adopted[self.address] = found
        self._handle.fail(0)  # what a signal's handler has raised

    @property
    def closed(self) -> bool:
        """Whether the memory is this process's own again."""
        return self.address not in self._handle.adopted

    def close(self) -> None:
        """The memory is this process's own again, with its address and contents. Waits for no rank. Every rank closes the
        same arrays in the same place among its calls. May be called more than once, also after Comm.close."""
        if not self.closed:
            self._caller.settle(messages=True)
            self._handle.give_back(self.address)

    def __enter__(self) -> "Shared":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def share(comm: "Comm", array: Any) -> Shared:
    """The same as comm.share(array)."""
    return comm.share(array)
