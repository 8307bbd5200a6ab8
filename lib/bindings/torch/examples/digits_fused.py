"""Trains on the handwritten digits twice, step by step in turn: by DistributedDataParallel with torch.optim's optimizer, and
by the fused optimizer of the same name. Prints what a step takes, what the optimizer's state takes, and how far the loss
curves are from each other. Started by kolorun or torchrun:

    kolorun -n 2 python3 lib/bindings/torch/examples/digits_fused.py
    kolorun -n 2 python3 lib/bindings/torch/examples/digits_fused.py --hidden 4096 --batch 16 --steps 20   # 64 MiB of gradients"""

import argparse
import json
import statistics
import time

import digits
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import kolo4py.torch


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw", help="(adamw)")
    parser.add_argument("--shared-parameters", action="store_true", help="one copy of the fused one's for all ranks")
    parser.add_argument("--no-overlap", action="store_true", help="the fused one does everything in step()")
    parser.add_argument("--bucket-mib", type=float, default=4, help="of gradients that travel together (4)")
    parser.add_argument("--steps", type=int, default=50, help="(50)")
    parser.add_argument("--batch", type=int, default=96, help="rows that all ranks together take in a step (96)")
    parser.add_argument("--hidden", type=int, default=1024, help="width of the two hidden layers (1024)")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--json", help="a file for all figures and curves")
    parser.add_argument("--plot", help="a file, .svg or .png, for a plot of curves and times; needs matplotlib")
    return parser.parse_args(words)


class Way:
    """A model that is trained in one way."""

    def __init__(self, name, options):
        torch.manual_seed(options.seed)
        width = options.hidden
        self.name, self.losses, self.times_ms = name, [], []
        self.model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
        settings = {"lr": 1e-3} if options.optimizer == "adamw" else {"lr": 0.05, "momentum": 0.9}
        if name == "ddp":
            self.model = nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True)
            kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.SGD
            self.optimizer = kind(self.model.parameters(), **settings)
        else:
            kind = kolo4py.torch.FusedAdamW if options.optimizer == "adamw" else kolo4py.torch.FusedSGD
            self.optimizer = kind(self.model.parameters(), **settings, overlap=not options.no_overlap,
                                  shared_parameters=options.shared_parameters,
                                  bucket_bytes=int(options.bucket_mib * 2 ** 20))

    def step(self, images, labels):
        began = time.perf_counter()
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.times_ms.append(1e3 * (time.perf_counter() - began))
        self.losses.append(loss.item())

    def state_bytes(self):
        if self.name == "fused":
            return self.optimizer.state_bytes
        return sum(value.numel() * value.element_size() for state in self.optimizer.state.values()
                   for value in state.values() if torch.is_tensor(value) and value.dim())

    def report(self, test_set):
        with torch.no_grad():
            accuracy = (self.model(test_set.images).argmax(1) == test_set.labels).double().mean().item()
        ranks = dist.get_world_size()
        losses = torch.tensor(self.losses, dtype=torch.float64)
        figures = torch.tensor([statistics.median(self.times_ms), self.state_bytes() / 2 ** 20], dtype=torch.float64)
        dist.all_reduce(losses)
        dist.all_reduce(figures)
        step_ms, state_mib = (figures / ranks).tolist()
        return {"way": self.name, "step_ms": step_ms, "state_mib": state_mib, "test_accuracy": accuracy,
                "losses": (losses / ranks).tolist()}


def train(options):
    """The two reports, the same on every rank."""
    train_set, test_set = digits.load()
    ways = [Way(name, options) for name in ("ddp", "fused")]
    order = torch.Generator().manual_seed(options.seed)
    for step in range(options.steps):
        # Every rank draws the same rows, and takes its share of them.
        rows = torch.randint(len(train_set.labels), (options.batch,), generator=order)[dist.get_rank()::dist.get_world_size()]
        for way in ways[::1 if step % 2 else -1]:
            way.step(train_set.images[rows], train_set.labels[rows])
    return [way.report(test_set) for way in ways]


def compare(options, reports):
    ddp, fused = reports
    print(f"{options.optimizer}, {dist.get_world_size()} ranks, {options.steps} steps")
    print("way    step ms  state MiB of a rank  first loss  last loss  test accuracy")
    for each in reports:
        print(f"{each['way']:5}  {each['step_ms']:7.2f}  {each['state_mib']:19.1f}  {each['losses'][0]:10.4f}  "
              f"{each['losses'][-1]:9.4f}  {100 * each['test_accuracy']:11.1f} %")
    gap = max(abs(a - b) for a, b in zip(ddp["losses"], fused["losses"]))
    print(f"losses differ by at most {gap:.1g}; fused is {ddp['step_ms'] / fused['step_ms']:.2f} times as fast, with "
          f"{fused['state_mib'] / max(ddp['state_mib'], 1e-9):.2f} of the state's memory")


def plot(options, reports, path):
    def draw_times(bars):
        for each in reports:
            bars.bar(each["way"], each["step_ms"])
    digits.plot(path, reports, "way", f"{options.optimizer}, {dist.get_world_size()} ranks", draw_times)


def main(words=None):
    options = arguments(words)
    dist.init_process_group("kolo")
    reports = train(options)
    if dist.get_rank() == 0:
        compare(options, reports)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(reports, file, indent=1)
        if options.plot:
            plot(options, reports, options.plot)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
