"""Each rank computes while an all-reduce goes on in the background.

    kolorun -n 2 python3 background.py

It prints:

    all ranks' numbers add up to 3000000"""

import kolo4py as kolo
import numpy as np

with kolo.init(progress=True) as comm:  # a thread of kolo's moves the data
    x = np.full(1_000_000, comm.rank + 1, dtype="f4")
    request = comm.all_reduce(x, async_=True)  # x is kolo's from here on
    weights = np.ones(1_000_000)  # what can be computed meanwhile
    total = request.wait()  # the new array that all_reduce would return
    if comm.rank == 0:
        print(f"all ranks' numbers add up to {total @ weights:.0f}")
