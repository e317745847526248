"""One row, step by step: what each sampler removed, at which probability it cut, and where the draw fell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine_sampler.arithmetic import SELECTOR_STREAM, draw64
from engine_sampler.explain import TraceStep, trace
from engine_sampler.explain.labels import token_text

from .session import Text

SHOWN = 60
"""The likeliest tokens that are followed."""
_LEAST = 5e-324
"""A probability that float64 rounds to zero."""


def percent(share: float) -> str:
    """A share of 1 with three digits, as thresholds need: "0.0406 %"."""
    return f"{100 * share:.3g} %"


@dataclass(frozen=True)
class Cut:
    """Which probabilities, before the step, stay: those from `low` to `high`. `removed` are the greatest of those
    below and the least of those above, 0 and inf if there are none."""

    low: float
    high: float
    removed: tuple[float, float]

    @property
    def line(self) -> float | None:
        """Between what stays and what goes below it, for a line in a picture."""
        return self.low if self.removed[0] > 0 and self.removed[0] <= self.low else None

    @property
    def text(self) -> str:
        """What stays, in words."""
        below, above = self.removed
        if below > self.low:
            return "chosen by another rule than probability"
        parts = [f"≥ {percent(self.low)}"] if below > 0 else []
        return " and ".join([*parts, *([f"≤ {percent(self.high)}"] if above < np.inf else [])])


@dataclass(frozen=True)
class Draw:
    """The draw: a random number in [0, 1), which fell in the share of `token_id`, [start, end), when the tokens
    that are left stand in the order of their ids. None where the selector draws by a rule of its own."""

    number: float
    share: tuple[float, float] | None


class RowView:
    """A row of a text under its chain.

    steps       of the trace, the row as given first, the selector last.
    token_ids   the `SHOWN` likeliest at any step, by their probability in the row as given.
    removed_at  int16 [vocab], the number of the step that removed a token; 0: it is left.
    cuts        the cut of each step; None for one that removes nothing.
    """

    def __init__(self, text: Text, index: int) -> None:
        row, ids = text.rows[index], text.token_ids
        self.text, self.index, self.logits = text, index, row.logits
        self.tokenizer = text.source.tokenizer
        self.steps: list[TraceStep] = trace(
            row.logits,
            text.params,
            prompt_token_ids=text.prompt_ids,
            output_token_ids=ids[:index],
            tokenizer=self.tokenizer,
            eos_token_ids=text.source.eos_token_ids,
            top=SHOWN,
        )
        self.chosen = self.steps[-1].token_id
        self.token_ids = self._likeliest()
        self.removed_at = np.zeros(len(row.logits), np.int16)
        self.cuts = [self._cut(number) for number in range(len(self.steps))]
        self.draw = self._draw()

    def _likeliest(self) -> list[int]:
        first = self.steps[0].probabilities
        ids = {token.token_id for step in (self.steps[0], self.steps[-2]) for token in step.top}
        ids.add(int(self.chosen or 0))
        best = np.maximum(first, self.steps[-2].probabilities)
        kept = sorted(ids, key=lambda t: (t != self.chosen, -best[t], t))[:SHOWN]
        return sorted(kept, key=lambda t: (-first[t], t))

    def _cut(self, number: int) -> Cut | None:
        step = self.steps[number]
        if not number or not step.removed or step.role == "selector":
            return None
        before = self.steps[number - 1].probabilities
        alive = step.probabilities > 0
        gone = (before > 0) & ~alive
        self.removed_at[gone] = number
        kept, lost = before[alive], before[gone]
        if not len(lost):
            return None
        low, high = float(kept.min()), float(kept.max())
        below, above = lost[lost < high], lost[lost >= high]
        return Cut(low, high, (float(below.max(initial=0)), float(above.min(initial=np.inf))))

    def _draw(self) -> Draw | None:
        if self.steps[-1].name == "greedy" or self.chosen is None:
            return None
        seed = np.array([self.text.params.seed or 0]).astype(np.uint64)
        position = np.array([len(self.text.prompt_ids) + self.index], np.int64)
        number = int(draw64(seed, position, SELECTOR_STREAM)[0]) / 2.0**64
        share = self.share_of(self.chosen)
        fits = share[0] - 1e-6 <= number < share[1] + 1e-6
        return Draw(number, share if fits else None)

    def share_of(self, token_id: int) -> tuple[float, float]:
        """The part of [0, 1) in which a random number draws this token."""
        left = self.steps[-2].probabilities
        start = float(left[:token_id].sum())
        return start, start + float(left[token_id])

    def label(self, token_id: int) -> str:
        """A token on one line."""
        return token_text(self.tokenizer, token_id)

    def found(self, typed: str) -> list[int]:
        """The tokens that a text names: `#12` by its id, or all with these bytes, with or without a space."""
        if typed.startswith("#") and typed[1:].isdecimal() and int(typed[1:]) < len(self.logits):
            return [int(typed[1:])]
        if self.tokenizer is None or not typed:
            return []
        spelled = typed.replace("␣", " ").encode("utf-8", "replace")
        return [*self.tokenizer.ids_of(spelled), *self.tokenizer.ids_of(b" " + spelled)]

    def why_not(self, typed: str) -> list[str]:
        """Sentences about each token that `typed` names."""
        if found := self.found(typed):
            return [self._why(token_id) for token_id in found[:4]]
        return [f"No token is written {typed!r}: type its exact text, or its id as #12."]

    def _why(self, token_id: int) -> str:
        first = self.steps[0].probabilities
        name = f"{self.label(token_id)} (#{token_id})"
        if self.logits[token_id] == -np.inf:
            return f"{name} is impossible: the engine gave it −inf."
        rank = 1 + int((self.logits > self.logits[token_id]).sum())
        start = f"{name} is number {rank:,} of the row, with {percent(max(float(first[token_id]), _LEAST))}"
        number = int(self.removed_at[token_id])
        cut = self.cuts[number]
        if number and cut is not None:
            had = percent(max(float(self.steps[number - 1].probabilities[token_id]), _LEAST))
            rule = f": it keeps {cut.text}" if cut.line or cut.removed[1] < np.inf else ""
            return f"{start}. {self.steps[number].name} removed it when it had {had}{rule}."
        left = percent(max(float(self.steps[-2].probabilities[token_id]), _LEAST))
        if token_id == self.chosen:
            return f"{start}; the chain left it with {left}, and it was chosen."
        if self.draw is None or self.draw.share is None:
            return f"{start}; the chain left it with {left}, but another was chosen."
        low, high = self.share_of(token_id)
        at = f"{low:.4f} to {high:.4f}"
        return f"{start}; the chain left it with {left}. It is drawn from {at}; the draw was {self.draw.number:.4f}."

    def csv(self) -> str:
        """All tokens: id, text, logit, probability after each step, and what removed it."""
        columns = [step.probabilities for step in self.steps[:-1]]
        names = [f"{number} {step.name}" for number, step in enumerate(self.steps[:-1])]
        lines = [",".join(["token_id", "text", "logit", *map(_quoted, names), "removed_by"])]
        for token_id in np.argsort(-self.logits, kind="stable").tolist():
            removed = self.removed_at[token_id]
            numbers = [f"{self.logits[token_id]:.6g}", *(f"{column[token_id]:.6g}" for column in columns)]
            by = self.steps[removed].name if removed else ""
            lines.append(",".join([str(token_id), _quoted(self.label(token_id)), *numbers, by]))
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A field of a CSV; a table must not take it for a formula."""
    safe = "'" + text if text[:1] in "=+-@" else text
    return '"' + safe.replace('"', '""') + '"'
