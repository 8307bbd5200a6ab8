"""Finds libkolo, and declares its functions and structs as include/kolo*.h do."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from operator import index

from ._errors import ArgumentError, Unsupported, VersionMismatch
from ._typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

_Made = TypeVar("_Made")
VERSION = "0.1.0"  # of this package; the library's must be the same
SONAME = "libkolo.so." + (VERSION.rpartition(".")[0] if VERSION.startswith("0.") else VERSION.partition(".")[0])

Pointer, Count, Int, Number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64
Real = ctypes.c_double
COLLECTIVE, ALGORITHM, COMPRESSION = range(3)  # kolo_named
INT_MAX, COUNT_MAX = 2**31 - 1, 2**64 - 1
_RANGES: "dict[Any, tuple[int, int]]" = {Int: (-INT_MAX - 1, INT_MAX), Count: (0, COUNT_MAX),
                                         ctypes.c_int64: (-2**63, 2**63 - 1)}


def integer(value: Any, name: str, low: int = -INT_MAX - 1, high: int = INT_MAX) -> int:
    """An int, or what stands for one, such as numpy.int64, within these bounds. ctypes would cut off the upper bits."""
    number = index(value)
    if not low <= number <= high:
        raise ArgumentError(f"{name} {number}: must be from {low} to {high}")
    return number


def once(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """Makes a function's result when it is first asked for. functools.lru_cache would let two threads make it at once,
    and the second would get a module that the first has not loaded yet."""
    lock = threading.Lock()
    made: "list[_Made]" = []

    def get() -> _Made:
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    get.__doc__ = make.__doc__
    return get


class Checked(ctypes.Structure):
    """A struct of options, whose integers are in the range of their types."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        kinds = {name: kind for name, kind, *_ in self._fields_}
        for name, value in {**dict(zip(kinds, values)), **fields}.items():
            setattr(self, name, integer(value, name, *_RANGES[kinds[name]]) if kinds[name] in _RANGES else value)


class Options(Checked):
    """kolo_options."""
    _fields_ = [("options_bytes", Count), ("rank", Int), ("size", Int), ("job", ctypes.c_char_p), ("shm_fd", Int),
                ("algorithm", Int), ("timeout_ms", ctypes.c_int64), ("create_timeout_ms", ctypes.c_int64),
                ("slot_bytes", Count), ("rendezvous", ctypes.c_char_p), ("progress", Int), ("threads", Int)]


class CommInfo(ctypes.Structure):
    """kolo_comm_info."""
    _fields_ = [("info_bytes", Count), ("rank", Int), ("size", Int), ("local_rank", Int), ("local_size", Int),
                ("node", Int), ("nodes", Int), ("lanes", Int), ("timeout_ms", ctypes.c_int64)]


class Failure(ctypes.Structure):
    """kolo_failure."""
    _fields_ = [("failure_bytes", Count), ("status", Int), ("rank", Int), ("reporter", Int), ("code", Int),
                ("call", Number), ("message", ctypes.c_char * 384), ("cause", Int)]


INTERRUPT = ctypes.CFUNCTYPE(Int, Pointer)


class Hooks(ctypes.Structure):
    """kolo_hooks."""
    _fields_ = [("hooks_bytes", Count), ("interrupt", INTERRUPT), ("idle", Pointer),
                ("context", Pointer)]


class Stats(ctypes.Structure):
    """kolo_stats."""
    _fields_ = [("stats_bytes", Count), ("calls", Number), ("calls_by_algorithm", Number * 16),
                ("payload_bytes", Number), ("sent_bytes", Number), ("received_bytes", Number),
                ("waits_slept", Number), ("waited_ns", Number), ("segment_bytes", Number), ("buffer_bytes", Number),
                ("net_sent_bytes", Number), ("net_received_bytes", Number), ("net_system_calls", Number),
                ("calls_by_collective", Number * 32)]


class Received(ctypes.Structure):
    """kolo_received."""
    _fields_ = [("received_bytes", Count), ("rank", Int), ("tag", Int), ("count", Count)]


class GrowOptions(Checked):
    """kolo_grow_options."""
    _fields_ = [("grow_bytes", Count), ("listener", Int), ("timeout_ms", ctypes.c_int64), ("check", Pointer),
                ("context", Pointer)]


class JoinOptions(Checked):
    """kolo_join_options."""
    keep: Any = None  # what the message points to
    _fields_ = [("join_bytes", Count), ("job", ctypes.c_char_p), ("message", Pointer), ("message_bytes", Count),
                ("timeout_ms", ctypes.c_int64), ("asked", Pointer), ("context", Pointer)]


class BucketInfo(ctypes.Structure):
    """kolo_bucket_info."""
    _fields_ = [("info_bytes", Count), ("buckets", Count), ("held_bytes", Count)]


class ParameterGroup(Checked):
    """kolo_parameter_group."""
    _fields_ = [("group_bytes", Count), ("end", Count), ("learning_rate", Real), ("weight_decay", Real),
                ("beta1", Real), ("beta2", Real), ("epsilon", Real), ("momentum", Real), ("dampening", Real),
                ("nesterov", Int)]


class OptimizerOptions(Checked):
    """kolo_optimizer_options."""
    _fields_ = [("options_bytes", Count), ("kind", Int), ("dtype", Int), ("count", Count), ("segments", Pointer),
                ("nsegments", Count), ("op", Int), ("master_weights", Int), ("gradient_scale", Real),
                ("clip_norm", Real), ("skip_nonfinite", Int)]


class StepInfo(ctypes.Structure):
    """kolo_step_info."""
    _fields_ = [("info_bytes", Count), ("steps", Number), ("skipped", Int), ("norm", Real), ("clip", Real)]


class TableOptions(Checked):
    """kolo_table_options."""
    _fields_ = [("options_bytes", Count), ("name", ctypes.c_char_p), ("rows", Number), ("columns", Count),
                ("row_columns", Pointer), ("dtype", Int), ("rule", Int), ("function", Pointer), ("context", Pointer),
                ("state_bytes", Count), ("learning_rate", Real), ("momentum", Real), ("beta1", Real), ("beta2", Real),
                ("epsilon", Real), ("weight_decay", Real), ("op", Int), ("staleness", ctypes.c_int64),
                ("backup_workers", Int), ("hogwild", Int), ("placement", Int), ("shards", Int), ("servers", Int),
                ("split_bytes", Count), ("queue_bytes", Count)]


class TableStats(ctypes.Structure):
    """kolo_table_stats."""
    _fields_ = [("stats_bytes", Count), ("rows", Number), ("shards", Number), ("memory_bytes", Number),
                ("clock", Number), ("slowest_clock", Number), ("fastest_clock", Number), ("slowest_rank", Int),
                ("workers", Int), ("workers_dead", Int), ("pulled", Number), ("pulled_again", Number),
                ("pushed", Number), ("applied", Number), ("left_out", Number), ("waited_ns", Number), ("rounds", Number),
                ("sent_bytes", Number), ("net_sent_bytes", Number)]


class Tensor(ctypes.Structure):
    """kolo_tensor."""
    _fields_ = [("data", Pointer), ("count", Count)]


class CollectiveCall(ctypes.Structure):
    """kolo_call."""
    _fields_ = [("call_bytes", Count), ("collective", Int), ("dtype", Int), ("op", Int), ("root", Int),
                ("send", Pointer), ("recv", Pointer), ("count", Count), ("send_counts", Pointer),
                ("send_offsets", Pointer), ("recv_counts", Pointer), ("recv_offsets", Pointer), ("tensors", Pointer),
                ("ntensors", Count), ("function", Pointer), ("context", Pointer)]


# Arguments after the communicator: p pointer, n count, i int. A message has a second form, kolo_i*, with a request behind;
# that of kolo_call_make is kolo_start.
CALLS = {"call_make": "p", "send": "pniii", "recv": "pniiip", "sendrecv": "pniipniiip"}
OTHERS = {
    "comm_create": "pp", "comm_destroy": "p", "comm_abort": "pi", "comm_shrink": "pp", "comm_split": "piip",
    "comm_dup": "pp", "comm_listen": "ppp", "comm_unlisten": "ip", "comm_grow": "ppp", "comm_join": "pp",
    "comm_failure": "pp", "comm_stats": "pp", "comm_eventfd": "pp", "comm_set_hooks": "pp",
    "comm_set_timeout": "pt", "alloc_with": "pnip", "free": "pp", "share": "ppn",
    "request_test": "pp", "request_wait": "p",
    "comm_query": "pp", "apply_owned": "pinipp", "trace_begin": "s", "trace_end": "",
}
PARTS = {"KOLO_TRAINING": {  # by the option of the build that leaves them out
    "exact_create": "pin", "exact_destroy": "p", "exact_add": "pnnpn", "exact_merge": "pp",
    "exact_allreduce": "ppp", "exact_round": "pp", "exact_reset": "p",
    "optimizer_create": "pppnp", "optimizer_destroy": "p", "optimizer_step": "pppp",
    "optimizer_begin_segment": "pnpp", "optimizer_group": "pnpp", "optimizer_local_state": "pipp",
    "optimizer_read_state": "pipi", "optimizer_write_state": "pip",
    "bucket_create": "ppnpp", "bucket_ready": "pn", "bucket_wait": "p", "bucket_query": "pp",
    "bucket_destroy": "p", "bucket_residual": "pnpp",
}, "KOLO_TABLE": {
    "table_create": "ppp", "table_destroy": "p", "table_initialize": "ppi", "table_pull": "puup",
    "table_pull_rows": "ppnp", "table_push": "puup", "table_push_rows": "ppnp", "table_clock": "p", "table_wait": "p",
    "table_serve": "p", "table_set_learning_rate": "pd", "table_owner": "punp", "table_get_stats": "pp",
    "table_save": "ps", "table_load": "ps",
}}
KINDS: "dict[str, Any]" = {"p": Pointer, "n": Count, "i": Int, "t": ctypes.c_int64, "u": Number, "d": Real,
                           "s": ctypes.c_char_p}


def _candidates() -> Iterator[str]:
    """Paths to try: what KOLO_LIBRARY names and nothing else; or the library in this package, as a wheel has it, the
    one of the prefix in which this package is installed, and the one that the system's loader finds."""
    named = os.environ.get("KOLO_LIBRARY")
    if named:
        yield named
        return
    for folder in sys.modules[__package__].__path__:  # two of them, where pip has installed an editable one
        yield os.path.join(folder, SONAME)
    folder = os.path.dirname(os.path.realpath(__file__))
    triplet = getattr(sys.implementation, "_multiarch", "")
    for _ in range(4):
        folder = os.path.dirname(folder)
        for beside in ("", triplet, "lib64"):
            yield os.path.join(folder, beside, SONAME)
    yield SONAME


def _open() -> "tuple[ctypes.CDLL, str]":
    reason = ""
    for path in _candidates():
        if "/" in path and not os.path.exists(path) and not os.environ.get("KOLO_LIBRARY"):
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            reason = reason or str(error)
    raise ImportError(f"kolo: the library {SONAME} was not found ({reason}); install kolo, or name the file in "
                      "KOLO_LIBRARY")


def _declare_part(library: ctypes.CDLL, option: str) -> None:
    """Its functions raise Unsupported where the library has none of them."""
    def missing(*_arguments: Any) -> int:
        raise Unsupported(f"the library {library._name} was built with {option}=OFF")

    for name, kinds in PARTS[option].items():
        try:
            getattr(library, f"kolo_{name}").argtypes = [KINDS[kind] for kind in kinds]
        except AttributeError:
            setattr(library, f"kolo_{name}", missing)


@once
def load() -> ctypes.CDLL:
    """The library with its functions declared. Raises ImportError if there is none, VersionMismatch if it is of another
    version than this package."""
    library, path = _open()
    library.kolo_version.restype = ctypes.c_char_p
    version = library.kolo_version().decode()
    if version != VERSION:
        raise VersionMismatch(f"the Python package kolo4py is {VERSION}, but the library {path} is {version}: install "
                              "both of one version, or name another library in KOLO_LIBRARY")
    for name in ("error_message", "name"):
        getattr(library, f"kolo_{name}").restype = ctypes.c_char_p
    for name, kinds in OTHERS.items():
        getattr(library, f"kolo_{name}").argtypes = [KINDS[kind] for kind in kinds]
    for name, kinds in CALLS.items():
        getattr(library, f"kolo_{name}").argtypes = [KINDS[kind] for kind in "p" + kinds]
        getattr(library, f"kolo_{background(name)}").argtypes = [KINDS[kind] for kind in "p" + kinds + "p"]
    for option in PARTS:
        _declare_part(library, option)
    return library


def background(name: str) -> str:
    """The function that makes the same call in the background."""
    return "start" if name == "call_make" else f"i{name}"


@once
def collectives() -> "dict[str, int]":
    """The library's number of each collective."""
    names = (load().kolo_name(COLLECTIVE, number) for number in range(32))
    return {name.decode(): number for number, name in enumerate(names) if name}


def comm_info(comm: Any) -> CommInfo:
    """What kolo_comm_query tells of the kolo_comm at that address."""
    info = CommInfo(ctypes.sizeof(CommInfo))
    load().kolo_comm_query(comm, ctypes.addressof(info))
    return info


def read_stats(comm: Any) -> "tuple[int, dict[str, Any]]":
    """What kolo_comm_stats returns for the kolo_comm at that address, and the counters by their names."""
    library, stats = load(), Stats(stats_bytes=ctypes.sizeof(Stats))
    status = int(library.kolo_comm_stats(comm, ctypes.addressof(stats)))
    told: "dict[str, Any]" = {name: getattr(stats, name) for name, kind, *_ in Stats._fields_[1:]
                              if kind is ctypes.c_uint64}
    for counters, of in (("calls_by_algorithm", ALGORITHM), ("calls_by_collective", COLLECTIVE)):
        named = ((library.kolo_name(of, number), calls) for number, calls in enumerate(getattr(stats, counters)))
        told[counters] = {name.decode(): calls for name, calls in named if name}
    return status, told


def message() -> str:
    """What went wrong in this thread's last failed call."""
    return bytes(load().kolo_error_message()).decode(errors="replace")
