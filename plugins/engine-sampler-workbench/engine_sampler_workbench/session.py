"""The text of a page: one request with its rows, and the same rows under other settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine_sampler import SamplingParams, Scheduler, process_logits, sample
from engine_sampler.arithmetic import log_sum_exp
from engine_sampler.explain import TraceReading, trace
from engine_sampler.for_bridges import GRAMMAR_OPTIONS, STRUCTURED_PARAMS

from .sources import Source

MOST_TOKENS = 400
MOST_ROW_BYTES = 2**26
"""What the rows of a text may take."""
SHOWN = 60
"""The likeliest tokens that are followed through a row."""
DRAWS = 1000


class Token(NamedTuple):
    """A drawn token; `probability` is that of the model, before the chain. The id is −1 if there is none."""

    token_id: int
    text: str
    probability: float


class DrawnRow(NamedTuple):
    """Logits [vocab], and the logarithm of the sum of their exponentials."""

    logits: np.ndarray
    total: float


class Text:
    """A request that is drawn token by token, with the row of each.

    length  how many tokens are wanted; `most` is how many rows a page keeps.
    before  the tokens under the settings before, for comparison.
    notes   what the selector noted with each token, but not with the one that ends the text.
    ended   why no more tokens follow; "" while they may.
    """

    def __init__(self, source: Source, prompt: Sequence[int], params: SamplingParams, length: int) -> None:
        self.source, self.params, self.prompt = source, params, list(prompt)
        self.scheduler = Scheduler(
            source.vocab_size, source.tokenizer, eos_token_ids=source.eos_token_ids, postpone=False
        )
        self.request = self.scheduler.add(params, self.prompt)
        self.notes: list[float | None] | None = None
        self.most = max(1, min(MOST_TOKENS, MOST_ROW_BYTES // (4 * source.vocab_size)))
        self.length = min(length, self.most)
        self.tokens: list[Token] = []
        self.rows: list[DrawnRow] = []
        self.before: list[int] = []
        self.ended = ""

    @property
    def ids(self) -> list[int]:
        """The tokens drawn."""
        return [token.token_id for token in self.tokens]

    @property
    def wants_more(self) -> bool:
        """Whether `advance` is to be called again."""
        return not self.ended and len(self.tokens) < self.length

    def advance(self) -> None:
        """Draw one token, or say in `ended` why there is none. Raises EngineDied, and ValueError from the
        model."""
        index = len(self.tokens)
        if index == len(self.rows):
            logits = self.source.row([*self.prompt, *self.ids], index)
            if logits is None:
                self.ended = "no more rows"
                return
            self.rows.append(DrawnRow(logits, float(log_sum_exp(logits))))
        result = self.scheduler.step(self.rows[index].logits[None])
        if result.finish_reasons[0]:
            self.ended = str(result.errors[0] or result.stop_reasons[0] or "end of text")
        else:
            self.notes = self.scheduler.export(self.request)["notes"]
        if (token_id := int(result.token_ids[0])) >= 0:
            self.tokens.append(self.token(token_id, self.rows[index]))

    def under(self, params: SamplingParams) -> Text:
        """The same prompt under other settings, from the rows known here as far as they are the same."""
        new = Text(self.source, self.prompt, params, self.length)
        new.before = self.ids
        for index, row in enumerate(self.rows[: self.length]):
            new.rows.append(row)
            new.advance()
            if new.ended or (new.ids != new.before[: index + 1] and not self.source.is_fixed):
                break
        return new

    def token(self, token_id: int, row: DrawnRow) -> Token:
        """A token as it stands in a text; its number if its text is not known."""
        tokenizer = self.source.tokenizer
        data = tokenizer.token_bytes[token_id] if tokenizer and 0 <= token_id < len(tokenizer) else b""
        text = data.decode("utf-8", errors="replace") or (f"#{token_id} " if token_id >= 0 else "✕")
        return Token(token_id, text, float(np.exp(row.logits[token_id] - row.total)) if token_id >= 0 else 0)

    def differs(self, index: int) -> bool:
        """Whether a token is another one than under the settings before."""
        return bool(self.before) and self.before[index : index + 1] != [self.tokens[index].token_id]

    def reading(self, index: int) -> TraceReading:
        """The row of a token, step by step."""
        source, history = self.source, self.ids[:index]
        steps = trace(
            self.rows[index].logits,
            self.params,
            prompt_token_ids=self.prompt,
            output_token_ids=history,
            output_notes=self.notes and self.notes[:index],
            tokenizer=source.tokenizer,
            eos_token_ids=source.eos_token_ids,
            top=SHOWN,
        )
        position = len(self.prompt) + index
        return TraceReading(steps, source.tokenizer, seed=self.params.seed, position=position)

    def draw_text(self, index: int, reading: TraceReading) -> str:
        """Where the draw of a token fell, or that its row is not the one it was drawn from."""
        if reading.chosen == self.ids[index]:
            return reading.draw_text
        drawn = reading.label(self.ids[index])
        return f"The text has {drawn} here, from a phase of its own; this row shows the base parameters."


class Comparison(NamedTuple):
    """Two chains on the rows of one text.

    tokens  for each row the token of each chain, after the text's own tokens before it.
    draws   of `DRAWS` seeds, how many draw each token from the row chosen, for each chain.
    """

    tokens: list[list[Token]]
    draws: list[Counter[int]]

    @property
    def differing(self) -> int:
        """The number of rows from which the two draw different tokens."""
        return sum(one.token_id != other.token_id for one, other in self.tokens)


def compare(text: Text, chosen: int, other: Mapping[str, Any]) -> Comparison:
    """The chain of `text` beside another one, which draws with the same seed."""
    chains = (text.params, SamplingParams(**{**other, "seed": text.params.seed}))
    count = len(text.tokens)
    rows, outputs = np.stack([row.logits for row in text.rows[:count]]), [text.ids[:i] for i in range(count)]
    drawn = [sample(rows, params, **_history(text, outputs)).token_ids.tolist() for params in chains]
    tokens = [[text.token(t, row) for t in pair] for row, *pair in zip(text.rows, *drawn, strict=False)]
    return Comparison(tokens, [_draws(text, chosen, params) for params in chains])


def _draws(text: Text, chosen: int, params: SamplingParams) -> Counter[int]:
    """The tokens that `DRAWS` seeds draw. The mask of a grammar is the same for all: it is taken once."""
    masking = {*STRUCTURED_PARAMS, *GRAMMAR_OPTIONS, "grammar_bias"}
    mask = {name: value for name, value in params.given.items() if name in masking}
    rest = SamplingParams(**{name: value for name, value in params.given.items() if name not in masking})
    row, output = text.rows[chosen].logits[None], [text.ids[:chosen]]
    if mask:
        row = process_logits(row, SamplingParams(**mask), **_history(text, output))
    seeds = [rest.replace(seed=((params.seed or 0) + i) % 2**63) for i in range(DRAWS)]
    rows = np.broadcast_to(row, (DRAWS, row.shape[1]))
    return Counter(
        t for t in sample(rows, seeds, **_history(text, output * DRAWS)).token_ids.tolist() if t >= 0
    )


def _history(text: Text, outputs: list[list[int]]) -> dict[str, Any]:
    prompts = [text.prompt] * len(outputs)
    return {"prompt_token_ids": prompts, "output_token_ids": outputs, "tokenizer": text.source.tokenizer}
