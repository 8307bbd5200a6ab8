"""The handwritten digits that the examples learn from: those of kolo-train, of which one row in five is for testing."""

import pathlib
from typing import NamedTuple

import torch

PATH = pathlib.Path(__file__).resolve().parents[4] / "tools" / "train" / "digits.csv"


class Digits(NamedTuple):
    """Images of 64 grey values from 0 to 1, and the digits 0 to 9 that they show."""
    images: torch.Tensor
    labels: torch.Tensor


def load(path: "str | pathlib.Path" = PATH) -> "tuple[Digits, Digits]":
    """What to train with, and what to test with."""
    with open(path, encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in line.split(",")] for line in file])
    images, labels = rows[:, :64] / 16, rows[:, 64]
    is_test = torch.arange(len(rows)) % 5 == 4
    return Digits(images[~is_test], labels[~is_test]), Digits(images[is_test], labels[is_test])


def plot(path, reports, name, title, draw_times):
    """Draws the loss curves, each with the report's `name`, beside what draw_times(axes) draws of a step's times."""
    try:
        import matplotlib
    except ImportError:
        print(f"matplotlib is not installed: no {path}")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (curves, times) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for each, style in zip(reports, ("-", "--")):
        curves.plot(each["losses"], style, label=each[name])
    draw_times(times)
    curves.set(xlabel="step", ylabel="loss", title=title)
    curves.legend()
    times.set(ylabel="ms", title="time of a step")
    figure.savefig(path)
