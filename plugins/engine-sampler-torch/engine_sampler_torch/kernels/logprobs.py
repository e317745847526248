"""What logprobs need of whole rows: the likeliest tokens, the total weight, and the rank of one token."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launch
from .numbers import NO_KEY, kernel, value_of_key, weight_of
from .reading import limited, read_raw
from .sampling import narrow
from .workspace import MOST_WANTED, Workspace, WorkspaceShape, bucket

TILE = 4096
"""How many logits a program reads."""
_LEAST_WIDTH = 64


class Likeliest(NamedTuple):
    """A token of each of n rows, and the k likeliest after it, in order.

    ids     int64 [n, 1 + k]; the vocabulary's size in rows with fewer tokens that are not removed.
    values  float32 [n, 1 + k], their logits.
    masses  int64 [n], the sum of all weights.
    ranks   int64 [n], the place of the token in (logit desc, id asc) order, from 1.

    Faulty rows have anything.
    """

    ids: Tensor
    values: Tensor
    masses: Tensor
    ranks: Tensor


@kernel()
def total(logits, index, peaks, tokens, masses, better, row_stride, tiles, vocab, TILE: tl.constexpr):
    """masses[row, tile] = the weight of a tile, int64; better[row, tile] = how many of its tokens come before
    `tokens`[row], int64. Grid (rows, tiles). `peaks` are the rows' greatest logits."""
    row, tile = tl.program_id(0), tl.program_id(1)
    source = logits + tl.load(index + row) * row_stride
    peak, token = tl.load(peaks + row), tl.maximum(tl.load(tokens + row), 0)
    chosen = limited(tl.load(source + token).to(tl.float32))
    ids = tile * TILE + tl.arange(0, TILE)
    values = limited(read_raw(source, ids, ids >= 0, vocab))
    end = tl.where(chosen > float("-inf"), token, 0)  # a removed token has no rank
    comes_before = (values > chosen) | ((values == chosen) & (ids < end))
    at = row * tiles + tile
    tl.store(masses + at, tl.sum(weight_of(values, peak), 0))
    tl.store(better + at, tl.sum(comes_before.to(tl.int64), 0))


@kernel()
def listing(logits, index, tokens, masses, better, ordered, counts, ids, values, sums, ranks,
          row_stride, tiles, vocab, k, TILES: tl.constexpr, CAPACITY: tl.constexpr,
          WIDTH: tl.constexpr):  # fmt: skip
    """The sums of both, and the list: the row's token, and the first `k` < WIDTH keys of `ordered`. Grid
    (rows,)."""
    row = tl.program_id(0)
    places = tl.arange(0, TILES)
    at = row * tiles + places
    tl.store(sums + row, tl.sum(tl.load(masses + at, mask=places < tiles, other=0), 0))
    tl.store(ranks + row, tl.sum(tl.load(better + at, mask=places < tiles, other=0), 0) + 1)
    token = tl.maximum(tl.load(tokens + row), 0)
    chosen = tl.load(logits + tl.load(index + row) * row_stride + token).to(tl.float32)
    lanes = tl.arange(0, WIDTH)
    is_listed = (lanes > 0) & (lanes <= k)
    known = is_listed & (lanes <= tl.load(counts + row))
    keys = tl.load(ordered + row.to(tl.int64) * CAPACITY + lanes - 1, mask=known, other=NO_KEY)
    out = row.to(tl.int64) * (k + 1) + lanes
    tokens_there = tl.where(keys == NO_KEY, vocab, keys & 0xFFFFFFFF)
    tl.store(ids + out, tl.where(lanes == 0, token, tokens_there), mask=lanes <= k)
    tl.store(values + out, tl.where(lanes == 0, limited(chosen), value_of_key(keys)), mask=lanes <= k)


def listed_width(k: int) -> int:
    """For how many candidates there must be room, so that `likeliest` finds `k` tokens."""
    return min(max(_LEAST_WIDTH, bucket(k)), MOST_WANTED)


def likeliest(
    logits: Tensor,
    index: Tensor,
    vocab_size: int,
    peaks: Tensor,
    token_ids: Tensor,
    k: int,
    workspace: Workspace,
) -> Likeliest:
    """For the rows `index` (int64 [n]) of `logits`, as the model gives them: `token_ids` int64 [n] (any below
    0 as 0) and the `k` likeliest, from 0 to 1,024; `peaks`: the rows' greatest logits, float32 [n]."""
    rows, tiles = len(index), triton.cdiv(vocab_size, TILE)
    ordered, counts, capacity = index, index, 1
    if k:
        width = listed_width(k)
        narrow(logits, index, vocab_size, index.new_full((rows,), k), width=width, workspace=workspace)
        ordered, counts = workspace.ordered, workspace.counts
        capacity = WorkspaceShape.of(rows, vocab_size, width).capacity
    masses, better = index.new_empty((2, rows, tiles)).unbind()
    launch(total, (rows, tiles), logits, index, peaks, token_ids, masses, better, logits.stride(0), tiles,
           vocab_size, TILE=TILE, warps=8)  # fmt: skip
    ids = index.new_empty((rows, 1 + k))
    values = torch.empty((rows, 1 + k), dtype=torch.float32, device=index.device)
    sums, ranks = index.new_empty((2, rows + rows % 2)).unbind()
    launch(listing, (rows,), logits, index, token_ids, masses, better, ordered, counts, ids, values, sums,
           ranks, logits.stride(0), tiles, vocab_size, k, TILES=bucket(tiles), CAPACITY=capacity,
           WIDTH=bucket(1 + k), warps=4)  # fmt: skip
    return Likeliest(ids, values, sums[:rows], ranks[:rows])
