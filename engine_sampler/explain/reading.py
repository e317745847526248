"""A trace, read for people: what removed a token, at which probability each step cut, where the draw fell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..arithmetic import SELECTOR_STREAM, draw64
from ..tokenizer import Tokenizer
from .labels import token_text
from .tracing import TraceStep

_SLACK = 1e-6
"""Shares here are of float64 probabilities; the selector draws by integer weights."""
_LONGEST_ID = 12
"""Characters of a token's id, with the `#`."""
_NAMED = 4
"""A text may be the text of several tokens; so many of them are explained."""


@dataclass(frozen=True)
class Cut:
    """Which probabilities, before a step, stay.

    low, high     the least and the greatest that stay.
    below, above  the greatest that goes below `high`, 0 if none does; the least that goes above it, or inf.
    """

    low: float
    high: float
    below: float
    above: float

    @property
    def is_by_probability(self) -> bool:
        """Whether all that goes is less, or greater, than all that stays."""
        return self.below <= self.low

    @property
    def lines(self) -> list[float]:
        """The probabilities at which it cuts: none if the rule is another one."""
        return [self.low] * (self.is_by_probability and self.below > 0) + [self.high] * (self.above < np.inf)

    @property
    def text(self) -> str:
        """What stays, in words."""
        if not self.is_by_probability:
            return "tokens by another rule than their probability"
        parts = [f"≥ {digits(self.low)}"] if self.below > 0 else []
        return " and ".join([*parts, *([f"≤ {digits(self.high)}"] if self.above < np.inf else [])])


@dataclass(frozen=True)
class Draw:
    """A random number in [0, 1), and the share of it, [start, end), in which the chosen token is drawn.

    The tokens that are left stand in the order of their ids. `share` is None if the selector draws by a rule
    of its own."""

    number: float
    share: tuple[float, float] | None


class TraceReading:
    """What a `trace` says of each token.

    steps       the trace.
    seed        that of its parameters; `position` is how many tokens its history has: both give the draw.
    removed_at  int16 [vocab], the number of the step that removed a token; 0: none did.
    cuts        the cut of each step; None for a step that removes nothing, and for the selector.
    draw        None for a greedy choice.
    """

    def __init__(
        self,
        steps: Sequence[TraceStep],
        tokenizer: Tokenizer | None = None,
        *,
        seed: int | None = None,
        position: int = 0,
    ) -> None:
        self.steps, self.tokenizer = steps, tokenizer
        self.removed_at = np.zeros(len(steps[0].probabilities), np.int16)
        self.cuts = [self._cut(number) for number in range(len(steps))]
        self.draw = self._draw(seed or 0, position)

    @property
    def chosen(self) -> int:
        """The token that the selector chose."""
        return self.steps[-1].token_id or 0

    def _cut(self, number: int) -> Cut | None:
        step = self.steps[number]
        if not number or not step.removed or step.role == "selector":
            return None
        before = self.steps[number - 1].probabilities
        left = step.probabilities > 0
        gone = (before > 0) & ~left
        self.removed_at[gone] = number
        kept, lost = before[left], before[gone]
        if not len(lost) or not len(kept):
            return None
        high = float(kept.max())
        below, above = lost[lost <= high].max(initial=0), lost[lost > high].min(initial=np.inf)
        return Cut(float(kept.min()), high, float(below), float(above))

    def _draw(self, seed: int, position: int) -> Draw | None:
        if self.steps[-1].name == "greedy":
            return None
        at = np.array([position], np.int64)
        number = int(draw64(np.array([seed], np.uint64), at, SELECTOR_STREAM)[0]) / 2.0**64
        start, end = self.share_of(self.chosen)
        return Draw(number, (start, end) if start - _SLACK <= number < end + _SLACK else None)

    def share_of(self, token_id: int) -> tuple[float, float]:
        """The part of [0, 1) in which a random number draws a token."""
        left = self.steps[-2].probabilities
        start = float(left[:token_id].sum())
        return start, start + float(left[token_id])

    def label(self, token_id: int) -> str:
        """A token on one line."""
        return token_text(self.tokenizer, token_id)

    def named(self, typed: str) -> list[int]:
        """The tokens that a text names: `#12` by its id, else all with these bytes, also after a space."""
        if typed.startswith("#") and typed[1:].isdecimal() and len(typed) <= _LONGEST_ID:
            return [int(typed[1:])] * (int(typed[1:]) < len(self.removed_at))
        if self.tokenizer is None or not typed:
            return []
        data = typed.replace("␣", " ").encode("utf-8", "replace")
        return [*self.tokenizer.ids_of(data), *self.tokenizer.ids_of(b" " + data)][:_NAMED]

    def why_not(self, typed: str) -> list[str]:
        """A sentence about each token that `named` finds, or one that says that there is none."""
        nothing = [f"No token is written {typed!r}: type its exact text, or its id as #12."]
        return [self.why(token_id) for token_id in self.named(typed)] or nothing

    def why(self, token_id: int) -> str:
        """What became of a token on its way through the chain, in a sentence or two."""
        first, left = self.steps[0].probabilities, self.steps[-2].probabilities
        name = f"#{token_id}" if self.tokenizer is None else f"{self.label(token_id)} (#{token_id})"
        if not first[token_id]:
            return f"{name} is impossible: the engine gave it −inf, or as good as that."
        rank = 1 + int((first > first[token_id]).sum())
        text = f"{name} is number {rank:,} of the row, with {digits(first[token_id])}"
        number = int(self.removed_at[token_id])
        if cut := self.cuts[number]:
            had = digits(self.steps[number - 1].probabilities[token_id])
            return f"{text}. {self.steps[number].name} removed it when it had {had}: it keeps {cut.text}."
        text += f"; the chain left it with {digits(left[token_id])}"
        if token_id == self.chosen:
            return f"{text}, and it was chosen."
        if self.draw is None or self.draw.share is None:
            return f"{text}, but another was chosen."
        start, end = self.share_of(token_id)
        return f"{text}. It is drawn from {start:.4f} to {end:.4f}; the draw was {self.draw.number:.4f}."

    @property
    def draw_text(self) -> str:
        """The random number, and where it fell, in a sentence."""
        selector = self.steps[-1].name
        if self.draw is None:
            return f"{selector} draws no random number."
        number = f"The random number is {self.draw.number:.6f}"
        if self.draw.share is None:
            return f"{number}; {selector} has a rule of its own for it."
        start, end = self.draw.share
        return f"{number}; it fell between {start:.4f} and {end:.4f}."

    @property
    def summary(self) -> str:
        """From how many tokens and bits to how many, and what was chosen, on one line."""
        ends = (self.steps[0], self.steps[-2])
        first, last = (f"{step.candidates:,} tokens, {step.entropy_bits:.2f} bits" for step in ends)
        return f"{first} → {last} → {self.label(self.chosen)}"

    @property
    def removed_text(self) -> str:
        """How many tokens each step removed, on one line."""
        steps = (step for step, cut in zip(self.steps, self.cuts, strict=True) if cut)
        return ", ".join(f"{step.removed:,} by {step.name}" for step in steps) or "none"

    def csv(self) -> str:
        """All tokens, the likeliest first: id, text, probability after each step, and what removed it."""
        columns = [step.probabilities for step in self.steps[:-1]]
        names = [f"{number} {step.name}" for number, step in enumerate(self.steps[:-1])]
        return "".join(f"{','.join(line)}\r\n" for line in self._lines(names, columns))

    def _lines(self, names: list[str], columns: list[np.ndarray]) -> Iterator[list[str]]:
        yield ["token_id", "text", *map(_quoted, names), "removed_by"]
        for token_id in np.argsort(-columns[0], kind="stable").tolist():
            number = self.removed_at[token_id]
            shares = [f"{column[token_id]:.6g}" for column in columns]
            removed_by = self.steps[number].name if number else ""
            yield [str(token_id), _quoted(self.label(token_id)), *shares, removed_by]


def digits(share: float) -> str:
    """A share of 1 with three digits, as thresholds need: "0.0406 %"."""
    return f"{100 * share:.3g} %"


def _quoted(text: str) -> str:
    """A field of a CSV, which no program takes for a formula."""
    safe = "'" + text if text[:1] in "=+-@" else text
    return '"' + safe.replace('"', '""') + '"'
