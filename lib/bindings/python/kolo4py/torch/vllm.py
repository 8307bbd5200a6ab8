"""A vLLM plugin: tensor and pipeline parallelism on CPUs through kolo's operators instead of vLLM's own shared memory.

Once kolo4py is installed, vLLM finds it by itself (the entry point "kolo" of vllm.general_plugins).
VLLM_PLUGINS="" turns it off, as every plugin. KOLO_THREADS is with how many threads each worker moves large messages.
Workers wait as vLLM's own do, by spinning, unless KOLO_WAIT says otherwise: vLLM gives each its processors, and its
other processes poll, so that one that yielded would wait for them.

vLLM's CpuCommunicator does its collectives by five methods of a helper object, where all ranks of a tensor- or
pipeline-parallel group are on one machine. The plugin puts its own class in that one's place. What the groups are, and
the calls that go by torch.distributed, stay as they are."""

import logging
import os
import pickle
from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist

logger = logging.getLogger("vllm.kolo")

Group = Optional[dist.ProcessGroup]


class KoloDistributed:
    """Has the methods of vLLM's _CPUSHMDistributed, for one group of ranks."""

    def __init__(self, communicator: Any) -> None:
        from . import ops
        os.environ.setdefault("KOLO_WAIT", "spin")
        self.comm = ops.communicator(communicator.device_group)
        self.number, self._reduce_in_place = ops.handle(self.comm), ops.reduce_in_place
        logger.info("kolo carries the collectives of %s: rank %d of %d", communicator.unique_name, self.comm.rank,
                    self.comm.size)

    @staticmethod
    def make_group_name(_communicator: Any) -> str:
        """vLLM takes torch.distributed where ranks of a group have different ones."""
        from . import _groups
        return _groups.machine()

    def all_reduce(self, input: torch.Tensor, group: Group = None) -> None:
        self._reduce_in_place(input, self.number)

    def gather(self, input: torch.Tensor, gather_list: Optional[List[torch.Tensor]], dst: int = -1,
               group: Group = None) -> None:
        """dst: a rank of the whole job."""
        root = dist.get_group_rank(group, dst) if group is not None else dst
        whole = input.contiguous()
        if gather_list is None:
            torch.ops.kolo.gather_into(whole.new_empty(0), whole, self.number, root)
            return
        blocks = whole.new_empty((self.comm.size, *whole.shape))
        torch.ops.kolo.gather_into(blocks, whole, self.number, root)
        for place, block in zip(gather_list, blocks):
            place.copy_(block)

    def all_gather_into_tensor(self, output: torch.Tensor, input: torch.Tensor, group: Group = None) -> None:
        torch.ops.kolo.all_gather_into(output, input.contiguous(), self.number)

    def send_tensor_dict(self, tensor_dict: Dict[str, Any], dst: int) -> None:
        """dst: a rank of the group. Blocks until it has taken all."""
        def described() -> bytes:
            for name, tensor in tensor_dict.items():
                if not isinstance(tensor, torch.Tensor):
                    raise TypeError(f"{name} is no tensor, but {type(tensor).__name__}")
            return pickle.dumps([(name, tuple(tensor.shape), tensor.dtype) for name, tensor in tensor_dict.items()])

        self.comm._send_pickle(described, dst, 0)  # which tells the receiver what is wrong
        with self.comm._handle.undivided():
            for tensor in tensor_dict.values():
                if tensor.numel():
                    self.comm.send(tensor.contiguous(), dst)

    def recv_tensor_dict(self, src: int) -> Dict[str, Any]:
        described = self.comm.recv_object(src)
        with self.comm._handle.undivided():
            tensors = {name: torch.empty(shape, dtype=dtype) for name, shape, dtype in described}
            for tensor in tensors.values():
                if tensor.numel():
                    self.comm.recv(tensor, src)
        return tensors


def register() -> None:
    """Called by vLLM in each of its processes."""
    from vllm.platforms import current_platform
    if not current_platform.is_cpu():
        return
    from vllm.distributed.device_communicators import cpu_communicator
    if not hasattr(cpu_communicator, "_CPUSHMDistributed"):
        logger.warning("kolo does not know this version of vLLM: its CpuCommunicator has no _CPUSHMDistributed; "
                       "vLLM goes on with its own collectives")
        return
    cpu_communicator._CPUSHMDistributed = KoloDistributed
