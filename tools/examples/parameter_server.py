"""Workers learn the weights of a large table, of which each step touches a few.

    kolorun -n 2 python3 parameter_server.py

It prints:

    worst error of 1000 weights: 0.00"""

import kolo4py as kolo
import numpy as np

with kolo.init() as comm, kolo.Table(comm, rows=1000, columns=1, rule="sgd",
                                     lr=0.2, staleness=2) as table:
    true_weights = np.arange(1000) * 7 % 11 - 5.0
    random = np.random.default_rng(comm.rank)
    for clock in range(3000):
        ids = random.integers(0, 1000, (50, 3))
        weights = table.pull_rows(ids)[..., 0]  # 50 samples of 3 weights
        errors = (weights - true_weights[ids]).sum(axis=1)
        table.push_rows(ids, np.repeat(errors, 3).astype("f4"))
        table.clock()
    if comm.rank == 0:
        worst = np.abs(table.pull().ravel() - true_weights).max()
        print(f"worst error of 1000 weights: {worst:.2f}")
