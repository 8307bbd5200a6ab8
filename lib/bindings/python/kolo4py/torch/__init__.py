"""kolo as a backend of torch.distributed, for tensors in the CPU's memory.

    torch.distributed.init_process_group("kolo")

needs no import where the distribution kolo4py is installed: PyTorch, from 2.5 on, calls `autoload` here when it is
imported. What is in C++ is loaded with the first process group. With KOLO_TORCH_GLOO=1 in the environment the name
"gloo" means kolo, for programs that ask for that name.

The backend of a group is `backend(group)`; what it has done is in `stats(group)`."""

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import sys
from pkgutil import extend_path
from typing import Any, Dict, Iterator, List

__path__ = extend_path(__path__, __name__)  # a build has the C++ part in another folder

from .. import _library
from . import _builder, _rendezvous

__all__ = ["autoload", "backend", "comm", "register", "stats"]


_classes: "List[type]" = []  # of backends: Backend, once it is loaded


@_library.once
def load() -> Any:
    """The C++ part for this PyTorch: a module with the class Backend. It is compiled if there is none. Raises ImportError
    if that fails."""
    _library.load()  # the library that the C++ part needs, of the same version
    torch = _builder.find()
    path = _builder.find_made(torch.file, __path__)
    loader = importlib.machinery.ExtensionFileLoader(torch.module, path)
    spec = importlib.util.spec_from_file_location(torch.module, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    _classes.append(module.Backend)
    return module


def _create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return load().Backend(store, rank, size, timeout)


def _create_of(options: Any, _backends_own: Any) -> Any:
    return load().Backend(options.store, options.group_rank, options.group_size, options.timeout,
                          options.global_ranks_in_group)


def register() -> None:
    """Makes "kolo" a name of a backend. Happens by itself where kolo4py is installed."""
    from torch.distributed import distributed_c10d as c10d
    if "KOLO" in c10d.Backend._plugins:
        return
    tells_more = hasattr(getattr(c10d, "_DistributedBackendOptions", None), "global_ranks_in_group")
    try:
        c10d.Backend.register_backend("kolo", _create_of if tells_more else _create, tells_more, devices=["cpu"])
    except TypeError:  # PyTorch 1.13
        c10d.Backend.register_backend("kolo", _create)
    if hasattr(c10d, "_create_shrunk_process_group"):
        _correct_shrunk_groups(c10d)
    if hasattr(getattr(c10d, "_world", None), "pg_coalesce_state"):
        _end_failed_coalescing(c10d)
    if os.environ.get("KOLO_TORCH_GLOO") == "1":
        _take_gloos_place(c10d)
    _rendezvous.add_launchers()


def _correct_shrunk_groups(c10d: Any) -> None:
    """PyTorch 2.13 takes every shrunk group on the CPU for one of Gloo's, and then reads kolo's object as one of those."""
    create = c10d._create_shrunk_process_group

    @functools.wraps(create)
    def create_custom(new_backend: Any, *arguments: Any, **options: Any) -> Any:
        import torch
        group = create(new_backend, *arguments, **options)
        if isinstance(new_backend, tuple(_classes)):
            custom = c10d.ProcessGroup.BackendType.CUSTOM
            group._register_backend(torch.device("cpu"), custom, new_backend)
            group._set_default_backend(custom)
        return group

    c10d._create_shrunk_process_group = create_custom


def _end_failed_coalescing(c10d: Any) -> None:
    """PyTorch goes on coalescing when an exception leaves its context: later operations would join what nobody ends."""
    import torch.distributed
    public: Any = torch.distributed
    create = c10d._coalescing_manager

    @contextlib.contextmanager
    @functools.wraps(create)
    def ending(group: Any = None, *arguments: Any, **options: Any) -> "Iterator[Any]":
        try:
            with create(group, *arguments, **options) as manager:
                yield manager
        except BaseException:
            with contextlib.suppress(RuntimeError, TypeError):  # the group is not kolo's, or there is nothing to end
                ours = backend(group)
                c10d._world.pg_coalesce_state.pop(group or c10d._get_default_group(), None)
                ours._end_coalescing()
            raise

    c10d._coalescing_manager = public._coalescing_manager = ending


def _take_gloos_place(c10d: Any) -> None:
    """Groups of "gloo" are kolo's, but keep their name: get_backend() and what asks it find what the program wrote."""
    create = c10d._new_process_group_helper

    def meant(asked: str) -> str:
        import torch
        if asked == "undefined" and not torch.cuda.is_available():
            return "kolo"
        return ",".join("kolo" if name == "gloo" else "cpu:kolo" if name == "cpu:gloo" else name
                        for name in asked.lower().split(","))

    @functools.wraps(create)
    def create_kolo(size: int, rank: int, ranks: Any, asked: Any, *arguments: Any, **options: Any) -> Any:
        kolo = meant(str(asked))
        if kolo == str(asked):
            return create(size, rank, ranks, asked, *arguments, **options)
        made = create(size, rank, ranks, c10d.Backend(kolo), *arguments, **options)
        group = made[0] if isinstance(made, tuple) else made
        known = getattr(getattr(c10d, "_world", None), "pg_map", None) or getattr(c10d, "_pg_map", {})
        if group in known:
            known[group] = (c10d.Backend("gloo") if str(asked) == "undefined" else asked, *known[group][1:])
            backend(group).supports_coalescing = False
        return made

    c10d._new_process_group_helper = create_kolo


def autoload() -> None:
    """The entry point "torch.backends". Never raises: a program that imports torch may have no use for kolo."""
    try:
        register()
    except Exception as error:  # said when somebody asks for the backend
        if "off" not in os.environ.get("KOLO_LOG", "off"):
            print(f"kolo: the backend for torch.distributed was not registered: {error}", file=sys.stderr)


def backend(group: Any = None) -> Any:
    """The backend object of a process group; None: the default one. Raises TypeError if it is not kolo's."""
    import torch
    from torch.distributed import distributed_c10d as c10d
    group = group or c10d._get_default_group()
    found = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    found = getattr(found, "wrapped_pg", found)  # of TORCH_DISTRIBUTED_DEBUG=DETAIL, which checks calls before they are made
    if not isinstance(found, tuple(_classes)):
        raise TypeError(f"the process group's backend is {type(found).__name__}, not kolo's")
    return found


def comm(group: Any = None) -> int:
    """The address of the group's kolo_comm, for C and ctypes. It lives until the group is destroyed."""
    return int(backend(group).comm)


def stats(group: Any = None) -> "Dict[str, Any]":
    """What this rank has done in the group, as kolo_stats in kolo_comm.h has it; and `buffers`, how many of kolo_alloc
    allocate_tensor has made."""
    _status, numbers = _library.read_stats(comm(group))
    numbers["buffers"] = backend(group).buffers
    return numbers


def __getattr__(name: str) -> Any:
    """FusedAdamW and FusedSGD, which need PyTorch; this module is there without it."""
    if name in ("FusedAdamW", "FusedSGD"):
        from . import fused
        return getattr(fused, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


autoload()  # for PyTorch before 2.5, which knows no entry points: there `import kolo4py.torch` makes the name known
