"""The text of a page: one request, the rows that it was drawn from, and the same rows under other settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from engine_sampler import Sampled, SamplingParams, Scheduler, process_logits, sample
from engine_sampler.arithmetic import log_sum_exp
from engine_sampler.for_bridges import GRAMMAR_OPTIONS, STRUCTURED_PARAMS

from .sources import Source

MOST_TOKENS = 400
MOST_ROW_BYTES = 2**26
"""What the rows of a text may take."""
DRAWS = 1000


class Token(NamedTuple):
    """A drawn token; `probability` is that of the model, before the chain."""

    token_id: int
    text: str
    probability: float


class Row(NamedTuple):
    """Logits [vocab], and the logarithm of the sum of their exponentials."""

    logits: np.ndarray
    total: float


class Text:
    """A request that is drawn token by token, with the row of each.

    length  how many tokens are wanted.
    before  the tokens under the settings before, for comparison.
    ended   why no more tokens follow; "" while they may.
    """

    def __init__(
        self, source: Source, prompt_ids: Sequence[int], params: SamplingParams, length: int = 0
    ) -> None:
        self.source, self.params = source, params
        self.prompt_ids = list(prompt_ids)
        self.scheduler = Scheduler(source.vocab_size, source.tokenizer, eos_token_ids=source.eos_token_ids)
        self.request = self.scheduler.add(params, self.prompt_ids)
        self.most = max(1, min(MOST_TOKENS, MOST_ROW_BYTES // (4 * source.vocab_size)))
        self.length = min(length, self.most)
        self.tokens: list[Token] = []
        self.rows: list[Row] = []
        self.before: list[int] = []
        self.ended = ""

    @property
    def token_ids(self) -> list[int]:
        return [token.token_id for token in self.tokens]

    @property
    def wants_more(self) -> bool:
        """Whether `advance` is to be called again."""
        return not self.ended and len(self.tokens) < self.length

    def advance(self) -> bool:
        """Draw one token; False, and `ended` says why, if there is none. Raises EngineDied, and ValueError from
        the model."""
        index = len(self.tokens)
        if index >= self.most:
            self.ended = f"a page keeps {self.most} rows of {self.source.vocab_size:,} tokens"
        if not self.ended and index == len(self.rows):
            logits = self.source.row([*self.prompt_ids, *self.token_ids], index)
            if logits is None:
                self.ended = "no more rows"
            else:
                self.rows.append(Row(logits, float(log_sum_exp(logits))))
        if self.ended:
            return False
        return self._draw(self.rows[index])

    def _draw(self, row: Row) -> bool:
        result = self.scheduler.step(row.logits[None])
        token_id = int(result.token_ids[0])
        if result.finish_reasons[0]:
            self.ended = str(result.errors[0] or result.stop_reasons[0] or "end of text")
        if token_id < 0:
            self.ended = self.ended or "no token"
            return False
        probability = float(np.exp(row.logits[token_id] - row.total))
        self.tokens.append(Token(token_id, shown(self.source, token_id), probability))
        return True

    def under(self, params: SamplingParams) -> Text:
        """The same prompt under other settings, drawn from the rows known here as far as they are the same."""
        new = Text(self.source, self.prompt_ids, params, self.length)
        new.before = self.token_ids
        for index, row in enumerate(self.rows[: self.length]):
            new.rows.append(row)
            if not new.advance():
                break
            same = index < len(self.tokens) and new.tokens[index].token_id == self.tokens[index].token_id
            if not same and not self.source.is_fixed:
                break
        return new

    def differs(self, index: int) -> bool:
        """Whether token `index` is another one than under the settings before."""
        before = self.before
        return bool(before) and (index >= len(before) or before[index] != self.tokens[index].token_id)


def shown(source: Source, token_id: int) -> str:
    """A token as it stands in a text; its number if its text is not known."""
    tokenizer = source.tokenizer
    data = tokenizer.token_bytes[token_id] if tokenizer and token_id < len(tokenizer) else b""
    return data.decode("utf-8", errors="replace") or f"#{token_id} "


@dataclass(frozen=True)
class Comparison:
    """Two chains on the rows of one text.

    tokens  the token of each chain for each row, after the text's own tokens before it.
    draws   of `DRAWS` seeds, how many draw each token from the row chosen, for each chain.
    """

    tokens: list[tuple[Token, Token]]
    draws: tuple[Counter[int], Counter[int]]

    @property
    def differing(self) -> int:
        """The number of rows from which the two draw different tokens."""
        return sum(one.token_id != other.token_id for one, other in self.tokens)


def compare(text: Text, chosen: int, other: Mapping[str, Any]) -> Comparison:
    """The chain of `text` beside another one, which draws with the same seed."""
    chains = (text.params, SamplingParams(**{**other, "seed": text.params.seed}))
    count = len(text.tokens)
    drawn = [_drawn_along(text, params).token_ids.tolist() for params in chains]
    tokens = [
        tuple(
            Token(t, shown(text.source, t), float(np.exp(row.logits[t] - row.total))) if t >= 0 else _NONE
            for t in pair
        )
        for row, *pair in zip(text.rows[:count], *drawn, strict=True)
    ]
    draws = tuple(_draws(text, chosen, params) for params in chains)
    return Comparison(tokens, draws)  # type: ignore[arg-type]


_NONE = Token(-1, "✕", 0.0)
"""In place of a token that a chain cannot draw."""


def _drawn_along(text: Text, params: SamplingParams) -> Sampled:
    ids, count = text.token_ids, len(text.tokens)
    return sample(
        np.stack([row.logits for row in text.rows[:count]]),
        params,
        prompt_token_ids=[text.prompt_ids] * count,
        output_token_ids=[ids[:i] for i in range(count)],
        tokenizer=text.source.tokenizer,
    )


def _draws(text: Text, chosen: int, params: SamplingParams) -> Counter[int]:
    """The tokens that `DRAWS` seeds draw. The mask of a grammar is the same for all: it is taken once."""
    masking = {*STRUCTURED_PARAMS, *GRAMMAR_OPTIONS}
    mask = {name: value for name, value in params.given.items() if name in masking}
    rest = SamplingParams(**{name: value for name, value in params.given.items() if name not in masking})
    history = ([text.prompt_ids], [text.token_ids[:chosen]], text.source.tokenizer)
    row = text.rows[chosen].logits[None]
    if mask:
        row = process_logits(row, SamplingParams(**mask), **_history(1, *history))
    first = params.seed or 0
    seeds = [rest.replace(seed=(first + i) % 2**63) for i in range(DRAWS)]
    drawn = sample(np.broadcast_to(row, (DRAWS, row.shape[1])), seeds, **_history(DRAWS, *history))
    return Counter(int(token_id) for token_id in drawn.token_ids if token_id >= 0)


def _history(rows: int, prompt: list[list[int]], output: list[list[int]], tokenizer: Any) -> dict[str, Any]:
    return {
        "prompt_token_ids": prompt * rows,
        "output_token_ids": output * rows,
        "tokenizer": tokenizer,
    }
