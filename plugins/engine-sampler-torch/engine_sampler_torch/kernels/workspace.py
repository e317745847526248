"""The memory that the kernels of a step share: allocated once for each number of rows and vocabulary."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ROWS_OF_SMALL_TILES = 8
SMALL_TILE, TILE = 1024, 4096
"""A row is read in tiles by as many programs; few rows are cut into more of them, to use the whole device."""
COARSEST_GROUP, COARSEST_OF_NONE, COARSEST_OF_FEW, FEW = 128, 64, 32, 64
"""For up to `FEW` wanted candidates one program searches a row: finer groups, so that it reads less."""
GROUPS_PER_CANDIDATE = 4
"""With four groups for each wanted candidate, a seventh more tokens than wanted pass the bound of their
maxima."""
MOST_GROUPS = 8192
CAPACITIES = (128, 256, 512, 1024, 2048)
"""How many candidates of a row have a place: twice as many as are asked for, for the ties among them."""
BINS = 1024
"""How `flat` divides what it looks at of a row."""
ROOM = 1024
"""Places for the tokens of one of its bins."""
UNASKED, UNASKED_BY_TOP_P = 256, 60
"""As many candidates are gathered where no top_k says how many are needed; fewer where `flat` finds what
they do not suffice for, so that their groups are read at once even if some more pass the bound."""
MOST_WANTED = 1024
_WANTED = (64, 128, UNASKED, 512, MOST_WANTED)
"""How many candidates chains want."""


_DTYPES = (torch.bool, torch.int32, torch.int64, torch.float32, torch.float64)


def bucket(n: int) -> int:
    """The next power of two: kernels are compiled, and workspaces are kept, for these numbers."""
    return 1 << max(n - 1, 0).bit_length()


@dataclass(frozen=True)
class WorkspaceShape:
    """How rows of one vocabulary are divided.

    tile    ids that one program reads; group: ids of which one maximum is kept; capacity: places for
    candidates.
    """

    vocab_size: int
    tile: int
    group: int
    capacity: int

    @classmethod
    @functools.lru_cache
    def of(cls, rows: int, vocab_size: int, wanted: int) -> WorkspaceShape:
        """For `wanted` candidates in each of `rows` rows."""
        tile = SMALL_TILE if rows <= MOST_ROWS_OF_SMALL_TILES else TILE
        capacity = next(c for c in CAPACITIES if c >= 2 * wanted)
        groups = min(GROUPS_PER_CANDIDATE * max(wanted, 1), MOST_GROUPS)
        coarsest = (COARSEST_OF_FEW if wanted else COARSEST_OF_NONE) if wanted <= FEW else COARSEST_GROUP
        group = min(coarsest, max(2, 1 << (vocab_size // groups).bit_length() >> 1))
        while -(-vocab_size // group) > MOST_GROUPS:
            group *= 2
        return cls(vocab_size, max(tile, group), group, capacity)

    def vector(self, size_of_logit: int) -> int:
        """Logits that a thread reads at once."""
        return min(self.group, 16 // size_of_logit)

    @property
    def listed(self) -> int:
        """Places for the tokens among which `flat` looks for a cut."""
        return max(1024, bucket(self.vocab_size) // 16)

    @property
    def aimed_at(self) -> int:
        """How many tokens there should be: by a sample, so that half of the places are mostly enough."""
        return self.listed * 7 // 16

    @property
    def whole(self) -> bool:
        """Whether every token has a place among the candidates."""
        return self.vocab_size <= self.capacity

    @property
    def tiles(self) -> int:
        return -(-self.vocab_size // self.tile)

    @property
    def groups(self) -> int:
        return self.tiles * (self.tile // self.group)

    @property
    def coarse(self) -> int:
        """Of how many maxima that of the last candidate is searched for, a power of two: enough groups for
        each candidate, and no finer ones than that takes."""
        return min(bucket(self.groups), GROUPS_PER_CANDIDATE * self.capacity // 2)


class Workspace:
    """Tensors on one device for up to `rows` rows of one vocabulary, and requests that need up to `wanted`
    candidates: by default, any.

    Nothing in it outlives a step, and every place is written before it is read, so that nothing is cleared.
    Two streams must not share one, and a CUDA graph keeps the addresses of the one that it was captured
    with: whoever captures it keeps both. For 131,072 tokens it takes 113 KiB a row with 256 candidates,
    149 KiB with 1,024; for 32,000 tokens 49 and 121 KiB. 64 and 16 KiB of that are the list of `flat`.
    """

    def __init__(
        self, device: torch.device | str, rows: int, vocab_size: int, wanted: int = MOST_WANTED
    ) -> None:
        self.rows, self.vocab_size, self.wanted = rows, vocab_size, wanted
        self.device = torch.device(device)
        small = -(-vocab_size // SMALL_TILE)
        shapes = [
            WorkspaceShape.of(n, vocab_size, at_most)
            for n in (1, rows)
            for at_most in _WANTED
            if at_most <= wanted
        ]
        most_groups = max((shape.groups for shape in shapes), default=1)
        capacity = WorkspaceShape.of(rows, vocab_size, wanted).capacity

        def empty(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        self.highest = empty(rows * small, dtype=torch.int32)
        self.alive = empty(rows * small, dtype=torch.int32)
        self.first = empty(rows * small, dtype=torch.int64)
        self.masses = empty(rows * small, dtype=torch.int64)
        self.spans = empty(rows * (small + 1), dtype=torch.int32)
        self.maxima = empty(rows * most_groups, dtype=torch.int32)
        self.hot = empty(rows * most_groups, dtype=torch.int16)
        self.hot_counts = empty(rows, dtype=torch.int32)
        self.candidates = empty(rows * capacity, dtype=torch.int64)
        self.ordered = torch.empty_like(self.candidates)
        self.by_id = torch.empty_like(self.candidates)
        self.counts = empty(rows, dtype=torch.int32)
        self.last = empty(rows, dtype=torch.int64)
        self.best = empty(rows, dtype=torch.int64)
        self.estimates = empty(rows * small, dtype=torch.float32)
        # For `flat`:
        self.totals = empty(rows * small, dtype=torch.int64)
        self.intervals, self.listed = empty(2 * rows, dtype=torch.float32), empty(rows, dtype=torch.int32)
        self.listing = empty(rows * shapes[0].listed if shapes else 1, dtype=torch.int64)
        self.bins = empty(rows * BINS, dtype=torch.int64)
        self.cuts, self.lates = empty(rows, dtype=torch.int64), empty(rows, dtype=torch.int64)
        self.state = empty(rows, dtype=torch.int32)
        self.none = {dtype: torch.zeros(rows, dtype=dtype, device=device) for dtype in _DTYPES}
        """Stand for tensors that are not given: zeros of each type, so that kernels are compiled once."""

    def check(self, rows: int, vocab_size: int, wanted: int) -> None:
        """Raises ValueError unless it has room for these."""
        if rows > self.rows or vocab_size != self.vocab_size or wanted > self.wanted:
            raise ValueError(
                f"the workspace is for {self.rows} rows of {self.vocab_size} tokens with {self.wanted} "
                f"candidates, not {rows} rows of {vocab_size} with {wanted}"
            )

    @property
    def nbytes(self) -> int:
        tensors = [value for value in vars(self).values() if isinstance(value, Tensor)] + [
            *self.none.values()
        ]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
