"""What is reported of tokens, as `engine-sampler generate` prints it: logprobs, those of named tokens, and
sampling masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arithmetic import GivenLogprobs, Logprobs
from ..explain.labels import token_text
from ..scheduler import RequestId, StepResult
from ..session import Session
from ..tokenizer import Tokenizer

ROWS = 64
"""The rows of a prompt that the model gives at once."""


class TokenLog:
    """Lines about every token, by request; none if no request asks for them."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._lines: dict[RequestId, list[list[str]]] = {}

    def add(self, result: StepResult) -> None:
        """Note the tokens of a step, and drop those that it takes back."""
        for i, request_id in enumerate(result.request_ids):
            tokens = self._lines.setdefault(request_id, [])
            del tokens[len(tokens) - (result.rewinds[i] if result.rewinds else 0) :]
            first = int(result.first_rows[i])
            tokens += [list(self._lines_of(result, first + row)) for row in result.accepted_rows(i)]

    def lines(self, request_id: RequestId) -> list[str]:
        """For each token one line per mode with its logprob and rank and the likeliest tokens, one per mode
        with those of the named tokens, and one with the tokens from which it was drawn."""
        return [line for lines in self._lines.get(request_id, []) for line in lines]

    def prompt_lines(self, session: Session, request_id: RequestId, start: int) -> Iterator[str]:
        """The same for the tokens of a request's prompt that come after number `start`, from the model."""
        if not session.checks_drafts:
            raise ValueError("logprobs of the prompt are not allowed with an engine that checks no drafts")
        ids = session.scheduler.record(request_id).prompt_token_ids
        for begin in range(start, len(ids) - 1, ROWS):
            draft = ids[begin + 1 : min(begin + ROWS, len(ids) - 1)]
            rows = session.forward_drafts({request_id: ids[: begin + 1]}, {request_id: draft})
            scores = session.scheduler.score_prompt(request_id, rows)
            for row in range(1 + len(draft)):
                of_token = self._logprobs(ids[begin + 1 + row], scores.logprobs, scores.given, row)
                yield from (f"prompt {line}" for line in of_token)

    def _lines_of(self, result: StepResult, row: int) -> Iterator[str]:
        drawn = int(result.token_ids[row])
        yield from self._logprobs(drawn, result.logprobs, result.given_logprobs, row)
        if result.sampling_mask is not None:
            mask = result.sampling_mask
            listed = mask.listed(row)
            tokens = "  ".join(map(self._text, listed))
            if mask.is_capped[row]:
                survivors = "more tokens than the mask may list"
            elif not mask.is_inverted[row]:
                survivors = f"{len(listed):,} tokens: {tokens}"
            else:
                survivors = f"all tokens but {len(listed):,}: {tokens}" if len(listed) else "all tokens"
            yield f"{self._text(drawn)}: {mask.logprobs[row]:.4f} among {survivors}"

    def _logprobs(
        self, token_id: int, logprobs: Logprobs | None, given: GivenLogprobs | None, row: int
    ) -> Iterator[str]:
        for mode, table in () if logprobs is None else logprobs.by_mode.items():
            if table.ranks[row]:
                yield self._likeliest(mode, table, row)
        for mode, those in () if given is None else given.by_mode.items():
            if named := self._named(those, row):
                yield " ".join(filter(None, [mode, f"{self._text(token_id)}: named {named}"]))

    def _likeliest(self, mode: str, table: Logprobs, row: int) -> str:
        entries = table.row(row)
        cells = [
            f"{self._text(t)} {logprob:.4f}"
            for t, logprob in zip(entries.token_ids, entries.logprobs, strict=True)
        ]
        chosen = f"{cells[0]} (rank {entries.rank})"
        return " ".join(filter(None, [mode, chosen + (":" if len(cells) > 1 else ""), "  ".join(cells[1:])]))

    def _named(self, given: GivenLogprobs, row: int) -> str:
        entries = zip(*given.row(row), strict=True)
        return "  ".join(f"{self._text(t)} {logprob:.4f} (rank {rank})" for t, logprob, rank in entries)

    def _text(self, token_id: int | np.integer[Any]) -> str:
        return token_text(self._tokenizer, int(token_id))
