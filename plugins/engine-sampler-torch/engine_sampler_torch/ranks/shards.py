"""`VocabularyShards`: which rank holds the logits of which tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch

from engine_sampler.arithmetic import SUPPORTED

DTYPES = tuple(getattr(torch, name) for name in SUPPORTED)


@dataclass(frozen=True)
class VocabularyShards:
    """The vocabulary in shards of consecutive ids: rank r holds `sizes[r]` tokens, the first of which is the
    sum of the sizes before it. Shards may differ in size, and may be empty.

    sizes    tokens by rank, at least one altogether.
    padding  by rank, how many columns follow its tokens that stand for none (heads are often padded); they
             are neither read nor exchanged. Default: none.

    Rank r then gives logits [rows, sizes[r] + padding[r]]. Raises ValueError.
    """

    sizes: Sequence[int]
    padding: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        object.__setattr__(self, "padding", tuple(self.padding) or (0,) * len(self.sizes))
        for name in ("sizes", "padding"):
            counts = getattr(self, name)
            if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
                raise ValueError(f"{name}={counts} is not allowed: integers of at least 0")
        if len(self.padding) != len(self.sizes):
            raise ValueError(f"padding={self.padding} is not allowed: {len(self.sizes)} numbers, as in sizes")
        if not sum(self.sizes):
            raise ValueError(f"sizes={self.sizes} is not allowed: at least one token")

    @classmethod
    def even(cls, vocab_size: int, ranks: int, multiple_of: int = 1) -> VocabularyShards:
        """Shards of equal width, as tensor-parallel heads have them: ceil(vocab_size / ranks), rounded up to
        a `multiple_of`; the columns from `vocab_size` on are padding."""
        for name, value in (("vocab_size", vocab_size), ("ranks", ranks), ("multiple_of", multiple_of)):
            if value < 1:
                raise ValueError(f"{name}={value} is not allowed: at least 1")
        width = -(-vocab_size // ranks)
        width = -(-width // multiple_of) * multiple_of
        sizes = [min(max(vocab_size - r * width, 0), width) for r in range(ranks)]
        return cls(sizes, [width - size for size in sizes])

    @cached_property
    def vocab_size(self) -> int:
        """The number of tokens in all shards."""
        return sum(self.sizes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first token id of each rank."""
        return (0, *accumulate(self.sizes[:-1]))

    def tokens_of(self, rank: int, logits: torch.Tensor, rows: int) -> torch.Tensor:
        """The columns of `logits` [rows, sizes[rank] + padding[rank]] that stand for tokens; a view.

        Raises TypeError for anything but a tensor of float32, float16 or bfloat16, ValueError for other
        shapes.
        """
        if not isinstance(logits, torch.Tensor):
            raise TypeError(f"logits of type {type(logits).__name__} are not allowed: a torch.Tensor")
        if logits.dtype not in DTYPES:
            raise TypeError(f"logits have dtype {logits.dtype}; allowed are {', '.join(SUPPORTED)}")
        size, padding = self.sizes[rank], self.padding[rank]
        if tuple(logits.shape) != (rows, size + padding):
            raise ValueError(
                f"logits have shape {list(logits.shape)}; rank {rank} needs [{rows}, {size + padding}]: "
                f"{size} tokens and {padding} columns of padding"
            )
        return logits.detach()[:, :size]
