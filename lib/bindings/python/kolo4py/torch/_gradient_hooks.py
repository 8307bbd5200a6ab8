"""Hooks on gradients, for optimizers."""

import weakref
from typing import Any, Callable

import torch


def call_after(parameter: torch.Tensor, method: "Callable[[torch.Tensor], None]") -> Any:
    """Has an object's method called, for as long as the object lives, when a backward pass has added to the parameter's
    gradient. Returns what is to be kept, and whose remove() ends it."""
    kept = weakref.WeakMethod(method)

    def hook(parameter: torch.Tensor) -> None:
        found = kept()
        if found is not None:
            found(parameter)

    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(hook)
    accumulator: Any = parameter.expand_as(parameter).grad_fn  # PyTorch before 2.1
    accumulator = accumulator.next_functions[0][0]
    handle = accumulator.register_hook(lambda *_: hook(parameter))
    handle.accumulator = accumulator  # which would go otherwise
    return handle
