"""The speeds of whole engines as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ..render import number, precise, table
from .cases import Case
from .engines import LLAMA_CPP, TRANSFORMERS
from .race import Speed

Speeds = Mapping[str, Mapping[Case, Sequence[Speed]]]
"""Engine → case → the speeds of its sides, the engine's own first."""


def report(speeds: Speeds) -> str:
    """A table for each engine, and how much the rounds differ."""
    parts = [part for engine, found in speeds.items() for part in (f"### {engine}", _table(found))]
    spreads = [speed.spread for found in speeds.values() for sides in found.values() for speed in sides]
    noise = (
        f"The interquartile range of the rounds is {median(spreads):.0%} of the median in the middle of the "
        f"{len(spreads)} speeds, and {max(spreads):.0%} in the worst case."
    )
    return "\n\n".join([*parts, noise])


def headline(speeds: Speeds) -> str:
    """The ratios for most rows with the chain alone and with a grammar, for docs/performance.md."""
    parts = []
    for engine in (LLAMA_CPP, TRANSFORMERS):
        cases = [case for case in speeds.get(engine, ()) if not case.logprobs]
        for case in sorted(cases, key=lambda c: c.rows)[-2:]:
            own, ours = speeds[engine][case][:2]
            gain = _gain(ours, own)
            parts.append(f"{engine}, {case}: {ours.name} {gain}")
    return "; ".join(parts)


def _table(found: Mapping[Case, Sequence[Speed]]) -> str:
    rows = []
    for case, (own, *ours) in found.items():
        for i, speed in enumerate(ours):
            theirs = [str(case.rows), case.extras, *_cells(own)] if i == 0 else [""] * 4
            rows.append([*theirs, speed.name, *_cells(speed), _gain(speed, own)])
    shares = "outside the model"
    return table(["rows", "sampling", "its own, tokens/s", shares, "ours", "tokens/s", shares, "gain"], rows)


def _cells(speed: Speed) -> list[str]:
    """Tokens a second, and the time outside of the model."""
    return [number(speed.tokens_per_second), f"{precise(1e3 * speed.other_seconds)} ms, {speed.share:.0%}"]


def _gain(ours: Speed, own: Speed) -> str:
    return f"{precise(ours.tokens_per_second / own.tokens_per_second)}×"
