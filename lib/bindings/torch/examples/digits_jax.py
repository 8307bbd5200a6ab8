"""Trains on the handwritten digits with JAX, each rank with its share of the rows; and one process with all of them, whose
losses are the same. Needs the packages jax and numpy:

    kolorun -n 2 python3 lib/bindings/torch/examples/digits_jax.py"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import jax_collectives
import numpy

import kolo4py as kolo

DIGITS = pathlib.Path(__file__).resolve().parents[4] / "tools" / "train" / "digits.csv"


def logits(parameters, images):
    (weights1, bias1), (weights2, bias2) = parameters
    return jax.nn.relu(images @ weights1 + bias1) @ weights2 + bias2


def loss(parameters, images, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits(parameters, images)), labels[:, None], 1))


def new_parameters():
    random = numpy.random.default_rng(1)
    return [(jnp.asarray(random.standard_normal(shape) / shape[0] ** 0.5, "f4"), jnp.zeros(shape[1], "f4"))
            for shape in ((64, 128), (128, 10))]


def train(images, labels, batches, mean=lambda tree: tree):
    """mean: over the ranks, of a tree."""
    @jax.jit
    def step(parameters, images, labels):
        value, gradients = mean(jax.value_and_grad(loss)(parameters, images, labels))
        return value, jax.tree.map(lambda weight, gradient: weight - 0.5 * gradient, parameters, gradients)

    parameters, losses = new_parameters(), []
    for rows in batches:
        value, parameters = step(parameters, images[rows], labels[rows])
        losses.append(float(value))
    return parameters, losses


def main(words=None):
    parser = argparse.ArgumentParser(description="JAX over kolo, on handwritten digits")
    parser.add_argument("--steps", type=int, default=100, help="(100)")
    options = parser.parse_args(words)
    rows = numpy.loadtxt(DIGITS, delimiter=",", dtype="i4")
    images, labels = (rows[:, :64] / 16).astype("f4"), rows[:, 64]
    is_test = numpy.arange(len(rows)) % 5 == 4
    with kolo.init() as comm:
        random = numpy.random.default_rng(2)
        batches = random.choice(numpy.flatnonzero(~is_test), (options.steps, 24 * comm.size))
        collectives = jax_collectives.Collectives(comm)
        parameters, losses = train(images, labels, batches[:, comm.rank::comm.size], collectives.pmean)
        accuracy = (logits(parameters, images[is_test]).argmax(1) == labels[is_test]).mean()
        copies = collectives.all_gather(parameters[0][0])
        _, alone = train(images, labels, batches)
        if comm.rank == 0:
            print(f"{comm.size} ranks: loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {options.steps} steps")
            print(f"test accuracy {100 * accuracy:.2f} %")
            print(f"largest difference from one process: {max(abs(a - b) for a, b in zip(losses, alone)):.1g}")
            print(f"parameters of all ranks are {'the same' if (copies == copies[0]).all() else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
