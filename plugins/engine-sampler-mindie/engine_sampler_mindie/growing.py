"""Which tokens the rows of a batch have: calls are recognised that give the ids of the call before and the
tokens that were drawn in it, and lengths are remembered, whatever pads the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .cache import CachedRequest
from .histories import Padding, TokenRows
from .metadata import SamplingMetadata
from .settings import has_penalty

Ids = tuple[np.ndarray | None, np.ndarray | None]
"""`all_input_ids` and `output_ids` of a call."""

Lengths = tuple[np.ndarray | None, np.ndarray | None]
"""How many tokens the rows of each of the two have, int64 [rows], −1 for a row of which that is unknown; None
if it is of all."""


class GrowingIds:
    """Where the tokens are in the ids of a batch's last call, if each row is padded at its ends only.

    Whether a call's ids have grown is read at the ends of each row. The tokens between them are compared only
    in rows whose settings depend on them: in all others, their number decides what is drawn.
    """

    def __init__(self, ids: tuple[TokenRows | None, TokenRows | None], padding: Padding) -> None:
        self._padding = padding
        self._gives = tuple(rows is not None for rows in ids)
        self._marks = [None if rows is None else _Marks.of(rows) for rows in ids]
        self._read: tuple[list[int], list[int]] | None = None
        """The rows of each of the two whose tokens are compared; None until that matters."""

    def gives(self) -> tuple[bool, ...]:
        """Which of the two the last call gave."""
        return self._gives

    def grow(
        self,
        ids: Ids,
        tokens: np.ndarray,
        requests: Sequence[CachedRequest],
        lengths: Lengths = (None, None),
    ) -> bool:
        """Whether `ids` are those of the last call, each row followed by its one of `tokens` [rows], which
        the `requests` of the rows have as their last ones.

        If so they are the last call's from now on.
        """
        if any((array is not None) != given for array, given in zip(ids, self._gives, strict=True)):
            return False
        if self._padding.token_id is not None and (tokens == self._padding.token_id).any():
            return False
        if self._read is None:
            self._read = self._compared(requests)
        grown: list[_Marks | None] = []
        for number, (array, marks, known) in enumerate(zip(ids, self._marks, lengths, strict=True)):
            after = None
            if array is not None:
                after = None if marks is None else marks.grown(array, tokens, self._padding, known)
                if after is None or not all(
                    _holds(array[i, after.starts[i] : after.ends[i]], requests[i], number == 1)
                    for i in self._read[number]
                ):
                    return False
            grown.append(after)
        self._marks = grown
        return True

    def _compared(self, requests: Sequence[CachedRequest]) -> tuple[list[int], list[int]]:
        """The rows to compare, each in one of the two: `all_input_ids` end with the output, and only a
        repetition penalty sees what is before it."""
        settings = [(row, request.params) for row, request in enumerate(requests)]
        rows = [row for row, params in settings if has_penalty(params)]
        if not all(self._gives):
            return rows, rows
        whole = {row for row, params in settings if params.repetition_penalty != 1}
        return sorted(whole), [row for row in rows if row not in whole]


@dataclass(frozen=True, eq=False, slots=True)
class _Marks:
    """Where the tokens of rows [rows, width] of ids begin and end, and which these are, int64 [rows] each.

    A row without tokens begins and ends at 0.

    full  whether all rows have tokens from the first column to the last.
    """

    width: int
    full: bool
    starts: np.ndarray
    ends: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, rows: TokenRows) -> _Marks | None:
        """The marks of `rows`; None if one of them has padding inside."""
        ids, width = rows.ids, rows.ids.shape[1]
        if None in rows.spans:
            return None
        starts, ends = np.array(rows.spans, np.int64).T
        none = np.full(len(ids), -1)
        if not width:
            return cls(0, False, starts, ends, none, none)
        numbers, some = np.arange(len(ids)), ends > starts
        first = np.where(some, ids[numbers, starts], none)
        last = np.where(some, ids[numbers, ends - 1], none)
        return cls(width, bool((ends - starts == width).all()), starts, ends, first, last)

    def grown(
        self, new: np.ndarray, tokens: np.ndarray, padding: Padding, lengths: np.ndarray | None
    ) -> _Marks | None:
        """The marks of `new`, if its rows begin and end as these and one of `tokens` more, else None.

        lengths  how many tokens they have, −1 where padding tells it; None: it tells it in all rows.
        """
        width = new.shape[1]
        if self.full and width == self.width + 1 and lengths is None:
            same = (
                (new[:, -1] == tokens).all()
                and (new[:, -2] == self.last).all()
                and (new[:, 0] == self.first).all()
            )
            return _Marks(width, True, self.starts, self.ends + 1, self.first, tokens) if same else None
        ends = self.ends
        told = np.zeros(len(new), np.bool_) if lengths is None else lengths >= 0
        if lengths is not None and ((ends + 1 - self.starts != lengths) & told).any():
            return None
        if width not in (self.width, self.width + 1) or int(ends.max()) >= width:
            return None
        rows = np.arange(len(new))
        some = ends > self.starts
        if not (
            np.array_equal(new[rows, ends], tokens)
            and np.array_equal(new[rows, ends - 1][some], self.last[some])
            and np.array_equal(new[rows, self.starts][some], self.first[some])
            and _are_padding(new[rows, np.minimum(ends + 1, width - 1)][(ends + 1 < width) & ~told], padding)
            and _are_padding(new[rows, self.starts - 1][self.starts > 0], padding)
        ):
            return None
        first = np.where(some, self.first, tokens)
        full = bool((ends + 1 - self.starts == width).all())
        return _Marks(width, full, self.starts, ends + 1, first, tokens)


def _are_padding(ids: np.ndarray, padding: Padding) -> bool:
    if not len(ids):
        return True
    found = (ids == -1) | (ids == padding.vocab_size)
    return bool((found if padding.token_id is None else found | (ids == padding.token_id)).all())


def _holds(ids: np.ndarray, request: CachedRequest, is_output: bool) -> bool:
    """Whether `ids` are the tokens of a request, or its output."""
    prompt, output = request.prompt, request.output
    if is_output:
        return np.array_equal(ids, output)
    length = len(prompt)
    return np.array_equal(ids[:length], prompt) and np.array_equal(ids[length:], output)


_MOST_SEQUENCES = 16_384
"""Of how many sequences the lengths of their prompts are remembered."""


class PromptLengths:
    """The lengths of the prompts of sequences, from metadata that told them when the sequences began."""

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}

    def note(self, metadata: SamplingMetadata) -> None:
        """Remember those that `metadata` tells, for siblings and beams that begin as well."""
        lengths = metadata.prompt_lengths
        if lengths is None:
            return
        begins = metadata.prefill_array
        for (start, _), group, reserved in zip(
            metadata.group_indices, metadata.batch_sequence_ids, metadata.reserved_sequence_ids, strict=True
        ):
            if begins[start]:
                ids = (*group.tolist(), *reserved.tolist())
                self._lengths.update(dict.fromkeys(ids, int(lengths[start])))
        while len(self._lengths) > max(_MOST_SEQUENCES, len(lengths)):
            del self._lengths[next(iter(self._lengths))]

    def forget(self, sequence_ids: Sequence[int]) -> None:
        """Forget sequences that have ended; unknown ones are ignored."""
        for sequence_id in sequence_ids:
            self._lengths.pop(sequence_id, None)

    def lengths(self, metadata: SamplingMetadata) -> Lengths:
        """What is known of the rows of `metadata`."""
        outputs = metadata.known_lengths
        if not self._lengths or (outputs is None and not metadata.is_prefill):
            return None, outputs
        prompts = np.array([self._lengths.get(i, -1) for i in metadata.all_sequence_ids.tolist()])
        added = np.zeros(len(prompts), np.int64) if outputs is None else outputs
        known = (prompts >= 0) & (metadata.prefill_array if outputs is None else True)
        return np.where(known, prompts + added, -1), outputs


def read_up_to(
    padding: Padding, name: str, ids: np.ndarray | None, lengths: np.ndarray | None
) -> TokenRows | None:
    """The tokens in rows of `ids` up to the `lengths` that are known."""
    if ids is not None and lengths is not None:
        ends = np.where(lengths < 0, ids.shape[1], lengths)
        if (ends < ids.shape[1]).any():
            ids = np.where(np.arange(ids.shape[1]) < ends[:, None], ids, padding.vocab_size)
    return padding.read(name, ids)
