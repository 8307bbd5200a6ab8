"""Tables of a parameter server: rows that workers pull and push, each at its own pace within a bound."""

from __future__ import annotations

import array
import ctypes
import math
import os

from . import _elements, _interrupts, _library, _memory
from ._errors import ArgumentError
from ._handle import TablePlace
from ._library import COUNT_MAX, integer
from ._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

    from ._comm import Comm

RULES = ("assign", "add", "sgd", "adagrad", "adam")
PLACEMENTS = ("range", "round_robin", "hash", "greedy")
UNBOUNDED = 2**63 - 1  # KOLO_STALENESS_UNBOUNDED
IDS = (_elements.I64, _elements.U64)


class Table:
    """A table of `rows` rows of `columns` elements each, zeros at first. Every rank makes it, with the same arguments,
    and then pulls, pushes and ends its clocks in a loop of its own.

        with kolo.Table(comm, rows=10000, columns=64, rule="sgd", lr=0.1, staleness=3) as table:
            for ids in batches:              # of this worker
                rows = table.pull_rows(ids)  # as they are now
                table.push_rows(ids, gradients(rows))
                table.clock()                # waits while the slowest is more than 3 clocks behind

    rule: assign, add, sgd, adagrad or adam, of what is pushed. staleness: 0, all in step and the bits of an all-reduce; a
    bound in clocks; or math.inf. servers: so many of the last ranks are servers, and call serve(). row_columns: elements
    of each row, where rows differ. The others are as in kolo_table_options. All of NumPy's arrays, the buffer protocol
    and DLPack are taken, for ids of int64 or uint64, or a sequence of ints."""

    def __init__(self, comm: "Comm", rows: int, columns: int = 1, dtype: Any = "float32", *, rule: str = "add",
                 staleness: float = 0, lr: float = 0.01, momentum: float = 0.0,
                 betas: "tuple[float, float]" = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 op: str = "sum", backup_workers: int = 0, hogwild: bool = False, placement: str = "range",
                 shards: int = 0, servers: int = 0, row_columns: "Optional[Sequence[int]]" = None,
                 split_bytes: int = 65536, queue_bytes: int = 0, name: "Optional[str]" = None) -> None:
        self._address = TablePlace(is_strict=staleness == 0 and not backup_workers)
        self._caller = comm._caller
        self._library = _library.load()
        self._element = _elements.must_name(dtype)
        for value, known, what in ((rule, RULES, "rule"), (placement, PLACEMENTS, "placement")):
            if value not in known:
                raise ArgumentError(f"{what} {value!r} is none of {', '.join(known)}")
        self.rows, self.columns = integer(rows, "rows", 0, COUNT_MAX), integer(columns, "columns", 0, COUNT_MAX)
        self._lengths: "Optional[List[int]]" = None if row_columns is None else [
            integer(length, f"row_columns[{row}]", 0, COUNT_MAX // self._element.width)
            for row, length in enumerate(row_columns)]
        if self._lengths is not None and len(self._lengths) != rows:
            raise ArgumentError(f"row_columns has {len(self._lengths)} entries, and the table {rows} rows")
        lengths = None if self._lengths is None else (ctypes.c_size_t * rows)(
            *(length * self._element.width for length in self._lengths))
        options = _library.TableOptions(
            options_bytes=ctypes.sizeof(_library.TableOptions), name=name.encode() if name else None, rows=rows,
            columns=self.columns * self._element.width, row_columns=ctypes.addressof(lengths) if lengths else None,
            dtype=self._element.code, rule=RULES.index(rule), learning_rate=lr, momentum=momentum, beta1=betas[0],
            beta2=betas[1], epsilon=eps, weight_decay=weight_decay, op=_elements.op_code(op, self._element),
            staleness=UNBOUNDED if staleness == math.inf else staleness, backup_workers=backup_workers,
            hogwild=hogwild, placement=PLACEMENTS.index(placement), shards=shards, servers=servers,
            split_bytes=split_bytes, queue_bytes=queue_bytes)
        try:
            self._caller.handle.tables.append(self._address)  # before it is: a handler may raise behind the call
            self._call("create", self._caller.handle.comm, ctypes.addressof(options), ctypes.addressof(self._address))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Table":
        return self

    def __exit__(self, kind: "Optional[Type[BaseException]]", *_: object) -> None:
        if kind and self._address and self._address.is_strict:
            self._caller.handle.abort_for(kind)
        self.close()

    def close(self) -> None:
        """Leaves the table: this worker is not waited for any more. Comm.close does it, too. With staleness 0 and no backup
        workers any other end of this rank's part, as by an exception in the with block, aborts the communicator."""
        self._caller.handle.end_table(self._address)
        self._caller.handle.fail(0)  # what a handler has raised meanwhile

    def _call(self, name: str, *arguments: Any) -> None:
        handle = self._caller.handle
        handle.refuse_closed()
        if name in ("create", "initialize", "load"):
            self._caller.settle()
        elif not self._address:
            raise ArgumentError("the table is closed")
        status = getattr(self._library, f"kolo_table_{name}")(*arguments)
        if status or _interrupts.raised:
            handle.fail(status)

    def _elements_of(self, ids: "Sequence[int]") -> int:
        if self._lengths is None:
            return len(ids) * self.columns
        return sum(self._lengths[row] for row in ids if 0 <= row < self.rows)

    def _elements_named(self, ids: _memory.View) -> int:
        """Of all rows that are named, in any order."""
        if self._lengths is None:
            return ids.count * self.columns
        return self._elements_of(list((ctypes.c_uint64 * ids.count).from_address(ids.address))) if ids.count else 0

    def _view(self, x: Any, count: int, what: str, writable: bool = False) -> _memory.View:
        view = _memory.view(x, what, writable)
        _memory.check_type(view, self._element, what)
        if view.count != count * self._element.width:
            raise ArgumentError(f"{what} has {view.count // self._element.width} elements, and {count} are needed")
        return view

    def _room(self, out: Any, rows: "Tuple[int, ...]", count: int) -> _memory.View:
        """Where to pull to: `out`, or a new array of NumPy's, or of the standard library's without NumPy."""
        if out is None:
            shape = (*rows, self.columns) if self._lengths is None else (count,)
            try:
                import numpy
            except ImportError:
                return self._view(bytes_of(self._element, count), count, "out", True)
            out = numpy.empty(shape, _memory.numpy_dtype(self._element))
        return self._view(out, count, "out", True)

    def _ids(self, ids: Any) -> _memory.View:
        if isinstance(ids, (list, tuple, range)):
            if any(row < 0 for row in ids):
                raise ArgumentError(f"row {min(ids)}: the table has rows 0 to {self.rows - 1}")
            ids = array.array("Q", ids)
        view = _memory.view(ids, "ids")
        if view.element.code not in IDS:
            raise ArgumentError(f"ids are {view.element.name}: int64 or uint64 is needed")
        return view

    def initialize(self, values: Any = None, root: int = 0) -> None:
        """Sets all rows to rank root's `values`. Collective; before anybody pushes."""
        view = self._view(values, self._elements_of(range(self.rows)), "values") if values is not None else None
        self._call("initialize", self._address, view.address if view else None, integer(root, "root"))

    def pull(self, out: Any = None, first: int = 0, rows: "Optional[int]" = None) -> Any:
        """Rows first .. first + rows - 1, by default to the end, in `out` or a new array."""
        first = integer(first, "first", 0, self.rows)
        rows = integer(self.rows - first if rows is None else rows, "rows", 0, self.rows - first)
        view = self._room(out, (rows,), self._elements_of(range(first, first + rows)))
        self._call("pull", self._address, first, rows, view.address)
        return view.array

    def pull_rows(self, ids: Any, out: Any = None) -> Any:
        """The rows that `ids` names, one behind the other, in `out` or a new array of ids' shape and a row each."""
        named = self._ids(ids)
        view = self._room(out, named.shape, self._elements_named(named))
        self._call("pull_rows", self._address, named.address, named.count, view.address)
        return view.array

    def push(self, updates: Any, first: int = 0) -> None:
        """Updates of as many rows as `updates` has, from `first` on."""
        view = _memory.view(updates, "updates")
        _memory.check_type(view, self._element, "updates")
        first = integer(first, "first", 0, self.rows)
        count, rows = view.count // self._element.width, 0
        if self._lengths is None:
            rows = count // self.columns
        else:
            begun = 0
            while begun < count and first + rows < self.rows:
                begun += self._lengths[first + rows]
                rows += 1
        if self._elements_of(range(first, first + rows)) != count:
            raise ArgumentError(f"updates has {count} elements, which are no whole rows of the table from {first} on")
        self._call("push", self._address, first, rows, view.address)

    def push_rows(self, ids: Any, updates: Any) -> None:
        """An update of each row that `ids` names; those of a row that is named several times are summed."""
        named = self._ids(ids)
        view = self._view(updates, self._elements_named(named), "updates")
        self._call("push_rows", self._address, named.address, named.count, view.address)

    def clock(self) -> None:
        """Ends this worker's clock. Waits while the slowest worker is too far behind. With backup_workers, passes all
        clocks that have ended without this worker."""
        self._call("clock", self._address)

    def wait(self) -> None:
        """Waits until all that this worker has pushed is applied, and the last save is written."""
        self._call("wait", self._address)

    def serve(self) -> None:
        """A server's part: applies what workers push until all of them have left."""
        self._call("serve", self._address)

    def set_learning_rate(self, lr: float) -> None:
        """From the next update on."""
        self._call("set_learning_rate", self._address, lr)

    def owner(self, row: int, element: int = 0) -> int:
        """The rank that owns that element of the row."""
        rank = ctypes.c_int()
        element = self._element.width * integer(element, "element", 0, COUNT_MAX // self._element.width)
        self._call("owner", self._address, integer(row, "row", 0, COUNT_MAX), element, ctypes.addressof(rank))
        return rank.value

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Saves the table as it is between two clocks, by every worker; a thread writes the file, which wait() awaits."""
        self._call("save", self._address, os.fsencode(path))

    def load(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Sets the table to what one with the same rows has saved. Collective; before anybody pushes."""
        self._call("load", self._address, os.fsencode(path))

    @property
    def stats(self) -> "Dict[str, int]":
        """As kolo_table_stats: clocks, who is slowest, and what this rank has pulled, pushed and applied."""
        stats = _library.TableStats(stats_bytes=ctypes.sizeof(_library.TableStats))
        self._call("get_stats", self._address, ctypes.addressof(stats))
        names: "List[str]" = [field[0] for field in _library.TableStats._fields_[1:]]
        return {name: getattr(stats, name) for name in names}


def bytes_of(element: _elements.Element, count: int) -> "Union[array.array[Any], bytearray]":
    """Zeroed memory for so many elements, without NumPy."""
    codes = {"float32": "f", "float64": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
             "uint32": "I", "int64": "q", "uint64": "Q"}
    if element.name not in codes:
        raise ArgumentError(f"out is needed for {element.name} where there is no NumPy")
    return array.array(codes[element.name], bytes(count * element.bytes))
