"""How tensors travel: as they are, or as smaller floats, which kolo adds up in float32 and rounds once. The hooks for
DistributedDataParallel and kolo4py.hvd take these; a program's own way is a subclass of Compressor."""

from typing import Any, Optional, Tuple, Type

import torch


class Compressor:
    """As they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> "Tuple[torch.Tensor, Any]":
        """What travels for the tensor, of the same shape; and what decompress needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """The tensor again, of what has travelled."""
        return tensor


class _Narrow(Compressor):
    """Floats become narrower ones."""
    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> "Tuple[torch.Tensor, Optional[torch.dtype]]":
        if not tensor.is_floating_point() or tensor.element_size() <= 2:
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: "Optional[torch.dtype]") -> torch.Tensor:
        return tensor if context is None else tensor.to(context)


class _Fp16(_Narrow):
    dtype = torch.float16


class _Bf16(_Narrow):
    dtype = torch.bfloat16


class Compression:
    """none; fp16: half the bytes, numbers up to 65504, 11 bits of precision; bf16: half the bytes, the range of float32, 8
    bits of precision."""
    none: Type[Compressor] = Compressor
    fp16: Type[Compressor] = _Fp16
    bf16: Type[Compressor] = _Bf16
