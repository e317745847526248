"""Tokens and draws as HTML; their colours are classes of the page's style sheet."""

from __future__ import annotations

import math
from html import escape

from engine_sampler.explain import TraceReading

from .session import Comparison, Text, Token

_COMPARED = 20
"""The tokens that have bars in a comparison."""


def text_html(text: Text, chosen: int) -> str:
    """The tokens as buttons, with the probability of each as a class from 0 to 9."""
    parts = []
    for index, token in enumerate(text.tokens):
        marks = " on" * (index == chosen) + " differs" * text.differs(index)
        hint = f"{100 * token.probability:.3g} % of the model’s distribution"
        pressed = str(index == chosen).lower()
        place = f'data-i="{index}" title="{hint}" aria-pressed="{pressed}"'
        parts.append(f'<button class="{_class(token)}{marks}" {place}>{_body(token)}</button>')
    return "".join(parts)


def compared_html(comparison: Comparison) -> list[str]:
    """The tokens of each chain, those that differ marked."""
    lines = ["", ""]
    for pair in comparison.tokens:
        mark = " differs" * (pair[0].token_id != pair[1].token_id)
        lines = [
            f'{line}<span class="{_class(token)}{mark}">{_body(token)}</span>'
            for line, token in zip(lines, pair, strict=True)
        ]
    return lines


def _class(token: Token) -> str:
    return f"tok p{max(0, min(9, int(10 + 2 * math.log2(max(token.probability, 1e-9)))))}"


def _body(token: Token) -> str:
    return escape(token.text).replace("\n", "↵<br>") or "∅"


def draws_html(comparison: Comparison, reading: TraceReading) -> str:
    """The tokens that the most seeds draw, with a bar for each of two chains."""
    common = (comparison.draws[0] + comparison.draws[1]).most_common(_COMPARED)
    greatest = max(max(draws.values(), default=1) for draws in comparison.draws)
    lines = []
    for token_id, _ in common:
        lines.append(f"<b>{escape(reading.label(token_id))}</b><span>")
        for name, draws in zip("AB", comparison.draws, strict=True):
            width = f"width:{70 * draws[token_id] / greatest:.2f}%"
            lines.append(f'<i class="bar-{name}" style="{width}"></i>{draws[token_id]}<br>')
        lines.append("</span>")
    return f'<div class="draws">{"".join(lines)}</div>'
