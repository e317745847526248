"""Pictures of a row as SVG; colours are classes of the page's style sheet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape

from engine_sampler.explain.labels import hundredths, percent, settings_text, shortened

from .row_view import RowView
from .session import DRAWS, Comparison, Text

LINE, HEADER, LABELS, COLUMN, BAR = 20, 66, 118, 172, 104
_DECADES = 5
"""What a logarithmic scale shows below the greatest probability."""


def text_html(text: Text, chosen: int) -> str:
    """The tokens as buttons, with the probability of each as a class from 0 to 9."""
    parts = []
    for index, token in enumerate(text.tokens):
        classes = ["tok", f"p{_grade(token.probability)}", *["on"] * (index == chosen)]
        classes += ["differs"] * text.differs(index)
        hint = f"{percent(token.probability)} of the model’s distribution"
        if text.differs(index) and index < len(text.before):
            hint += "; another token under the settings before"
        body = escape(token.text).replace("\n", "↵<br>") or "∅"
        parts.append(
            f'<button class="{" ".join(classes)}" data-i="{index}" title="{escape(hint)}" '
            f'aria-pressed="{str(index == chosen).lower()}">{body}</button>'
        )
    return "".join(parts)


def _grade(probability: float) -> int:
    """0 for a token that was most unlikely, 9 for a certain one."""
    return max(0, min(9, int(10 + 2 * math.log2(max(probability, 1e-9)))))


def row_svg(view: RowView, logarithmic: bool) -> str:
    """Tokens in lines, steps in columns: the bar before each step pale, after it full, ✕ where it removed a
    token, a dashed line where it cut."""
    height = HEADER + LINE * len(view.token_ids) + 8
    scale = _scale(view, logarithmic)
    labels = "".join(_label(view, line, token_id) for line, token_id in enumerate(view.token_ids))
    steps = range(len(view.steps) - 1)
    columns = "".join(
        f'<g transform="translate({number * COLUMN},0)">{"".join(_column(view, number, scale, height))}</g>'
        for number in steps
    )
    names = f'<svg class="names" width="{LABELS}" height="{height}" aria-hidden="true">{labels}</svg>'
    width = COLUMN * len(steps)
    title = f"{len(view.token_ids)} tokens after each of {len(steps)} steps"
    return f'{names}<svg width="{width}" height="{height}" role="img" aria-label="{title}">{columns}</svg>'


def _scale(view: RowView, logarithmic: bool) -> Callable[[float], float]:
    most = max(step.top[0].probability for step in view.steps[:-1])
    if logarithmic:
        return lambda p: BAR * max(0.0, 1 + math.log10(p / most) / _DECADES) if p > 0 else 0.0
    return lambda p: BAR * p / most


def _y(line: int) -> int:
    return HEADER + LINE * line


def _label(view: RowView, line: int, token_id: int) -> str:
    name = escape(shortened(view.label(token_id), 13))
    classes = "name chosen" if token_id == view.chosen else "name"
    return f'<text class="{classes}" x="{LABELS - 8}" y="{_y(line) + 14}">{name}</text>'


def _column(view: RowView, number: int, scale: Callable[[float], float], height: int) -> Iterator[str]:
    step, cut = view.steps[number], view.cuts[number]
    before = view.steps[max(number - 1, 0)].probabilities
    settings = shortened(settings_text(step.settings, step.name), 26)
    yield f'<text class="step {step.role}" x="0" y="16">{escape(shortened(step.name, 20))}</text>'
    yield f'<text class="small" x="0" y="31">{escape(settings)}</text>'
    removed = f" · −{step.removed:,}" if step.removed else ""
    figures = f"{step.candidates:,} left{removed} · {step.entropy_bits:.2f} bits"
    yield f'<text class="small" x="0" y="45">{figures}</text>'
    if cut is not None:
        yield f'<text class="small cut" x="0" y="59">keeps {escape(cut.text)}</text>'
    for line, token_id in enumerate(view.token_ids):
        chosen = token_id == view.chosen
        yield from _bar(
            line, float(before[token_id]), float(step.probabilities[token_id]), scale, step.role, chosen
        )
    if cut is not None and cut.line is not None:
        x = scale(cut.line)
        yield f'<line class="cut" x1="{x:.1f}" x2="{x:.1f}" y1="{HEADER - 4}" y2="{height}"/>'


def _bar(
    line: int, before: float, after: float, scale: Callable[[float], float], role: str, chosen: bool
) -> Iterator[str]:
    y, was, now = _y(line) + 3, scale(before), scale(after)
    if was > now:
        yield f'<rect class="was" x="0" y="{y}" width="{was:.1f}" height="14"/>'
    if now:
        kind = "chosen" if chosen else role
        yield f'<rect class="bar {kind}" x="0" y="{y}" width="{now:.1f}" height="14"/>'
    if after > 0:
        yield f'<text class="value" x="{max(was, now) + 4:.1f}" y="{y + 11}">{hundredths(after)}</text>'
    elif before > 0:
        yield f'<text class="gone" x="{was + 4:.1f}" y="{y + 11}">✕</text>'


def draw_svg(view: RowView) -> str:
    """[0, 1) in the order of ids, each token that is left with its share, and where the random number fell."""
    if view.draw is None or view.draw.share is None:
        return ""
    left = view.steps[-2].probabilities
    ids = [t for t in left.nonzero()[0].tolist() if left[t] >= 0.002]
    shares = [(t, *view.share_of(t)) for t in ids]
    parts = []
    for token_id, start, end in shares:
        kind = "chosen" if token_id == view.chosen else "warp"
        title = f"{escape(view.label(token_id))}: {start:.4f} to {end:.4f}"
        parts.append(
            f'<rect class="share {kind}" x="{1000 * start:.2f}" y="14" width="{1000 * (end - start):.2f}" '
            f'height="26"><title>{title}</title></rect>'
        )
        if end - start > 0.05:
            name = escape(shortened(view.label(token_id), max(3, int(80 * (end - start)))))
            parts.append(f'<text class="inside" x="{500 * (start + end):.1f}" y="32">{name}</text>')
    at = 1000 * view.draw.number
    parts.append(f'<path class="mark" d="M{at:.1f} 44 l-6 9 h12 z M{at:.1f} 10 V44"/>')
    return (
        f'<svg class="draw" viewBox="-6 8 1012 48" role="img" aria-label="the draw: {view.draw.number:.4f}">'
        f"{''.join(parts)}</svg>"
    )


def compared_html(comparison: Comparison) -> tuple[str, str]:
    """The tokens of both chains, those that differ marked."""

    def line(which: int) -> str:
        return "".join(
            f'<span class="tok p{_grade(pair[which].probability)}{" differs" if pair[0].token_id != pair[1].token_id else ""}">'
            f"{escape(pair[which].text) or '∅'}</span>"
            for pair in comparison.tokens
        )

    return line(0), line(1)


def draws_svg(draws: Sequence[Counter[int]], label: Callable[[int], str], most: int = 20) -> str:
    """The tokens that the most seeds draw, with a bar for each of two chains."""
    both = draws[0] + draws[1]
    ids = [token_id for token_id, _ in both.most_common(most)]
    greatest = max([*draws[0].values(), *draws[1].values(), 1])
    parts = []
    for line, token_id in enumerate(ids):
        y = 34 * line
        parts.append(
            f'<text class="name" x="110" y="{y + 19}">{escape(shortened(label(token_id), 13))}</text>'
        )
        for which, kind in enumerate(("warp", "penalty")):
            count = draws[which][token_id]
            width = 170 * count / greatest
            parts.append(
                f'<rect class="bar {kind}" x="118" y="{y + 3 + 13 * which}" width="{width:.1f}" height="11"/>'
                f'<text class="value" x="{122 + width:.1f}" y="{y + 12 + 13 * which}">{count}</text>'
            )
    height = 34 * len(ids) + 4
    return (
        f'<svg width="330" height="{height}" role="img" aria-label="{DRAWS} draws of each chain">'
        f"{''.join(parts)}</svg>"
    )
