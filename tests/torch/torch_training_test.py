"""DistributedDataParallel and FSDP2 over kolo: curves as over Gloo; all of FSDP2's collectives are done
directly in memory of kolo_alloc; several threads a rank; thousands of calls and hundreds of groups leave nothing behind."""

import gc
import os
import pathlib
import resource
import unittest

import torch_ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def make_model(width=256):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 64))


def losses_of(model, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(STEPS):
        x = torch.randn(16, 64, generator=generator)
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(backend):
    dist.init_process_group(backend)
    print("losses", *losses_of(DistributedDataParallel(make_model(), bucket_cap_mb=0.05)))


def lanes():
    """What is large enough for several threads of each rank, in DDP's buckets and in a fused optimizer's."""
    dist.init_process_group("kolo")
    print("losses", *losses_of(DistributedDataParallel(make_model(8192), bucket_cap_mb=2)))
    fused = make_model(8192)
    if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        import kolo4py.torch
        print(*losses_of(fused, kolo4py.torch.FusedSGD(fused.parameters(), lr=0.1)))
    threads = [pathlib.Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
    assert ("kolo-lane-1\n" in threads) == (os.environ["KOLO_THREADS"] == "2"), threads


def fsdp(backend):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group(backend)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = make_model()
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    if backend == "kolo":
        import kolo4py.torch
        group = mesh.get_group()
        for module in model.modules():
            if hasattr(module, "set_allocate_memory_from_process_group_for_comm"):
                module.set_allocate_memory_from_process_group_for_comm(True)
        before = kolo4py.torch.stats(group)
    print("losses", *losses_of(model))
    if backend == "kolo":
        after = kolo4py.torch.stats(group)
        moved = {key: after["calls_by_collective"][key] - before["calls_by_collective"][key]
                 for key in ("allgather", "reduce_scatter")}
        direct = after["calls_by_algorithm"]["direct"] - before["calls_by_algorithm"]["direct"]
        assert min(moved.values()) >= 2 * STEPS, moved
        assert direct == sum(moved.values()), (direct, moved)
        assert after["buffers"] < 30, after["buffers"]


def level():
    """Memory, descriptors and threads after 2,000 and after 10,000 calls of changing sizes, and 200 groups."""
    dist.init_process_group("kolo")
    rank = dist.get_rank()

    def calls(count):
        for i in range(count):
            x = torch.ones(1 + i * 37 % 3000)
            if i % 4 == 0:
                dist.all_reduce(x)
            elif i % 4 == 1:
                dist.all_gather([torch.empty_like(x) for _ in range(2)], x)
            elif i % 4 == 2:
                dist.all_reduce(x, async_op=True).wait()
            else:
                dist.broadcast(x, 0, async_op=True).get_future().wait()

    def groups(count):
        for i in range(count):
            group = dist.new_group([0, 1])
            dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future().wait()
            dist.irecv(torch.ones(1), 1 - rank, group).get_future()
            dist.destroy_process_group(group)

    def used():
        gc.collect()
        dist.barrier()
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * resource.getpagesize()
        return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    calls(2000)
    groups(20)
    before = used()
    calls(8000)
    groups(180)
    after = used()
    assert after[0] < before[0] + (8 << 20) and after[1] <= before[1] and after[2] <= before[2], (rank, before, after)


class Training(torch_ranks.JobTest):
    def compare(self, train):
        told = {backend: [output.split("losses ")[1].split() for output in self.run_ranks(train, 2, backend)]
                for backend in ("gloo", "kolo")}
        for kolo, gloo in zip(told["kolo"], told["gloo"]):
            self.assertEqual(STEPS, len(kolo))
            for a, b in zip(map(float, kolo), map(float, gloo)):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def test_ddp(self):
        self.compare(ddp)

    @unittest.skipUnless(hasattr(dist, "device_mesh"), "this PyTorch has no FSDP2")
    def test_fsdp2(self):
        self.compare(fsdp)

    def test_lanes(self):
        """The same bits with one thread a rank and with two."""
        self.assertEqual(*(self.run_ranks(lanes, 2, KOLO_THREADS=threads) for threads in "12"))

    def test_level(self):
        self.run_ranks(level, 2)


if __name__ == "__main__":
    unittest.main()
