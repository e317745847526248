"""`ReplayPiece`: rows of one group that are replayed together, on what survived of them in the rollout.

A sampler computes the same on any ascending subset of ids that contains all that remain. So the rows of a
piece are blocks of their survivors alone, which only the samplers that change logits go through. What those
take from whole rows (the best logit, the entropy) is the same on the survivors, unless tokens are removed
after them: then `witness`, a block of the whole rows under the chain's own cuts, tells it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT
from engine_sampler.contract import Chain, Group, Rows, Sampler, Truncation
from engine_sampler.for_backends import default_registry, padded, structured_in

from ..arithmetic import NEGATIVE_INFINITY, distances, log_mass, weights
from ..steps import Block, DeviceStep, FigureStep, Given, step_of
from .record import Rollouts

_MASKS = {
    "allowed_token_ids",
    "bad_words",
    "ignore_eos",
    "infill",
    "min_tokens",
    "no_repeat_ngram",
    "no_repeat_ngram_window",
    "repetition_ngram",
    "suppress_tokens",
}
"""The built-in samplers beside the truncations that remove tokens, and leave the logits of all others. (The
one token that `infill` may put back is alone, and its logprob is 0.)"""

_LIMIT = float(LOGIT_LIMIT)
_TILE = 1 << 16
"""So many logits, and what their weights are computed from, fit into the caches of a CPU's core."""


@dataclass
class ReplayPart:
    """A sampler of the chain with its inputs.

    step     None for one without a torch form, which only removes tokens.
    fixed    what its step takes of the host.
    changes  whether it changes logits of survivors: all others only remove tokens.
    on_rows  whether it takes a figure from whole rows that the survivors do not tell.
    witness  whether it runs on the whole rows, to tell later ones' figures.
    """

    sampler: Sampler
    step: DeviceStep | None
    fixed: Any
    changes: bool
    on_rows: bool
    witness: bool


def parts_of(chain: Chain, rows: Rows) -> list[ReplayPart]:
    """The samplers of the chain of these rows. Raises ValueError for one whose change of the logits is not
    known here."""
    parts: list[ReplayPart] = []
    removed_after = on_rows_after = False
    for sampler in reversed(chain.samplers):
        step, changes = step_of(sampler), not only_removes(sampler)
        if step is None and (changes or on_rows_after):
            raise ValueError(f"{sampler.name} cannot be replayed: it runs in Python, without gradients")
        fixed = None if step is None else step.fixed(rows.bind(sampler))
        on_rows = step is not None and changes and removed_after and step.reads_rows(fixed)
        if on_rows and not isinstance(step, FigureStep):
            raise ValueError(f"{sampler.name} cannot be replayed before samplers that remove tokens")
        parts.append(ReplayPart(sampler, step, fixed, changes, on_rows, on_rows_after))
        removed_after |= not changes or not default_registry().is_built_in(sampler)
        on_rows_after |= on_rows
    return parts[::-1]


def only_removes(sampler: Sampler) -> bool:
    """Whether all that a sampler does is to remove tokens."""
    if default_registry().is_built_in(sampler) and sampler.name in _MASKS:
        return True
    return isinstance(sampler, Truncation)


class ReplayPiece:
    """Some rows with equal chains, one kind of masks, and what the steps take.

    numbers  int64 [n], their rows in the logits.
    """

    def __init__(
        self, rollouts: Rollouts, group: Group, which: np.ndarray, numbers: np.ndarray, device: torch.device
    ) -> None:
        rows = group.rows.take(which)
        chain: Chain = group.plan
        self._parts = parts_of(chain, rows)
        self._given: list[Given] = []
        for part in self._parts:
            is_used = part.witness or part.changes
            arrays = part.step.inputs(rows.bind(part.sampler)) if part.step is not None and is_used else {}
            self._given.append({name: _on(device, array) for name, array in arrays.items()})
        self._size = rollouts.vocab_size
        self._is_wide = bool(rollouts.mask.is_inverted[numbers[0]])
        self._has_witness = any(part.on_rows for part in self._parts)
        if self._has_witness:
            self._check_witness(rollouts, numbers)
        lists = [rollouts.mask.listed(row) for row in numbers.tolist()]
        width = max(map(len, lists))
        self._listed = _on(device, padded(lists, self._size, np.int32, width))
        self._numbers = _on(device, numbers)
        self._tokens = _on(device, rollouts.outputs[numbers])

    def logprobs(self, logits: Tensor) -> Tensor:
        """Those of the drawn tokens, float32 [n], as the rollout's arithmetic gives them."""
        values, columns = self._processed(self._read(logits))
        chosen = values.gather(1, columns)[:, 0].to(torch.float64)
        peak, total = _mass(values)
        return (chosen - log_mass(peak[:, 0], total[:, 0])).to(torch.float32)

    def add_gradients(self, logits: Tensor, outer: Tensor, out: Tensor) -> None:
        """Write the gradients of the logprobs, each times its entry of `outer` float32 [rows], to rows of
        `out` [rows, width]."""
        leaf = self._read(logits).requires_grad_()
        with torch.enable_grad():
            values, columns = self._processed(leaf)
        plain = values.detach()
        peak, total = _mass(plain)
        inner, scale = torch.empty_like(plain), -1.0 / total.to(torch.float32)
        for columns_of_tile, w in _weights(plain, peak):
            torch.mul(w, scale, out=inner[:, columns_of_tile])
        inner.scatter_add_(1, columns, torch.ones_like(columns, dtype=torch.float32))
        inner *= outer[self._numbers][:, None]
        (gradient,) = torch.autograd.grad(values, leaf, inner)
        gradient = gradient.to(out.dtype)
        if self._reads_whole:
            out[:, : self._size].index_copy_(0, self._numbers, gradient)
        else:  # padding has no gradient
            at = self._numbers[:, None].expand_as(gradient), self._ids.clamp(max=self._size - 1)
            out.index_put_(at, gradient, accumulate=True)

    def write_to(self, out: Tensor, logprobs: Tensor) -> None:
        """Put float32 [n] to the rows of `out` [rows]."""
        out.index_copy_(0, self._numbers, logprobs)

    def _check_witness(self, rollouts: Rollouts, numbers: np.ndarray) -> None:
        """Raise ValueError for rows of whose cuts the records do not tell enough."""
        names = [part.sampler.name for part in self._parts if part.witness]
        for number in np.unique(rollouts.record_of(numbers)).tolist():
            params = rollouts.records[number].chosen
            if structured_in(params.given) and params["grammar_bias"] is None:
                why = "a grammar is not, where samplers that read whole rows come before others that cut"
                raise ValueError(f"record[{number}] cannot be replayed: {why}")
            if "xtc" in names and params["seed"] is None:
                why = "xtc before a sampler that reads whole rows needs the seed of the rollout in the params"
                raise ValueError(f"record[{number}] cannot be replayed: {why}")

    @property
    def _reads_whole(self) -> bool:
        return self._is_wide or self._has_witness

    @property
    def _ids(self) -> Tensor:
        """int64 [n, m], what survived, padded with the vocabulary's size."""
        return self._listed.to(torch.int64)

    def _read(self, logits: Tensor) -> Tensor:
        """float32 [n, m]: the logits of what survived, or of whole rows."""
        if self._reads_whole:
            return logits[self._numbers, : self._size].to(torch.float32)
        return logits[self._numbers[:, None], self._ids.clamp(max=self._size - 1)].to(torch.float32)

    def _processed(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """The survivors' logits after the chain, float32 [n, m], and the drawn tokens' columns, [n, 1]."""
        if self._is_wide:
            ids, columns, values = None, self._tokens[:, None], read
        else:
            ids = self._ids
            columns = torch.searchsorted(ids, self._tokens[:, None])
            values = read.gather(1, ids.clamp(max=self._size - 1)) if self._has_witness else read
        block = self._block(values.masked_fill(self._removed(values), NEGATIVE_INFINITY), ids)
        whole = (
            self._block(read.masked_fill(read < -_LIMIT, NEGATIVE_INFINITY), None)
            if self._has_witness
            else block
        )
        for part, tensors in zip(self._parts, self._given, strict=True):
            step, fixed = part.step, part.fixed
            if part.on_rows and isinstance(step, FigureStep):
                step.apply_with(step.figure(whole, tensors, fixed), block, tensors, fixed)
            elif step is not None and part.changes:
                step.apply(block, tensors, fixed)
            if part.witness and step is not None:
                step.apply(whole, tensors, fixed)
        return block.values, columns

    def _removed(self, values: Tensor) -> Tensor:
        """bool [n, m]: padding, what did not survive, and logits that read as −inf."""
        low = values < -_LIMIT
        if not self._listed.shape[1]:
            return low
        if not self._is_wide:
            return low.logical_or_(self._listed == self._size)
        padded = torch.nn.functional.pad(low, (0, 1))
        return padded.scatter_(1, self._ids, True)[:, : self._size]

    def _block(self, values: Tensor, ids: Tensor | None) -> Block:
        sound = torch.zeros(len(values), dtype=torch.int64, device=values.device)
        return Block(values, ids, self._size, sound)


def _mass(values: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest logit of each row of `values` [n, m], and the sum of its weights: float32 and int64
    [n, 1]."""
    peak = values.amax(1, keepdim=True)
    total = torch.zeros_like(peak, dtype=torch.int64)
    for _, w in _weights(values, peak):
        total += w.sum(1, keepdim=True)
    return peak, total


def _weights(values: Tensor, peak: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The weights of `values` [n, m], a tile of the vocabulary at a time: its columns, and int64
    [n, columns]. Sums of integers have no order."""
    width = max(1, _TILE // len(values)) if values.device.type == "cpu" else values.shape[1]
    for begin in range(0, values.shape[1], width):
        columns = slice(begin, begin + width)
        yield columns, weights(distances(values[:, columns], peak))


def pieces_of(
    rollouts: Rollouts, group: Group, numbers: np.ndarray, device: torch.device, chunk_size: int
) -> Iterator[ReplayPiece]:
    """The rows `numbers` of a group, in pieces of up to `chunk_size` logits, or of a single row."""
    for sampler in group.plan.samplers:
        if not only_removes(sampler):
            _ = group.rows.bind(sampler).states  # in order, each follows from the one before it
    is_wide, counts = rollouts.mask.is_inverted[numbers], rollouts.counts[numbers]
    reads_whole = any(part.on_rows for part in parts_of(group.plan, group.rows))
    for wide in (False, True):
        some = np.flatnonzero(rollouts.is_known[numbers] & (is_wide == wide))
        some = some[np.argsort(counts[some], kind="stable")]
        widths = np.full(len(some), rollouts.vocab_size) if wide or reads_whole else counts[some]
        for part in _parts(widths, chunk_size):
            yield ReplayPiece(rollouts, group, some[part], numbers[some[part]], device)


def _parts(widths: np.ndarray, most: int) -> Iterator[slice]:
    """Slices of rows of ascending `widths`, whose greatest times their number is at most `most`."""
    begin = 0
    for end in range(1, len(widths) + 1):
        if end == len(widths) or (end + 1 - begin) * widths[end] > most:
            yield slice(begin, end)
            begin = end


def _on(device: torch.device, array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
