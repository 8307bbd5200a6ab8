"""Communication hooks for DistributedDataParallel: gradients travel as smaller floats, in half the bytes.

    model = torch.nn.parallel.DistributedDataParallel(model)
    model.register_comm_hook(None, kolo4py.torch.hooks.bf16_compress)

kolo adds them up in float32 and rounds the mean once, where PyTorch's hooks divide first and round after each addition;
and DistributedDataParallel refuses its bf16 hook on CPUs. For PyTorch's PowerSGD there is in_order."""

import functools
from typing import Any, Callable, Optional, Type

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from .compression import Compression, Compressor


def _compress(kind: Type[Compressor], group: Optional[dist.ProcessGroup], bucket: GradBucket) \
        -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer()
    narrow, _dtype = kind.compress(buffer)
    work = dist.all_reduce(narrow, dist.ReduceOp.AVG, group=group or dist.group.WORLD, async_op=True)
    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: buffer.copy_(done.value()[0]))
    return averaged


def bf16_compress(group: Optional[dist.ProcessGroup], bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients travel as bfloat16: the range of float32, 8 bits of precision. group, the state of register_comm_hook: a
    process group over kolo; None: that of all ranks."""
    return _compress(Compression.bf16, group, bucket)


def fp16_compress(group: Optional[dist.ProcessGroup], bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients travel as float16: 11 bits of precision, numbers up to 65504. group: as for bf16_compress."""
    return _compress(Compression.fp16, group, bucket)


def in_order(hook: "Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]") -> Any:
    """The hook, for one bucket after the other. PyTorch's powerSGD_hook starts a second collective when its first one is
    complete: with several buckets at a time that is after another call on each rank, and the ranks' calls do not match.

        model.register_comm_hook(PowerSGDState(None), kolo4py.torch.hooks.in_order(powerSGD_hook))"""
    @functools.wraps(hook)
    def ordered(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = hook(state, bucket)
        future.wait()
        return future

    return ordered
