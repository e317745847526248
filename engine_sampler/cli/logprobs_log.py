"""The logprobs of generated tokens, as `engine-sampler generate --logprobs` prints them."""

from __future__ import annotations

from ..arithmetic import Logprobs
from ..explain.labels import token_text
from ..scheduler import RequestId, StepResult
from ..tokenizer import Tokenizer


class LogprobsLog:
    """Lines with the logprobs of every token, by request; none if no request asks for them."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._lines: dict[RequestId, list[list[str]]] = {}

    def add(self, result: StepResult) -> None:
        """Note the tokens of a step, one row for each request, and drop those that it takes back."""
        for i, request_id in enumerate(result.request_ids):
            tokens = self._lines.setdefault(request_id, [])
            if result.rewinds and result.rewinds[i]:
                del tokens[-result.rewinds[i] :]
            if result.logprobs is not None and result.token_ids[i] >= 0:
                tables = result.logprobs.by_mode.items()
                tokens.append([self._line(mode, entries, i) for mode, entries in tables if entries.ranks[i]])

    def lines(self, request_id: RequestId) -> list[str]:
        """One line per token and mode: the token, its logprob and rank, and the likeliest tokens."""
        return [line for lines in self._lines.get(request_id, []) for line in lines]

    def _line(self, mode: str, entries: Logprobs, i: int) -> str:
        cells = [
            f"{token_text(self._tokenizer, int(t))} {logprob:.4f}"
            for t, logprob in zip(entries.token_ids[i], entries.logprobs[i], strict=True)
            if t >= 0
        ]
        chosen = f"{cells[0]} (rank {entries.ranks[i]})"
        return " ".join(filter(None, [mode, chosen + (":" if len(cells) > 1 else ""), "  ".join(cells[1:])]))
