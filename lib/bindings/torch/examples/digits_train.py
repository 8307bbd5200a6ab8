"""Trains on the handwritten digits with DDP or FSDP2, over one backend of torch.distributed after the other, and compares
them: loss curve, time of a step, and how much of it is communication. Started by kolorun or torchrun:

    kolorun -n 2 python3 lib/bindings/torch/examples/digits_train.py --backend gloo kolo
    torchrun --nproc-per-node 2 lib/bindings/torch/examples/digits_train.py --backend gloo kolo --parallel fsdp"""

import argparse
import json
import statistics
import time

import digits
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", default=["kolo"], choices=("kolo", "gloo"), help="one or more (kolo)")
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp",
                        help="ddp: every rank has the whole model; fsdp: FSDP2, each has a part of it (ddp)")
    parser.add_argument("--steps", type=int, default=100, help="(100)")
    parser.add_argument("--batch", type=int, default=96, help="rows that all ranks together take in a step (96)")
    parser.add_argument("--hidden", type=int, default=1024, help="width of the two hidden layers (1024)")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--json", help="a file for all figures and curves")
    parser.add_argument("--plot", help="a file, .svg or .png, for a plot of the curves and times; needs matplotlib")
    return parser.parse_args(words)


def new_model(options):
    torch.manual_seed(options.seed)
    return nn.Sequential(nn.Linear(64, options.hidden), nn.ReLU(), nn.Linear(options.hidden, options.hidden), nn.ReLU(),
                         nn.Linear(options.hidden, 10))


def parallel_model(options, group):
    model = new_model(options)
    if options.parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model, process_group=group)
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def new_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def step(model, optimizer, images, labels):
    """One step. Its loss, before it, and how long it took in ms."""
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item(), 1e3 * (time.perf_counter() - began)


def train(options, backend):
    """A report of the training over one backend, the same on every rank."""
    group = dist.new_group(backend=backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    train_set, test_set = digits.load()
    model, alone = parallel_model(options, group), new_model(options)
    optimizer, alone_optimizer = new_optimizer(model), new_optimizer(alone)
    order = torch.Generator().manual_seed(options.seed)
    losses, times, alone_times = [], [], []
    for _ in range(options.steps):
        # Every rank draws the same rows, and takes its share of them.
        rows = torch.randint(len(train_set.labels), (options.batch,), generator=order)[rank::ranks]
        images, labels = train_set.images[rows], train_set.labels[rows]
        loss, step_ms = step(model, optimizer, images, labels)
        losses.append(loss)
        times.append(step_ms)
        alone_times.append(step(alone, alone_optimizer, images, labels)[1])  # the same work without other ranks
    with torch.no_grad():
        accuracy = (model(test_set.images).argmax(1) == test_set.labels).double().mean().item()
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total, group=group)
    figures = torch.tensor([statistics.median(times), statistics.median(alone_times)], dtype=torch.float64)
    dist.all_reduce(figures, group=group)
    step_ms, alone_ms = (figures / ranks).tolist()
    return {"backend": backend, "parallel": options.parallel, "ranks": ranks, "step_ms": step_ms, "alone_ms": alone_ms,
            "communication_share": max(0.0, 1 - alone_ms / step_ms), "test_accuracy": accuracy,
            "losses": (total / ranks).tolist()}


def compare(reports):
    """Prints a table, and how far the curves are from each other."""
    first = reports[0]
    print(f"{first['parallel']}, {first['ranks']} ranks, {len(first['losses'])} steps")
    print("backend  step ms  alone ms  communication  first loss  last loss  test accuracy")
    for each in reports:
        print(f"{each['backend']:7}  {each['step_ms']:7.2f}  {each['alone_ms']:8.2f}  "
              f"{100 * each['communication_share']:11.0f} %  {each['losses'][0]:10.4f}  {each['losses'][-1]:9.4f}  "
              f"{100 * each['test_accuracy']:11.1f} %")
    for each in reports[1:]:
        gap = max(abs(a - b) for a, b in zip(each["losses"], first["losses"]))
        print(f"loss of {each['backend']} and {first['backend']} differs by at most {gap:.1g}; "
              f"a step of {each['backend']} takes {each['step_ms'] / first['step_ms']:.2f} of the time")


def plot(reports, path):
    def draw_times(bars):
        names, alone_ms = [each["backend"] for each in reports], [each["alone_ms"] for each in reports]
        bars.bar(names, alone_ms, color="tab:gray", label="the same without other ranks")
        bars.bar(names, [max(0.0, each["step_ms"] - each["alone_ms"]) for each in reports], bottom=alone_ms,
                 color="tab:red", label="what communication adds")
        bars.legend(loc="lower right")
    digits.plot(path, reports, "backend", f"{reports[0]['parallel']}, {reports[0]['ranks']} ranks", draw_times)


def main(words=None):
    options = arguments(words)
    dist.init_process_group(options.backend[0])
    reports = [train(options, backend) for backend in options.backend]
    if dist.get_rank() == 0:
        compare(reports)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(reports, file, indent=1)
        if options.plot:
            plot(reports, options.plot)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
