"""Gradient-boosted trees on the handwritten digits with LightGBM, each rank with rows of its own; and one process with all
rows, whose booster is the same. Needs the packages lightgbm and numpy:

    kolorun -n 2 python3 lib/bindings/torch/examples/digits_lightgbm.py"""

import argparse
import pathlib
import time
import warnings

import lightgbm
import lightgbm_network
import numpy

import kolo4py as kolo

DIGITS = pathlib.Path(__file__).resolve().parents[4] / "tools" / "train" / "digits.csv"


def main(words=None):
    parser = argparse.ArgumentParser(description="LightGBM over kolo, on handwritten digits")
    parser.add_argument("--rounds", type=int, default=20, help="(20)")
    options = parser.parse_args(words)
    warnings.filterwarnings("ignore", "Overriding the parameters from Reference")
    # Leaves are limited by weight. LightGBM only estimates their rows, and otherwise so for one process and for several.
    parameters = {"objective": "multiclass", "num_class": 10, "num_leaves": 15, "min_data_in_leaf": 1,
                  "min_sum_hessian_in_leaf": 1, "verbosity": -1, "num_threads": 1}

    rows = numpy.loadtxt(DIGITS, delimiter=",", dtype="f8")
    is_test = numpy.arange(len(rows)) % 5 == 4
    train, test = rows[~is_test], rows[is_test]
    # The whole data set: one process trains with it, and all ranks take its histogram bins.
    whole = lightgbm.Dataset(train[:, :64], train[:, 64], params=parameters).construct()

    with kolo.init() as comm:
        with lightgbm_network.Network(comm) as network:
            own = train[comm.rank::comm.size]
            dataset = lightgbm.Dataset(own[:, :64], own[:, 64], reference=whole, params=network.parameters)
            began = time.perf_counter()
            booster = lightgbm.train({**parameters, **network.parameters}, dataset, options.rounds)
            seconds = time.perf_counter() - began
        found = booster.predict(test[:, :64])
        alone = lightgbm.train(parameters, whole, options.rounds).predict(test[:, :64])
        if comm.rank == 0:
            print(f"{comm.size} ranks, {options.rounds} rounds in {seconds:.2f} s, {comm.stats['calls']} calls of kolo")
            print(f"test accuracy {100 * (found.argmax(1) == test[:, 64]).mean():.2f} %")
            print(f"largest difference from one process: {abs(found - alone).max():.1g}")


if __name__ == "__main__":
    main()
