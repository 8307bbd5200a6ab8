"""Ray Train over kolo, on the handwritten digits: Ray starts the workers, on one machine or on the many of its cluster,
where each needs kolo and KOLO_SECRET_FILE. Needs the package ray[train]:

    python3 lib/bindings/torch/examples/digits_ray.py --workers 2"""

import argparse
import tempfile

import digits
import ray
import ray.train
import ray.train.torch
import torch
import torch.nn.functional as F
from torch import nn
from used_backend import used_backend


def work(config):
    """What each worker does, in a process of its own."""
    (images, labels), (test_images, test_labels) = config["data"]
    torch.manual_seed(1)
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rank, ranks = ray.train.get_context().get_world_rank(), ray.train.get_context().get_world_size()
    order = torch.Generator().manual_seed(1)
    for _ in range(config["steps"]):
        rows = torch.randint(len(labels), (96,), generator=order)[rank::ranks]
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).double().mean().item()
    if rank == 0:  # Ray shows it where it was started
        print(f"{ranks} workers over {used_backend()}: test accuracy {100 * accuracy:.2f} %")


def main(words=None):
    parser = argparse.ArgumentParser(description="Ray Train over kolo, on handwritten digits")
    parser.add_argument("--workers", type=int, default=2, help="(2)")
    parser.add_argument("--steps", type=int, default=100, help="(100)")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="kolo-ray-") as folder:
        trainer = ray.train.torch.TorchTrainer(
            work, train_loop_config={"steps": options.steps, "data": [tuple(each) for each in digits.load()]},
            torch_config=ray.train.torch.TorchConfig(backend="kolo"),
            scaling_config=ray.train.ScalingConfig(num_workers=options.workers),
            run_config=ray.train.RunConfig(storage_path=folder))
        trainer.fit()


if __name__ == "__main__":
    main()
