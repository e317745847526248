"""Which tokens a row has: read from the padded ids of a call, and from what is remembered of its request."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...params import SamplingParams
from .errors import InconsistencyError, OutOfBoundsError
from .settings import is_greedy


@dataclass(frozen=True)
class Row:
    """One row of a batch, ready to be drawn.

    params    its settings.
    prompt    token ids before its first drawn token; all it has, where `output` is not known.
    output    token ids drawn so far.
    position  the index of the token being drawn, for the random numbers.
    """

    params: SamplingParams
    prompt: list[int]
    output: list[int]
    position: int


@dataclass(frozen=True)
class Padding:
    """What is no token in rows of ids.

    vocab_size  tokens; this very number and −1 are padding wherever they stand.
    token_id    a token that is padding where a row begins or ends with it, or None.
    """

    vocab_size: int
    token_id: int | None

    def tokens(self, name: str, row: int, ids: np.ndarray) -> list[int]:
        """The tokens of one row of ids [length]. Raises OutOfBoundsError for what is neither."""
        ids = ids[(ids != -1) & (ids != self.vocab_size)]
        wrong = ids[(ids < 0) | (ids > self.vocab_size)]
        if len(wrong):
            allowed = f"0 to {self.vocab_size - 1}, and {self.vocab_size} or -1 as padding"
            raise OutOfBoundsError(f"{name} has token id {wrong[0]} in row {row}, allowed are {allowed}")
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
class Given:
    """What a call says of a row's tokens; None where it says nothing."""

    row: int
    everything: list[int] | None
    output: list[int] | None
    is_prefill: bool

    def alone(self, params: SamplingParams) -> Row:
        """The row of a request of which nothing is remembered.

        Its position is the number of output tokens, or of all where the output is not told apart.
        """
        everything, output = self.everything or [], self.output or []
        if self.output is not None and self.everything is not None:
            prompt = self._prompt(everything, output)
        else:
            prompt = everything
        self._check_known(params)
        return Row(params, prompt, output, len(everything) if self.output is None else len(output))

    def beginning(self, params: SamplingParams) -> Row:
        """The row of a request that begins: all that it has is prompt, unless it brings output along."""
        row = self.alone(params)
        return row if self.output is not None else replace(row, position=0)

    def following(self, kept: Row, padding: Padding) -> Row:
        """The row of a request of which `kept` is remembered, `kept.params` being in force.

        What is remembered stays where the call does not contradict it; padding cannot contradict.
        """
        if self.everything is None and not kept.prompt:
            self._check_prompt(kept.params)
        if self._agrees_with(kept, padding):
            return kept
        prompt, output = kept.prompt, self.output
        if output is None:
            assert self.everything is not None
            prompt, output = self._split(self.everything, kept)
        elif self.everything is not None:
            prompt = self._prompt(self.everything, output)
        offset = kept.position - len(kept.output)
        return Row(kept.params, prompt, output, offset + len(output))

    def _agrees_with(self, kept: Row, padding: Padding) -> bool:
        if self.output is not None and self.output != padding.trimmed(kept.output):
            return False
        return self.everything is None or self.everything == padding.trimmed(kept.prompt + kept.output)

    def _prompt(self, everything: list[int], output: list[int]) -> list[int]:
        length = len(everything) - len(output)
        if length < 0 or everything[length:] != output:
            raise InconsistencyError(
                f"output_ids are not the end of all_input_ids in row {self.row}: all_input_ids hold the "
                "prompt and then the output"
            )
        return everything[:length]

    def _split(self, everything: list[int], kept: Row) -> tuple[list[int], list[int]]:
        """Prompt and output, by what is remembered of either."""
        length = len(kept.prompt)
        if length and everything[:length] == kept.prompt:
            return kept.prompt, everything[length:]
        length = len(everything) - len(kept.output)
        if length >= 0 and everything[length:] == kept.output:
            return everything[:length], kept.output
        raise InconsistencyError(
            f"all_input_ids of row {self.row} neither begin with the request's prompt nor end with its "
            "output; give output_ids as well, or prefill it again"
        )

    def _check_known(self, params: SamplingParams) -> None:
        """Raise where the settings need tokens that nobody has told."""
        if self.everything is None:
            self._check_prompt(params)
        if self.is_prefill or self.output is not None:
            return
        for name in ("frequency_penalty", "presence_penalty"):
            if params[name] != 0:
                raise InconsistencyError(f"{name} in row {self.row} needs output_ids")
        if self.everything is None and params.seed is not None and not is_greedy(params):
            raise InconsistencyError(
                f"seed={params.seed} in row {self.row} is not allowed here: without request_ids or token "
                "ids nothing says which token this is, and every step would draw the same number"
            )

    def _check_prompt(self, params: SamplingParams) -> None:
        if params.repetition_penalty != 1:
            raise InconsistencyError(f"repetition_penalty in row {self.row} needs all_input_ids")
