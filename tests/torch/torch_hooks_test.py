"""As ranks: DDP over backend "kolo" with communication hooks, kolo's and PyTorch's PowerSGD. 77: PyTorch, or the
backend for it, is not there."""

import sys
import unittest

import torch_ranks
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from kolo4py.torch import hooks


def rows_of(rank):
    return torch.randn(8, 40, generator=torch.Generator().manual_seed(rank))


def new_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))


class Hooks(unittest.TestCase):
    def trained(self, state, hook, steps):
        """A model and its losses, and the gradients of the first step."""
        model = DistributedDataParallel(new_model(), bucket_cap_mb=0.01)
        model.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        losses, gradients = [], []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(rows_of(dist.get_rank())).square().mean()
            loss.backward()
            losses.append(loss.item())
            gradients = gradients or [parameter.grad.clone() for parameter in model.parameters()]
            optimizer.step()
        for parameter in model.parameters():
            both = [torch.empty_like(parameter) for _ in range(dist.get_world_size())]
            dist.all_gather(both, parameter.detach())
            self.assertTrue(all(torch.equal(both[0], each) for each in both), "the ranks' parameters differ")
        return losses, gradients

    def exact(self):
        """Each rank's gradients of the first step."""
        gradients = []
        for rank in range(dist.get_world_size()):
            model = new_model()
            model(rows_of(rank)).square().mean().backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
        return zip(*gradients)

    def test_narrow_floats(self):
        for hook, dtype, precision in ((hooks.bf16_compress, torch.bfloat16, 2 ** -8), (hooks.fp16_compress, torch.float16, 2 ** -11)):
            for group in (None, dist.group.WORLD):
                _, gradients = self.trained(group, hook, 2)
                for found, each in zip(gradients, self.exact()):
                    narrow = [gradient.to(dtype).float() for gradient in each]
                    expected = (sum(narrow) / len(narrow)).to(dtype).float()
                    # Once rounded: where two sums differ in their last bit, the results are neighbours at most.
                    torch.testing.assert_close(found, expected, rtol=2 * precision, atol=1e-7)
                    self.assertTrue(torch.equal(found, found.to(dtype).float()), f"{dtype} did not travel")

    def test_power_sgd(self):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=3, min_compression_rate=0.5)
        losses, _ = self.trained(state, hooks.in_order(powerSGD_hook.powerSGD_hook), 12)
        self.assertGreater(state.compression_stats()[0], 1)  # something was compressed
        self.assertLess(losses[-1], 0.9 * losses[0])


def main():
    dist.init_process_group("kolo")
    done = unittest.main(exit=False, failfast=True, verbosity=2 if dist.get_rank() == 0 else 0).result
    dist.destroy_process_group()
    sys.exit(not done.wasSuccessful())


if __name__ == "__main__":
    torch_ranks.run_tests(main, 2)
