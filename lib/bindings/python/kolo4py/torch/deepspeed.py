"""DeepSpeed's all-reduce for inference on CPUs, by kolo: torch.ops.deepspeed.inference_all_reduce, with DeepSpeed's
signatures, which deepspeed.comm.inference_all_reduce calls.

    import kolo4py.torch.deepspeed
    kolo4py.torch.deepspeed.install()     # in every rank, before or after deepspeed.init_distributed()

As DeepSpeed's own, it sums over all ranks. Their communicator is made with the first call."""

import torch

from . import ops


def inference_all_reduce(self: torch.Tensor) -> torch.Tensor:
    reduced: torch.Tensor = torch.ops.kolo.all_reduce(self.contiguous(), ops.of_world())
    return reduced


def inference_all_reduce_(self: torch.Tensor) -> torch.Tensor:
    """In place; returns it."""
    return ops.reduce_in_place(self, ops.of_world())


def install() -> None:
    """Puts these in the place of DeepSpeed's, whether or not those are there."""
    for function in (inference_all_reduce, inference_all_reduce_):
        setattr(torch.ops.deepspeed, function.__name__, function)
