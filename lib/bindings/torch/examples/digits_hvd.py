"""A training script for Horovod, of which only the import was changed:

    kolorun -n 2 python3 lib/bindings/torch/examples/digits_hvd.py"""

import argparse

import digits
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import kolo4py.hvd as hvd  # was: import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x.view(-1, 1, 8, 8)))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def train(args, model, optimizer, loader, epoch):
    model.train()
    loader.sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1} of {args.epochs}: loss {loss.item():.4f}")


def test(model, loader):
    model.eval()
    right, rows = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum().item()
            rows += len(labels)
    accuracy = metric_average(right / rows, "accuracy")
    if hvd.rank() == 0:
        print(f"test accuracy {100 * accuracy:.2f} %")
    return accuracy


def main(words=None):
    parser = argparse.ArgumentParser(description="Horovod's way of training, on handwritten digits")
    parser.add_argument("--batch-size", type=int, default=32, help="rows for each rank (32)")
    parser.add_argument("--epochs", type=int, default=5, help="(5)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate of one rank (0.02)")
    parser.add_argument("--momentum", type=float, default=0.9, help="(0.9)")
    parser.add_argument("--seed", type=int, default=42, help="(42)")
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as fp16")
    args = parser.parse_args(words)

    hvd.init()
    torch.manual_seed(args.seed)
    train_set, test_set = (TensorDataset(*each) for each in digits.load())
    samplers = [DistributedSampler(each, num_replicas=hvd.size(), rank=hvd.rank()) for each in (train_set, test_set)]
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=samplers[0])
    test_loader = DataLoader(test_set, batch_size=200, sampler=samplers[1])

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), op=hvd.Average,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none)

    for epoch in range(args.epochs):
        train(args, model, optimizer, train_loader, epoch)
    return model, test(model, test_loader)


if __name__ == "__main__":
    main()
