"""kolo4py.hvd: what most Horovod scripts for PyTorch call, over kolo. Such a script runs after its import is changed:

    import kolo4py.hvd as hvd  # was: import horovod.torch as hvd

and is started by kolorun, mpirun, srun or torchrun. It needs no process group of torch.distributed. Tensors are on the
CPU. What differs from Horovod: calls match by their order, which has to be the same on every rank, and not by `name`;
Adasum, process sets, elastic jobs and join() are missing; a failure is a kolo.Error, such as kolo.PeerDead."""

from ..torch.compression import Compression
from ._data_parallel import DistributedOptimizer, broadcast_optimizer_state, broadcast_parameters
from ._job import (cross_rank, cross_size, init, is_initialized, local_rank, local_size, mpi_threads_supported,
                   nccl_built, rank, shutdown, size)
from ._tensors import (Adasum, Average, Handle, Max, Min, Product, Sum, allgather, allgather_async, allgather_object,
                       allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall, barrier, broadcast,
                       broadcast_, broadcast_async, broadcast_async_, broadcast_object, grouped_allreduce,
                       grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_, poll, reducescatter,
                       reducescatter_async, sparse_allreduce_async, synchronize)

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "Handle", "Max", "Min", "Product", "Sum",
           "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async",
           "allreduce_async_", "alltoall", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
           "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "cross_rank", "cross_size",
           "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "init",
           "is_initialized", "local_rank", "local_size", "mpi_threads_supported", "nccl_built", "poll", "rank",
           "reducescatter", "reducescatter_async", "shutdown", "size", "sparse_allreduce_async", "synchronize"]
