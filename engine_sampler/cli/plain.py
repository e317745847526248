"""The output of `plugins`, `check` and `explain` as plain lines, for installations without rich."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from ..explain import TraceStep, notable_tokens
from ..explain.labels import hundredths, settings_text, shortened
from ..testing.results import CheckResult
from .sections import Section

_GAP = "  "
_WIDEST = 28
"""Columns are no wider, but for single cells."""
_LEAST_TEXT = 20
"""The least room for the last column."""


def section_lines(section: Section) -> Iterator[str]:
    """The title, then the rows without their headings."""
    yield section.title
    yield from _columns(section.rows)
    yield ""


def check_text(check: CheckResult) -> str:
    """One check of a library as a line."""
    return _GAP.join((check.outcome.ljust(12), check.name.ljust(22), check.detail)).rstrip()


def explanation_lines(steps: Sequence[TraceStep], top: int) -> Iterator[str]:
    """The steps, then the most important tokens, followed through all steps."""
    rows = [("", "step", "left", "kept %", "bits", "backend", "settings")]
    for number, step in enumerate(steps):
        kept = hundredths(step.kept_mass) if number else ""
        settings = settings_text(step.settings, step.name)
        bits = f"{step.entropy_bits:.2f}"
        rows.append((str(number), step.name, f"{step.candidates:,}", kept, bits, step.backend, settings))
    yield from _columns(rows)
    yield ""
    yield "probability of each token after each step, %"
    texts = {token.token_id: token.text for step in steps for token in step.top}
    shares = [("token", *map(str, range(len(steps))))]
    for token_id in notable_tokens(steps, top):
        label = shortened(texts[token_id], 20)
        shares.append((label, *(_share(step, token_id) for step in steps)))
    yield from _columns(shares)


def _share(step: TraceStep, token_id: int) -> str:
    if step.role == "selector":
        return "chosen" if token_id == step.token_id else ""
    value = float(step.probabilities[token_id])
    return hundredths(value) if value > 0 else "·"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns under each other; the last one is wrapped. It begins on a line of its own where
    a cell before it is too wide."""
    *before, _ = zip(*rows, strict=True)
    widths = [max((len(cell) for cell in column if len(cell) <= _WIDEST), default=0) for column in before]
    indent = min(sum(widths) + len(_GAP) * len(widths), _screen_width() - _LEAST_TEXT)
    for *cells, text in rows:
        start = _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        lines = textwrap.wrap(text, _screen_width() - indent, break_on_hyphens=False)
        if not lines or len(start) + len(_GAP) > indent:
            yield start
        else:
            yield start.ljust(indent) + lines.pop(0)
        yield from (" " * indent + line for line in lines)


def _screen_width() -> int:
    """That of the terminal or of COLUMNS, 80 where there is neither, such as in a pipe."""
    return max(2 * _LEAST_TEXT, shutil.get_terminal_size().columns)
