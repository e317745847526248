"""The tokens of a row, read from the padded ids of a call and from its request's cached state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...params import SamplingParams
from .errors import InconsistencyError, OutOfBoundsError
from .settings import is_greedy


@dataclass(frozen=True)
class HistoryRow:
    """One row of a batch, ready for the draw.

    params    its settings.
    prompt    token ids before its first drawn token; all its token ids, if `output` is not known.
    output    token ids drawn so far.
    position  the index of the token being drawn, for the random numbers.
    """

    params: SamplingParams
    prompt: list[int]
    output: list[int]
    position: int


@dataclass(frozen=True)
class Padding:
    """The padding in rows of ids.

    vocab_size  number of tokens; this number itself and −1 are padding at any position.
    token_id    a token that is padding at the start and at the end of a row, or None.
    """

    vocab_size: int
    token_id: int | None

    def tokens(self, name: str, row: int, ids: np.ndarray) -> list[int]:
        """The tokens of one row of ids [length]. Raises OutOfBoundsError for ids that are neither."""
        ids = ids[(ids != -1) & (ids != self.vocab_size)]
        invalid = ids[(ids < 0) | (ids > self.vocab_size)]
        if len(invalid):
            allowed = f"0 to {self.vocab_size - 1}, and {self.vocab_size} or -1 as padding"
            raise OutOfBoundsError(f"{name} has token id {invalid[0]} in row {row}, allowed are {allowed}")
        return self.trimmed(ids.tolist())

    def trimmed(self, tokens: list[int]) -> list[int]:
        """`tokens` without the padding token at both ends."""
        first, last = 0, len(tokens)
        while first < last and tokens[first] == self.token_id:
            first += 1
        while first < last and tokens[last - 1] == self.token_id:
            last -= 1
        return tokens[first:last]


@dataclass(frozen=True)
class GivenTokens:
    """A row's tokens as a call gives them; None if it omits them."""

    row: int
    all_ids: list[int] | None
    output: list[int] | None
    is_prefill: bool

    def uncached(self, params: SamplingParams) -> HistoryRow:
        """The row of a request without cached state.

        Its position is the number of output tokens, or of all tokens if the output is not given separately.
        """
        all_ids, output = self.all_ids or [], self.output or []
        if self.output is not None and self.all_ids is not None:
            prompt = self._prompt(all_ids, output)
        else:
            prompt = all_ids
        self._check_sufficient(params)
        return HistoryRow(params, prompt, output, len(all_ids) if self.output is None else len(output))

    def new(self, params: SamplingParams) -> HistoryRow:
        """The row of a request that begins: all its tokens are prompt, unless the call also gives output."""
        row = self.uncached(params)
        return row if self.output is not None else replace(row, position=0)

    def following(self, cached: HistoryRow, padding: Padding) -> HistoryRow:
        """The row of a request whose cached row is `cached`; `cached.params` apply.

        The cached tokens stay unless the call contradicts them; padding cannot contradict them.
        """
        if self.all_ids is None and not cached.prompt:
            self._check_prompt(cached.params)
        if self._agrees_with(cached, padding):
            return cached
        prompt, output = cached.prompt, self.output
        if output is None:
            assert self.all_ids is not None
            prompt, output = self._split(self.all_ids, cached)
        elif self.all_ids is not None:
            prompt = self._prompt(self.all_ids, output)
        offset = cached.position - len(cached.output)
        return HistoryRow(cached.params, prompt, output, offset + len(output))

    def _agrees_with(self, cached: HistoryRow, padding: Padding) -> bool:
        if self.output is not None and self.output != padding.trimmed(cached.output):
            return False
        return self.all_ids is None or self.all_ids == padding.trimmed(cached.prompt + cached.output)

    def _prompt(self, all_ids: list[int], output: list[int]) -> list[int]:
        length = len(all_ids) - len(output)
        if length < 0 or all_ids[length:] != output:
            raise InconsistencyError(
                f"output_ids are not the end of all_input_ids in row {self.row}: all_input_ids hold the "
                "prompt and then the output"
            )
        return all_ids[:length]

    def _split(self, all_ids: list[int], cached: HistoryRow) -> tuple[list[int], list[int]]:
        """Prompt and output, separated by the cached prompt or the cached output."""
        length = len(cached.prompt)
        if length and all_ids[:length] == cached.prompt:
            return cached.prompt, all_ids[length:]
        length = len(all_ids) - len(cached.output)
        if length >= 0 and all_ids[length:] == cached.output:
            return all_ids[:length], cached.output
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
