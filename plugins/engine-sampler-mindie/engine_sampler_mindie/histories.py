"""The tokens of a row, read from the padded ids of a call and from its request's cached state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine_sampler import SamplingParams

from .fields import InconsistencyError, OutOfBoundsError
from .settings import has_penalty, is_greedy

NOTHING = np.zeros(0, np.int64)


@dataclass(eq=False, slots=True)
class HistoryRow:
    """One row of a batch, ready for the draw.

    params    its settings.
    prompt    int64, token ids before its first drawn token; all its token ids, if `output` is not known.
    output    int64, token ids drawn so far.
    position  the index of the token being drawn, for the random numbers.
    """

    params: SamplingParams
    prompt: np.ndarray
    output: np.ndarray
    position: int

    def has_history_of(self, other: HistoryRow) -> bool:
        """Whether the settings of this row see the same tokens in `other`."""
        if not has_penalty(self.params):
            return True
        counts_output = bool(self.params.frequency_penalty or self.params.presence_penalty)
        if counts_output or len(self.prompt) == len(other.prompt):
            return _equal(self.prompt, other.prompt) and _equal(self.output, other.output)
        return _equal(_joined(self), _joined(other))


@dataclass(frozen=True)
class Padding:
    """The padding in rows of ids.

    vocab_size  number of tokens; this number itself and −1 are padding at any position.
    token_id    a token that is padding at the start and at the end of a row, or None.
    """

    vocab_size: int
    token_id: int | None

    def read(self, name: str, ids: np.ndarray | None) -> TokenRows | None:
        """The tokens in rows of ids [rows, length]; None for None.

        Raises OutOfBoundsError for ids that are neither tokens nor padding.
        """
        if ids is None:
            return None
        if self.is_absent_from(ids):
            whole = [(0, ids.shape[1])] * len(ids)
            return TokenRows(self, ids, whole if self.token_id is None else [self._inner(row) for row in ids])
        if ids.min() < -1 or ids.max() > self.vocab_size:
            row, column = np.argwhere((ids < -1) | (ids > self.vocab_size))[0]
            allowed = f"0 to {self.vocab_size - 1}, and {self.vocab_size} or -1 as padding"
            raise OutOfBoundsError(
                f"{name} has token id {ids[row, column]} in row {row}, allowed are {allowed}"
            )
        return TokenRows(self, ids, [self.span(row) for row in ids])

    def is_absent_from(self, ids: np.ndarray) -> bool:
        """Whether all ids are tokens, `token_id` included."""
        return not ids.size or bool(ids.min() >= 0 and ids.max() < self.vocab_size)

    def span(self, row: np.ndarray) -> tuple[int, int] | None:
        """Where the tokens of a row begin and end; None if they have padding between them."""
        start, end = 0, len(row)
        if not self.is_absent_from(row):
            valid = self.valid(row)
            start, end = _filled(valid)
            if np.count_nonzero(valid) < end - start:
                return None
        first, last = self._inner(row[start:end])
        return (start + first, start + last) if last > first else (0, 0)

    def trimmed(self, tokens: np.ndarray) -> np.ndarray:
        """`tokens` without the padding token at both ends."""
        return tokens[slice(*self._inner(tokens))]

    def _inner(self, tokens: np.ndarray) -> tuple[int, int]:
        """Where `tokens` begin and end without the padding token at both ends; (0, 0) if nothing is left."""
        if self.token_id is None or not len(tokens) or self.token_id not in (tokens[0], tokens[-1]):
            return 0, len(tokens)
        return _filled(tokens != self.token_id)

    def valid(self, row: np.ndarray) -> np.ndarray:
        """bool [length], which ids are tokens, `token_id` included."""
        valid: np.ndarray = (row >= 0) & (row < self.vocab_size)
        return valid


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of ids [rows, length] as a call gives them, which may be the caller's memory.

    spans  where the tokens of each row begin and end; None for a row that has padding between them.
    """

    padding: Padding
    ids: np.ndarray
    spans: Sequence[tuple[int, int] | None]

    def tokens(self, row: int) -> np.ndarray:
        """The tokens of a row."""
        ids, span = self.ids[row], self.spans[row]
        return self.padding.trimmed(ids[self.padding.valid(ids)]) if span is None else ids[slice(*span)]


@dataclass(eq=False, slots=True)
class GivenTokens:
    """A row's tokens as a call gives them; None if it omits them."""

    row: int
    all_ids: np.ndarray | None
    output: np.ndarray | None
    is_prefill: bool

    @property
    def has_any(self) -> bool:
        """Whether the call gives tokens for this row."""
        return self.all_ids is not None or self.output is not None

    def uncached(self, params: SamplingParams) -> HistoryRow:
        """The row of a request without cached state.

        Its position is the number of output tokens, or of all tokens if the output is not given separately.
        """
        all_ids = NOTHING if self.all_ids is None else self.all_ids
        output = NOTHING if self.output is None else self.output
        if self.output is not None and self.all_ids is not None:
            prompt = self._prompt(all_ids, output, params)
        else:
            prompt = all_ids
        self._check_sufficient(params)
        return HistoryRow(params, prompt, output, len(all_ids) if self.output is None else len(output))

    def new(self, params: SamplingParams) -> HistoryRow:
        """The row of a request that begins: all its tokens are prompt, unless the call also gives output."""
        row = self.uncached(params)
        return row if self.output is not None else replace(row, position=0)

    def after_prompt(self, row: HistoryRow) -> HistoryRow:
        """`row`, a row that begins, at the position after all its tokens, prompt included."""
        if self.all_ids is None and row.params.seed is not None and not is_greedy(row.params):
            raise InconsistencyError(
                f"seed={row.params.seed} in row {self.row} needs all_input_ids: with count_prompts, the "
                "length of the prompt decides what it draws"
            )
        return replace(row, position=len(row.prompt) + len(row.output))

    def resumes(self, cached: HistoryRow) -> bool:
        """Whether a prefill repeats the cached prompt and then output of the request: it continues."""
        if not self.is_prefill or self.output is not None or self.all_ids is None:
            return False
        length = len(cached.prompt)
        if not length:
            drawn = cached.output
            return len(drawn) > 0 and _equal(self.all_ids[-len(drawn) :], drawn)
        more = self.all_ids[length:]
        return (
            len(more) > 0
            and _equal(self.all_ids[:length], cached.prompt)
            and _equal(more, cached.output[: len(more)])
        )

    def following(self, cached: HistoryRow, padding: Padding) -> HistoryRow:
        """The row of a request whose cached row is `cached`; `cached.params` apply.

        The cached tokens stay unless the call contradicts them; padding cannot contradict them.
        """
        if self.all_ids is None and not len(cached.prompt):
            self._check_prompt(cached.params)
        if self._agrees_with(cached, padding):
            return cached
        prompt, output = cached.prompt, self.output
        if output is None:
            assert self.all_ids is not None
            prompt, output = self._split(self.all_ids, cached)
        elif self.all_ids is not None:
            prompt = self._prompt(self.all_ids, output, cached.params)
        offset = cached.position - len(cached.output)
        return HistoryRow(cached.params, prompt, output, offset + len(output))

    def _agrees_with(self, cached: HistoryRow, padding: Padding) -> bool:
        if self.output is not None and not _equal(self.output, padding.trimmed(cached.output)):
            return False
        if self.all_ids is None:
            return True
        parts = [tokens for tokens in (cached.prompt, cached.output) if len(tokens)]
        if parts and padding.token_id in (parts[0][0], parts[-1][-1]):
            return _equal(self.all_ids, padding.trimmed(_joined(cached)))
        length = len(cached.prompt)
        return _equal(self.all_ids[:length], cached.prompt) and _equal(self.all_ids[length:], cached.output)

    def _prompt(self, all_ids: np.ndarray, output: np.ndarray, params: SamplingParams) -> np.ndarray:
        length = len(all_ids) - len(output)
        if (length < 0 or not _equal(all_ids[length:], output)) and _uses_tokens(params):
            raise InconsistencyError(
                f"output_ids are not the end of all_input_ids in row {self.row}: all_input_ids hold the "
                "prompt and then the output"
            )
        return all_ids[: max(length, 0)]

    def _split(self, all_ids: np.ndarray, cached: HistoryRow) -> tuple[np.ndarray, np.ndarray]:
        """Prompt and output, separated by the cached prompt or the cached output."""
        length = len(cached.prompt)
        if length and _equal(all_ids[:length], cached.prompt):
            return cached.prompt, all_ids[length:]
        length = len(all_ids) - len(cached.output)
        if length >= 0 and _equal(all_ids[length:], cached.output):
            return all_ids[:length], cached.output
        if not _uses_tokens(cached.params):
            return all_ids, NOTHING
        raise InconsistencyError(
            f"all_input_ids of row {self.row} neither begin with the request's prompt nor end with its "
            "output; give output_ids as well, or prefill it again"
        )

    def _check_sufficient(self, params: SamplingParams) -> None:
        """Raise if the settings need tokens that the call does not give."""
        if self.all_ids is None:
            self._check_prompt(params)
        if self.is_prefill or self.output is not None:
            return
        for name in ("frequency_penalty", "presence_penalty"):
            if params[name] != 0:
                raise InconsistencyError(f"{name} in row {self.row} needs output_ids")
        if self.all_ids is None and params.seed is not None and not is_greedy(params):
            raise InconsistencyError(
                f"seed={params.seed} in row {self.row} is not allowed here: without request_ids or token "
                "ids the position is unknown, and every step would draw the same number"
            )

    def _check_prompt(self, params: SamplingParams) -> None:
        if params.repetition_penalty != 1:
            raise InconsistencyError(f"repetition_penalty in row {self.row} needs all_input_ids")


def _uses_tokens(params: SamplingParams) -> bool:
    """Whether a row's token depends on its earlier ones: on their number if it samples."""
    return not is_greedy(params) or has_penalty(params)


def _filled(mask: np.ndarray) -> tuple[int, int]:
    """Where the True values of `mask` begin and end; (0, 0) if there are none."""
    first = int(mask.argmax())
    return (first, len(mask) - int(mask[::-1].argmax())) if mask[first] else (0, 0)


def _joined(row: HistoryRow) -> np.ndarray:
    return np.concatenate((row.prompt, row.output)) if len(row.output) else row.prompt


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and bool((one == other).all())
