"""kolo's communicators of process groups, whatever their backend."""

import ctypes
import os
import pathlib
import secrets
from typing import Any, Optional, Union

import torch.distributed as dist

import kolo4py as kolo

from .. import _library
from .._handle import Handle
from . import backend as backend_of

Group = dist.ProcessGroup


def machine() -> str:
    """Equal for ranks that can share memory by a name."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/dev/shm').st_dev}/{os.geteuid()}"


def default(group: Optional[Group]) -> Group:
    """The group; None: that of all ranks."""
    group = group or dist.group.WORLD
    if group is None:
        raise kolo.ArgumentError("there is no process group yet: call torch.distributed.init_process_group first")
    return group


def meet(group: Group, progress: Optional[bool] = None) -> kolo.Comm:
    """A new communicator of the group's ranks, which are on one machine. Every rank calls it."""
    told: "list[Any]" = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (machine(), f"torch-{secrets.token_hex(16)}"), group=group)
    if any(machine != told[0][0] for machine, _name in told):
        raise kolo.Unsupported("the group's ranks are on several machines: make a communicator with kolo.init(..., "
                               "rendezvous=\"HOST:PORT\"), and pass that")
    return kolo.init(dist.get_rank(group), len(told), name=told[0][1], rendezvous="", progress=progress)


def own(of: "Union[kolo.Comm, Group, None]") -> kolo.Comm:
    """A new communicator of the ranks of a kolo.Comm or a group, for its caller alone. Every rank calls it. It has a
    progress thread, unless that of a kolo.Comm has none. The ranks of a group over kolo may be on several machines."""
    if isinstance(of, kolo.Comm):
        return of.dup()
    group = default(of)
    try:
        address = backend_of(group).comm
    except (ImportError, TypeError):  # another backend
        return meet(group, True)
    place = ctypes.c_void_p()
    if _library.load().kolo_comm_dup(address, ctypes.addressof(place)):
        raise kolo.Error(_library.message())
    return kolo.Comm(Handle(place.value), True)
