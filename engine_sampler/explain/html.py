"""A trace as HTML with SVG, for a page or a notebook: quick, without matplotlib.

Colours are variables of the style sheet around it, such as `--warp`; without one, those of a light page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from .labels import hundredths, settings_text, shortened
from .reading import TraceReading
from .tracing import notable_tokens

LINE, HEADER, LABELS, COLUMN, BAR = 20, 66, 118, 172, 104
_DECADES = 5
"""What a logarithmic scale shows below the greatest probability."""
_LEAST_SHARE, _LEAST_NAMED = 0.002, 0.08
"""Shares of a draw that are drawn, and that have a name."""

Scale = Callable[[float], float]

_COLOURS = {
    "ink": "#1f2933",
    "muted": "#5b6673",
    "paper": "#ffffff",
    "was": "#d5d9df",
    "gone": "#c2255c",
    "chosen": "#d9480f",
    "logits": "#52606d",
    "edit": "#7048e8",
    "penalty": "#0c8599",
    "warp": "#1c7ed6",
}
_FILLS = "".join(f".es-row .{name} {{fill: var(--{name}, {value})}}\n" for name, value in _COLOURS.items())
STYLE = f"""<style>
.es-row {{display: flex; overflow: auto}}
.es-row svg {{flex: none}}
{_FILLS}
.es-row text {{font: 12px system-ui, sans-serif; fill: var(--ink, #1f2933)}}
.es-row .names {{position: sticky; left: 0; z-index: 1; background: var(--paper, #ffffff)}}
.es-row .name {{text-anchor: end; font-family: ui-monospace, "DejaVu Sans Mono", monospace}}
.es-row .step, .es-row .name.chosen, .es-row text.gone {{font-weight: 700}}
.es-row .muted {{font-size: 11px; fill: var(--muted, #5b6673)}}
.es-row text.chosen {{fill: var(--chosen, #d9480f)}}
.es-row text.gone {{fill: var(--gone, #c2255c)}} .es-row line.gone {{stroke: var(--gone, #c2255c)}}
.es-row line.gone {{stroke-width: 1.5; stroke-dasharray: 4 3}}
.es-row .draw {{width: 100%; height: 50px; flex: auto; overflow: visible}}
.es-row .draw rect {{stroke: var(--paper, #ffffff)}} .es-row .draw text {{text-anchor: middle}}
.es-row .draw .inside {{fill: var(--paper, #ffffff)}}
.es-row .mark {{stroke: var(--ink, #1f2933); stroke-width: 2}}
</style>"""


def row_html(reading: TraceReading, *, top: int = 60, logarithmic: bool = True) -> str:
    """At most `top` tokens in lines, steps in columns.

    The bar before each step is pale, after it full. ✕ marks a token that it removed, a dashed line its cut.
    """
    steps, ids = reading.steps, notable_tokens(reading.steps, top)
    most = max(step.top[0].probability for step in steps[:-1])
    height = HEADER + LINE * len(ids) + 8

    def scale(share: float) -> float:
        if not logarithmic:
            return BAR * share / most
        return BAR * max(0.0, 1 + math.log10(share / most) / _DECADES) if share > 0 else 0.0

    names = "".join(name_svg(reading, token_id, HEADER + LINE * i + 14) for i, token_id in enumerate(ids))
    columns = "".join(
        f'<g transform="translate({number * COLUMN},0)">{"".join(_column(reading, number, ids, scale))}</g>'
        for number in range(len(steps) - 1)
    )
    return (
        f'{STYLE}<div class="es-row">'
        f'<svg class="names" width="{LABELS}" height="{height}" aria-hidden="true">{names}</svg>'
        f'<svg width="{COLUMN * (len(steps) - 1)}" height="{height}" role="img" '
        f'aria-label="{len(ids)} tokens after each step">{columns}</svg></div>'
    )


def name_svg(reading: TraceReading, token_id: int, y: float) -> str:
    """The name of a token, left of `LABELS`."""
    mark = " chosen" * (token_id == reading.chosen)
    name = escape(shortened(reading.label(token_id), 13))
    return f'<text class="name{mark}" x="{LABELS - 8}" y="{y}">{name}</text>'


def _column(reading: TraceReading, number: int, ids: list[int], scale: Scale) -> Iterator[str]:
    step, cut = reading.steps[number], reading.cuts[number]
    before = reading.steps[max(number - 1, 0)].probabilities
    removed = f" · −{step.removed:,}" if step.removed else ""
    settings = shortened(settings_text(step.settings, step.name), 26)
    yield f'<text class="step {step.role}" y="16">{escape(shortened(step.name, 20))}</text>'
    yield f'<text class="muted" y="31">{escape(settings)}</text>'
    figures = f"{step.candidates:,} left{removed} · {step.entropy_bits:.2f} bits"
    yield f'<text class="muted" y="45">{figures}</text>'
    for line, token_id in enumerate(ids):
        kind = "chosen" if token_id == reading.chosen else step.role
        shares = float(before[token_id]), float(step.probabilities[token_id])
        yield from _bar(HEADER + LINE * line + 3, *shares, scale, kind)
    if cut is not None:
        yield f'<text class="muted gone" y="59">keeps {escape(cut.text)}</text>'
        bottom = HEADER + LINE * len(ids) + 8
        for share in cut.lines:
            x = f"{scale(share):.1f}"
            yield f'<line class="gone" x1="{x}" x2="{x}" y1="{HEADER - 4}" y2="{bottom}"/>'


def _bar(y: int, before: float, after: float, scale: Scale, kind: str) -> Iterator[str]:
    was, now = scale(before), scale(after)
    if was > now:
        yield f'<rect class="was" y="{y}" width="{was:.1f}" height="14"/>'
    if now:
        yield f'<rect class="{kind}" y="{y}" width="{now:.1f}" height="14"/>'
    if after > 0:
        yield f'<text class="muted" x="{max(was, now) + 4:.1f}" y="{y + 11}">{hundredths(after)}</text>'
    elif before > 0:
        yield f'<text class="gone" x="{was + 4:.1f}" y="{y + 11}">✕</text>'


def draw_html(reading: TraceReading) -> str:
    """[0, 1) in the order of ids, each token that is left with its share, and where the random number fell.

    "" if the selector draws by a rule of its own, or not at all.
    """
    draw = reading.draw
    if draw is None or draw.share is None:
        return ""
    left, parts = reading.steps[-2].probabilities, []
    for token_id in (left >= _LEAST_SHARE).nonzero()[0].tolist():
        start, end = reading.share_of(token_id)
        kind, label = "chosen" if token_id == reading.chosen else "warp", escape(reading.label(token_id))
        title = f"<title>{label}: {start:.4f} to {end:.4f}</title>"
        place = f'x="{start:.3%}" width="{end - start:.3%}"'
        parts.append(f'<rect class="{kind}" {place} y="6" height="26">{title}</rect>')
        if end - start > _LEAST_NAMED:
            name = escape(shortened(reading.label(token_id), int(60 * (end - start))))
            parts.append(f'<text class="inside" x="{(start + end) / 2:.3%}" y="23">{name}</text>')
    at = f"{draw.number:.3%}"
    parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="2" y2="38"/><text x="{at}" y="48">▲</text>')
    label = f"the draw: {draw.number:.4f}"
    svg = f'<svg class="draw" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'{STYLE}<div class="es-row">{svg}</div>'
