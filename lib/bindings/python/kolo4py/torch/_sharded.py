"""Tensors of which each rank has a part, some of their elements, one behind the other: for torch.distributed.checkpoint, which
saves and loads boxes along a tensor's dimensions. It asks tensors for theirs by three methods, as it does DTensor; DTensor
itself knows whole rows alone. Its import takes more than a second, which only programs that call it spend."""

import itertools
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Sequence, Tuple

import torch

import kolo4py as kolo

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from torch.distributed.checkpoint.planner import WriteItem

Box = Tuple[Tuple[int, ...], Tuple[int, ...]]  # offsets, sizes


def boxes(shape: "Sequence[int]", first: int, end: int) -> "Iterator[Box]":
    """Those that elements first to end - 1 of a tensor fill, in their order. `shape` has a dimension or more."""
    rest = tuple(shape[1:])
    row_length = torch.Size(rest).numel()
    while first < end:
        row, skipped = divmod(first, row_length)
        if rest and (skipped or end - first < row_length):
            stop = min(end, (row + 1) * row_length)
            for offsets, sizes in boxes(rest, skipped, stop - row * row_length):
                yield (row, *offsets), (1, *sizes)
        else:
            rows = (end - first) // row_length
            stop = first + rows * row_length
            yield (row, *(0 for _ in rest)), (rows, *rest)
        first = stop


class Part(NamedTuple):
    """Of a tensor's elements, those that a rank has."""
    first: int
    end: int
    place: int  # of the first in the rank's memory


class ShardedState(torch.Tensor):
    """Has a tensor's size and type, and this rank's part of its elements."""
    part: Part
    own: torch.Tensor

    def __repr__(self, **_options: Any) -> str:  # type: ignore[override]
        return f"ShardedState(size={tuple(self.size())}, elements {self.part.first} to {self.part.end - 1})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise kolo.ArgumentError(f"{func} of a sharded state: it is for save and load of torch.distributed.checkpoint")

    def _chunks(self) -> "List[ChunkStorageMetadata]":
        from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
        return [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
                for offsets, sizes in boxes(self.size(), self.part.first, self.part.end)]

    def __create_write_items__(self, fqn: str, _object: object) -> "List[WriteItem]":
        from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
        from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
        properties = TensorProperties(dtype=self.dtype)
        return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD,
                          tensor_data=TensorWriteData(chunk, properties, self.size())) for chunk in self._chunks()]

    def __create_chunk_list__(self) -> "List[ChunkStorageMetadata]":
        return self._chunks()

    def __get_tensor_shard__(self, index: "MetadataIndex") -> torch.Tensor:
        chunks = self._chunks()
        ends = itertools.accumulate(chunk.sizes.numel() for chunk in chunks)
        return next(self.own[end - chunk.sizes.numel():end].view(chunk.sizes)
                    for chunk, end in zip(chunks, ends) if chunk.offsets == index.offset)


def make(shape: "Sequence[int]", part: Part, local: torch.Tensor) -> torch.Tensor:
    """A tensor of which this rank has that part, in its memory `local`."""
    made: ShardedState = torch.Tensor._make_wrapper_subclass(ShardedState, torch.Size(shape),
                                                             dtype=local.dtype)
    made.part, made.own = part, local[part.place:part.place + part.end - part.first]
    return made


def elements(value: torch.Tensor, part: Part) -> torch.Tensor:
    """A part of a tensor. ArgumentError: this rank has another part of it."""
    if not isinstance(value, ShardedState):
        return value.flatten()[part.first:part.end]
    if value.part[:2] != part[:2]:
        raise kolo.ArgumentError("the state is divided among the ranks in another way: have torch.distributed.checkpoint "
                                 "load it into this optimizer's own state_dict()")
    return value.own
