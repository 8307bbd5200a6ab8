"""As ranks: PyTorch's tensors, which come and go by DLPack. 77: PyTorch is not installed."""

import importlib.util
import sys

import kolo4py as kolo
import python_ranks

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed")
    sys.exit(77)
import torch


class Tensors(python_ranks.RankTest):
    def test_new_results_are_tensors(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64):
            x = torch.full((2, 3), self.comm.rank + 1, dtype=dtype)
            total = self.comm.all_reduce(x)
            self.assertEqual((torch.Tensor, dtype, (2, 3)), (type(total), total.dtype, tuple(total.shape)))
            self.assertTrue((total == sum(range(1, self.comm.size + 1))).all(), dtype)
            self.assertEqual((self.comm.size, 2, 3), tuple(self.comm.all_gather(x).shape))

    def test_in_place_and_plan(self):
        x = torch.ones(5)
        self.assertIs(x, self.comm.all_reduce(x, x))
        plan = self.comm.plan(x, x)
        plan()
        self.assertTrue((x == self.comm.size ** 2).all())

    def test_shared_memory_without_copies(self):
        shared = self.comm.empty(1 << 18, "bfloat16")
        x = torch.from_dlpack(shared)
        x.fill_(1)
        before = self.comm.stats["calls_by_algorithm"]["direct"]
        self.comm.all_reduce(x, x)
        self.assertTrue((x == self.comm.size).all())
        after = self.comm.stats["calls_by_algorithm"]["direct"]
        self.assertEqual(before + (self.comm.size > 1), after)

    def test_refusals(self):
        with self.assertRaisesRegex(kolo.ArgumentError, r"x is not contiguous: pass x\.contiguous\(\)"):
            self.comm.all_reduce(torch.ones(4, 3).t())
        with self.assertRaisesRegex(kolo.ArgumentError, r"x has the negative bit: pass x\.resolve_neg\(\)"):
            self.comm.all_reduce(torch._neg_view(torch.ones(3)))
        with self.assertRaisesRegex(kolo.ArgumentError, r"x cannot be lent by DLPack: .*detach"):
            self.comm.all_reduce(torch.ones(4, requires_grad=True))
        self.assertTrue(self.comm.all_reduce(torch.tensor([True]), op="max").item())
        with self.assertRaisesRegex(kolo.ArgumentError, "op 'sum' cannot be done with bool"):
            self.comm.all_reduce(torch.tensor([True]))


if __name__ == "__main__":
    python_ranks.main()
