"""As ranks: what takes the place of other programs' shared-memory collectives. vLLM, SGLang and DeepSpeed themselves are
not needed. 77: PyTorch is not installed."""

import os
import sys
import tempfile
import types
import unittest

import torch_ranks
import torch
import torch.distributed as dist

import kolo4py as kolo
import kolo4py.torch.deepspeed
import kolo4py.torch.ops as ops
import kolo4py.torch.sglang
import kolo4py.torch.vllm

rank, size = 0, 2


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="aot_eager")


class Groups(unittest.TestCase):
    def test_a_group_has_one_communicator_of_its_own(self):
        comm = ops.communicator()
        self.assertEqual((rank, size), (comm.rank, comm.size))
        self.assertIs(comm, ops.communicator(dist.group.WORLD))
        self.assertEqual(ops.handle(), ops.handle(comm))
        self.assertEqual(ops.handle(), ops.of_world())
        mine = [dist.new_group([r]) for r in range(size)][rank]
        self.assertEqual((0, 1), (ops.communicator(mine).rank, ops.communicator(mine).size))
        self.assertNotEqual(ops.handle(), ops.handle(mine))
        with open("/proc/self/maps", encoding="ascii") as maps:  # what this process has, not what other jobs have left
            self.assertFalse([line for line in maps if "/dev/shm/" in line and "(deleted)" not in line])

    def test_of_kolos_own_backend(self):
        group = dist.new_group(backend="kolo")
        x = torch.full((3,), rank + 1)
        torch.ops.kolo.all_reduce_(x, ops.handle(group))
        dist.all_reduce(x, group=group)
        self.assertEqual(3 * [size * size * (size + 1) // 2], x.tolist())


class VLLM(unittest.TestCase):
    """The five methods, against torch.distributed."""

    @classmethod
    def setUpClass(cls):
        cls.group = dist.group.WORLD
        cls.kolo = kolo4py.torch.vllm.KoloDistributed(types.SimpleNamespace(device_group=cls.group, unique_name="tp:0"))

    def test_all_reduce(self):
        for x in (torch.arange(12, dtype=torch.bfloat16).reshape(3, 4) + rank, (torch.ones(3, 4) * rank).t()):
            expected = x.clone()
            dist.all_reduce(expected)
            self.kolo.all_reduce(x, group=self.group)
            self.assertTrue(torch.equal(expected, x))

    def test_gathers(self):
        x = torch.arange(6).reshape(2, 3) + 10 * rank
        lists = [[torch.empty_like(x) for _ in range(size)] for _ in range(2)] if rank == 1 else [None, None]
        dist.gather(x, lists[0], dst=1)
        self.kolo.gather(x, lists[1], dst=1, group=self.group)
        if rank == 1:
            self.assertEqual(torch.stack(lists[0]).tolist(), torch.stack(lists[1]).tolist())
        outs = [torch.empty(2 * size, 3, dtype=x.dtype) for _ in range(2)]
        dist.all_gather_into_tensor(outs[0], x)
        self.kolo.all_gather_into_tensor(outs[1], x, group=self.group)
        self.assertTrue(torch.equal(*outs))

    def test_dictionaries(self):
        tensors = {"hidden": torch.randn(5, 7, generator=torch.manual_seed(3)).to(torch.bfloat16),
                   "residual": torch.arange(12).reshape(3, 4).t(), "none": torch.empty(0, 4)}
        if rank < 2:
            with self.assertRaisesRegex(kolo.RankFailed, "rank 0 .*: count is no tensor, but int"):
                self.kolo.send_tensor_dict({"count": 3}, 1) if rank == 0 else self.kolo.recv_tensor_dict(0)
        if rank == 0:
            self.kolo.send_tensor_dict(tensors, 1)
        elif rank == 1:
            found = self.kolo.recv_tensor_dict(0)
            self.assertEqual(list(tensors), list(found))
            for name, tensor in tensors.items():
                self.assertEqual((tensor.dtype, tensor.tolist()), (found[name].dtype, found[name].tolist()))


class SGLang(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kolo4py.torch.sglang.install()
        torch.ops.sgl_kernel.initialize(size, rank)

    def test_shm_allreduce(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            x = torch.full((4, 8), rank + 1, dtype=dtype)
            self.assertIsNone(torch.ops.sgl_kernel.shm_allreduce(x, int(dist.ReduceOp.SUM)))
            self.assertTrue((x == size * (size + 1) // 2).all())
        x = torch.tensor([rank, -rank])
        torch.ops.sgl_kernel.shm_allreduce(x, dist.ReduceOp.MAX)
        self.assertEqual([size - 1, 0], x.tolist())

    def test_shm_allgather(self):
        every = [torch.arange(12.0).reshape(2, 2, 3) + 100 * r for r in range(size)]
        for dim in (0, 1, 2, -1):
            found = torch.ops.sgl_kernel.shm_allgather(every[rank], dim)
            self.assertTrue(torch.equal(torch.cat(every, dim), found))

    def test_in_compiled_code(self):
        def layer(x):
            y = x + 1
            torch.ops.sgl_kernel.shm_allreduce(y, 0)
            return torch.ops.sgl_kernel.shm_allgather(y, -1)
        self.assertTrue((compiled(layer)(torch.zeros(2, 3)) == torch.full((2, 3 * size), size)).all())

    def test_ranks_that_are_not_all(self):
        torch.ops.sgl_kernel.initialize(size + 1, rank)
        with self.assertRaisesRegex(RuntimeError, f"initialize was called for {size + 1} ranks, but there are {size}"):
            torch.ops.sgl_kernel.shm_allreduce(torch.ones(1), 0)
        torch.ops.sgl_kernel.initialize(size, rank)


class DeepSpeed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kolo4py.torch.deepspeed.install()

    def test_inference_all_reduce(self):
        self.assertTrue(hasattr(torch.ops.deepspeed, "inference_all_reduce_"))  # how DeepSpeed asks for it
        x = torch.full((3, 5), rank + 1, dtype=torch.bfloat16)
        self.assertTrue((torch.ops.deepspeed.inference_all_reduce(x) == size * (size + 1) // 2).all())
        self.assertTrue((x == rank + 1).all())
        for tensor in (x, torch.full((3, 5), rank + 1).t()):
            self.assertIs(tensor, torch.ops.deepspeed.inference_all_reduce_(tensor))
            self.assertTrue((tensor == size * (size + 1) // 2).all())

    def test_in_compiled_code(self):
        def layer(x):
            return torch.ops.deepspeed.inference_all_reduce_(x * 2)
        self.assertTrue((compiled(layer)(torch.ones(4)) == 2 * size).all())


def main():
    global rank
    rank = int(os.environ["KOLO_RANK"])
    store = os.path.join(tempfile.gettempdir(), f"kolo-{os.environ['KOLO_JOB']}")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    try:
        result = unittest.main(exit=False, failfast=True).result
        if not result.wasSuccessful() and ops.communicator().failure is None:
            ops.communicator().abort(1)
    finally:
        dist.destroy_process_group()
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    torch_ranks.run_tests(main, size)
