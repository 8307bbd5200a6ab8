"""SGLang's shared-memory collectives for CPUs, by kolo: torch.ops.sgl_kernel.initialize, shm_allreduce and
shm_allgather, with SGLang's signatures.

Once kolo4py is installed, SGLang finds it by itself (the entry point "kolo" of sglang.srt.plugins;
SGLANG_PLUGINS="" turns it off). Elsewhere: import kolo4py.torch.sglang, and call its install() in every worker before the
model is loaded.

Their group is that of all ranks. Its communicator is made with the first call. All dtypes and operations of
kolo4py.torch.ops work; SGLang itself asks for bfloat16, float16 and float32, and sums."""

from typing import Optional

import torch
import torch.distributed as dist

from . import ops

_OPS = (ops.SUM, ops.AVG, ops.PROD, ops.MIN, ops.MAX, ops.BAND, ops.BOR, ops.BXOR)  # by torch.distributed.ReduceOp

_size: Optional[int] = None


def initialize(size: int, rank: int) -> None:
    """SGLang calls this before there is a process group: size is checked when there is one."""
    global _size
    _size = size


@torch.compiler.assume_constant_result
def _number() -> int:
    number: int = ops.of_world()
    if _size is not None and _size != dist.get_world_size():
        raise RuntimeError(f"kolo4py.torch.sglang: initialize was called for {_size} ranks, but there are "
                           f"{dist.get_world_size()}; kolo takes SGLang's place only where all ranks are one group")
    return number


def shm_allreduce(data: torch.Tensor, reduce_op: int) -> None:
    """In place. reduce_op: of torch.distributed.ReduceOp, as a number."""
    torch.ops.kolo.all_reduce_(data, _number(), _OPS[int(reduce_op)])


def shm_allgather(data: torch.Tensor, dim: int) -> torch.Tensor:
    """The ranks' tensors, one behind the other along that dimension."""
    gathered: torch.Tensor = torch.ops.kolo.all_gather(data.contiguous(), _number())
    dim %= data.dim()
    if dim == 0:
        return gathered
    return torch.cat(gathered.chunk(dist.get_world_size()), dim)


def install() -> None:
    """Puts these in the place of SGLang's, whether or not those are there."""
    for function in (initialize, shm_allreduce, shm_allgather):
        setattr(torch.ops.sgl_kernel, function.__name__, function)
