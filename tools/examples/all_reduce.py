"""Each rank gets the average of all ranks' numbers.

    kolorun -n 2 python3 all_reduce.py

Each rank prints a line, in any order:

    rank 0 of 2: [1.  2.  0.5]
    rank 1 of 2: [1.  2.  0.5]"""

import kolo4py as kolo
import numpy as np

with kolo.init() as comm:  # the launcher tells rank and size
    x = np.array([1, 2, comm.rank], dtype="f4")
    comm.all_reduce(x, x, op="avg")
    print(f"rank {comm.rank} of {comm.size}: {x}\n", end="")  # in one piece
