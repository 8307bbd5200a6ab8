"""Hugging Face Accelerate over kolo, on the handwritten digits. It knows no backend for CPUs but "gloo" and "mpi";
KOLO_TORCH_GLOO=1 makes "gloo" kolo. Needs the package accelerate:

    KOLO_TORCH_GLOO=1 torchrun --nproc-per-node 2 lib/bindings/torch/examples/digits_accelerate.py"""

import argparse

import accelerate
import digits
import torch
import torch.nn.functional as F
from torch import nn
from used_backend import used_backend


def main(words=None):
    parser = argparse.ArgumentParser(description="Accelerate over kolo, on handwritten digits")
    parser.add_argument("--epochs", type=int, default=5, help="(5)")
    options = parser.parse_args(words)
    accelerator = accelerate.Accelerator(cpu=True)
    accelerate.utils.set_seed(1)
    train_set, test_set = (torch.utils.data.TensorDataset(*each) for each in digits.load())
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model, optimizer, train_loader, test_loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        torch.utils.data.DataLoader(train_set, batch_size=32, shuffle=True),
        torch.utils.data.DataLoader(test_set, batch_size=100))
    for _ in range(options.epochs):
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
    right = []
    with torch.no_grad():
        for images, labels in test_loader:
            right.append(accelerator.gather_for_metrics(model(images).argmax(1) == labels))
    mean_loss = accelerator.reduce(loss.detach(), "mean").item()
    accelerator.print(f"{accelerator.num_processes} ranks over {used_backend()}: loss {mean_loss:.4f}, test accuracy "
                      f"{100 * torch.cat(right).double().mean():.2f} %")
    accelerator.end_training()


if __name__ == "__main__":
    main()
