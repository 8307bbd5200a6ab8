"""Collectives between processes in JAX programs, over kolo: psum, pmean and all_gather of what each process has, also under
jit and grad. JAX calls them by an ordered io_callback, so that every rank makes the same calls in the same order."""

import functools

import jax
import kolo4py as kolo
import numpy
from jax.experimental import io_callback


class Collectives:
    """Over one communicator. The arguments are arrays, or trees of arrays such as all gradients of a model: these are
    reduced in one call of JAX's."""

    def __init__(self, comm: kolo.Comm) -> None:
        self._comm = comm
        self.psum = self._reduction("sum")
        self.pmean = self._reduction("avg")

    def _reduction(self, op):
        """The gradient of a sum over the ranks is the sum of their gradients, and that of a mean their mean."""
        def reduced(leaves):
            requests = [self._comm.all_reduce(numpy.asarray(leaf, order="C"), op=op, async_=True) for leaf in leaves]
            return kolo.wait_all(requests)

        @jax.custom_vjp
        def reduction(tree):
            leaves, shape = jax.tree.flatten(tree)
            results = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
            return jax.tree.unflatten(shape, io_callback(reduced, results, leaves, ordered=True))

        reduction.defvjp(lambda tree: (reduction(tree), None), lambda _, gradient: (reduction(gradient),))
        return reduction

    @functools.partial(jax.jit, static_argnums=0)
    def all_gather(self, x):
        """x of every rank: of shape (size, *x.shape). It has no gradient."""
        result = jax.ShapeDtypeStruct((self._comm.size, *x.shape), x.dtype)
        return io_callback(lambda own: self._comm.all_gather(numpy.asarray(own, order="C")), result, x, ordered=True)
