"""torchft over kolo: training goes on when replicas die, and takes those in that come.

    from kolo4py.torch.torchft import ProcessGroupKolo
    manager = torchft.Manager(pg=ProcessGroupKolo(), ...)     # was: torchft.ProcessGroupGloo()

Each quorum gets a new communicator. The one before is aborted, which ends the calls that wait in it on every rank. When
a replica dies, the others' calls fail within a tenth of a second, with its number and cause: torchft drops the step and
goes on in the next quorum. Needs the package torchft, 0.2 or later."""

from typing import Any

import torch
import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from . import load


class ProcessGroupKolo(ProcessGroupWrapper):
    """As torchft.ProcessGroupGloo, with all of kolo's operations. timeout: how long a call waits for other replicas."""

    def _create_pg(self, store: Any, rank: int, world_size: int) -> dist.ProcessGroup:
        group = dist.ProcessGroup(store, rank, world_size)
        kind = dist.ProcessGroup.BackendType.CUSTOM
        group._register_backend(torch.device("cpu"), kind, load().Backend(store, rank, world_size, self._timeout))
        group._set_default_backend(kind)
        return group

    def getBackendName(self) -> str:
        return "torchft-kolo"
