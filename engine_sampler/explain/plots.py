"""A picture of what each step of a chain does. Needs matplotlib, from the extra `demo`.

Small multiples: one panel per step, the same tokens in the same rows everywhere, so that one token
can be followed from the logits to the choice.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .labels import percent, settings_text, shortened
from .tracing import TraceStep, notable_tokens

FORMATS = (".png", ".svg")

INK, MUTED, LOST, FAINT, PAPER = "#1f2933", "#7b8794", "#d5d9df", "#eceff2", "#ffffff"
GAINED_ALPHA = 0.45
CHOSEN, CHOSEN_BAND, GONE = "#e8590c", "#fff0e4", "#d6336c"
ROLE_COLOURS = {
    "logits": "#52606d",
    "edit": "#7048e8",
    "penalty": "#0c8599",
    "warp": "#1c7ed6",
    "selector": CHOSEN,
}
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"
"""Both come with matplotlib."""

# Inches.
PANEL, GAP, ROW, SPACE, MARGIN = 2.2, 0.3, 0.25, 0.3, 0.35
TITLE, LEGEND = 0.75, 0.15
HEADER, SETTING = 0.68, 0.14
"""Height of a panel's header without settings, and of a line of settings."""
LEAST_WIDTH = 7.6
"""Height of the legend."""
CHARACTER, TITLE_CHARACTER = 0.078, 0.135
"""Width of a character of a label, and of the title."""

LABEL_LENGTH = 24
BAR_SHARE = 0.72
"""The longest bar's share of a panel's width; the rest is for its number."""


def draw(steps: Sequence[TraceStep], path: str | Path, *, title: str, top: int = 12) -> Figure:
    """The same as `picture`, written to the file at `path`, PNG or SVG by its suffix. Raises ValueError for
    another suffix, OSError if the file cannot be written."""
    if Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"{path} is not allowed: a name that ends in {' or '.join(FORMATS)}")
    figure = picture(steps, title=title, top=top)
    figure.savefig(path, dpi=150, facecolor=PAPER)
    return figure


def picture(steps: Sequence[TraceStep], *, title: str, top: int = 12) -> Figure:
    """The steps of a `trace` as a figure; `top` tokens are followed, all others share one row."""
    scene = _Scene(steps, notable_tokens(steps, top))
    columns = _columns(len(steps))
    lines = -(-len(steps) // columns)
    label_width = CHARACTER * max(map(len, scene.labels)) + 0.2
    body = ROW * (len(scene.labels) + 0.4)
    header = HEADER + SETTING * max(len(_settings_lines(step)) for step in steps)
    width = max(LEAST_WIDTH, 2 * MARGIN + label_width + columns * (PANEL + GAP) - GAP)
    height = 2 * MARGIN + TITLE + lines * (header + body + SPACE) + LEGEND
    figure = Figure(figsize=(width, height))
    page = _axes(figure, 0, 0, width, height)
    page.set(xlim=(0, width), ylim=(height, 0))
    _write_title(page, scene, title, width - 2 * MARGIN)
    for line in range(lines):
        y = MARGIN + TITLE + line * (header + body + SPACE) + header
        _write_labels(_axes(figure, MARGIN, y, label_width, body), scene)
        for column in range(min(columns, len(steps) - line * columns)):
            x = MARGIN + label_width + column * (PANEL + GAP)
            number = line * columns + column
            _write_header(page, x, y - header, y, scene.steps[number])
            _draw_bars(_axes(figure, x, y, PANEL, body), scene, number)
    _write_legend(page, MARGIN, height - MARGIN)
    return figure


@dataclass(frozen=True)
class _Scene:
    """The data that all panels share: the steps and the tokens followed."""

    steps: Sequence[TraceStep]
    token_ids: Sequence[int]

    @property
    def labels(self) -> list[str]:
        texts = {token.token_id: token.text for step in self.steps for token in step.top}
        followed = [shortened(_drawable(texts[t]), LABEL_LENGTH) for t in self.token_ids]
        others = self.steps[0].candidates - len(followed)
        return [*followed, f"{others:,} others"]

    @property
    def chosen_row(self) -> int:
        """The row of the chosen token."""
        return self.token_ids.index(self.steps[-1].token_id or 0)

    @property
    def longest(self) -> float:
        """The greatest probability of any bar."""
        return max(float(self.shares(number).max()) for number in range(len(self.steps) - 1))

    def shares(self, number: int) -> np.ndarray:
        """The probabilities of the tokens followed after step `number`."""
        return self.steps[number].probabilities[list(self.token_ids)]

    def y(self, row: int) -> float:
        """The vertical centre of a row; the row of all others is set a little apart."""
        return row + 0.5 + (0.4 if row == len(self.token_ids) else 0.0)


def _columns(panels: int) -> int:
    """Panels per line: all of them up to five, else the number that makes few lines with few gaps."""
    return panels if panels <= 5 else min((5, 4, 3), key=lambda c: (-(-panels // c), -panels % c))


def _axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes without a frame at inches from the upper left corner."""
    whole_width, whole_height = figure.get_size_inches()
    box = (
        x / whole_width,
        1 - (y + height) / whole_height,
        width / whole_width,
        height / whole_height,
    )
    axes = figure.add_axes(box)
    axes.set_axis_off()
    return axes


def _write(axes: Axes, x: float, y: float, text: str, size: float, colour: str = INK, **style: str) -> None:
    style = {"family": SANS, "va": "center", **style}
    axes.text(x, y, text, fontsize=size, color=colour, parse_math=False, **style)  # type: ignore[arg-type]


def _write_title(page: Axes, scene: _Scene, title: str, width: float) -> None:
    chain = " → ".join([*(step.name for step in scene.steps), scene.labels[scene.chosen_row]])
    title = shortened(_drawable(title, SANS), int(width / TITLE_CHARACTER))
    _write(page, MARGIN, MARGIN + 0.1, title, 14, weight="bold")
    _write(page, MARGIN, MARGIN + 0.38, shortened(chain, int(width / CHARACTER)), 8.5, MUTED)


def _write_labels(axes: Axes, scene: _Scene) -> None:
    axes.set(xlim=(0, 1), ylim=(len(scene.labels) + 0.4, 0))
    _band(axes, scene)
    for row, label in enumerate(scene.labels):
        is_chosen, is_others = row == scene.chosen_row, row == len(scene.token_ids)
        colour = CHOSEN if is_chosen else MUTED if is_others else INK
        weight = "bold" if is_chosen else "normal"
        family = SANS if is_others else MONO
        size = 8 if is_others else 9
        _write(axes, 0.97, scene.y(row), label, size, colour, ha="right", family=family, weight=weight)


def _write_header(page: Axes, x: float, top: float, bottom: float, step: TraceStep) -> None:
    """Name and settings at the top, figures and the bar of the kept mass at the bottom."""
    colour = ROLE_COLOURS[step.role]
    _write(page, x, top + 0.12, step.name, 11, colour, weight="bold")
    _write(page, x + PANEL, top + 0.12, step.backend, 7, MUTED, ha="right")
    for line, text in enumerate(_settings_lines(step)):
        _write(page, x, top + 0.31 + SETTING * line, text, 7.5, MUTED)
    if step.role != "selector":
        _write(page, x, bottom - 0.32, f"{step.candidates:,} left · {step.entropy_bits:.2f} bits", 8)
    if step.role != "logits":
        share = percent(step.kept_mass)
        text = f"probability {share}" if step.role == "selector" else f"{share} kept"
        _write(page, x + PANEL, bottom - 0.32, text, 8, colour, ha="right")
        page.add_patch(Rectangle((x, bottom - 0.2), PANEL, 0.045, facecolor=FAINT))
        page.add_patch(Rectangle((x, bottom - 0.2), PANEL * step.kept_mass, 0.045, facecolor=colour))


def _settings_lines(step: TraceStep) -> list[str]:
    return textwrap.wrap(settings_text(step.settings), 38, max_lines=5, placeholder=" …")


def _draw_bars(axes: Axes, scene: _Scene, number: int) -> None:
    """One panel: the previous step as pale bars, this step as full ones."""
    axes.set(xlim=(0, 1), ylim=(len(scene.labels) + 0.4, 0))
    _band(axes, scene)
    axes.axvline(0, color=FAINT, linewidth=1.5)
    after = scene.shares(number)
    before = scene.shares(number - 1) if number else after
    colour = ROLE_COLOURS[scene.steps[number].role]
    draw_row = _draw_choice if scene.steps[number].role == "selector" else _draw_share
    for row in range(len(scene.token_ids)):
        draw_row(axes, scene, row, before[row], after[row], colour)
    if scene.steps[number].role != "selector":
        _draw_others(axes, scene, max(0.0, 1.0 - float(after.sum())), colour)


def _draw_share(axes: Axes, scene: _Scene, row: int, before: float, after: float, colour: str) -> None:
    colour = CHOSEN if row == scene.chosen_row else colour
    _bar(axes, scene, row, before, LOST)
    _bar(axes, scene, row, after, PAPER)
    _bar(axes, scene, row, after, colour, GAINED_ALPHA)
    _bar(axes, scene, row, min(before, after), colour)
    if after > 0:
        _note(axes, scene, row, max(before, after), percent(after), INK if after >= 0.01 else MUTED)
    elif before > 0:
        _note(axes, scene, row, before, "✕", GONE)


def _draw_others(axes: Axes, scene: _Scene, share: float, colour: str) -> None:
    """The bar of all tokens that are not followed."""
    y = scene.y(len(scene.token_ids))
    axes.add_patch(Rectangle((0, y - 0.1), BAR_SHARE, 0.2, facecolor=FAINT))
    axes.add_patch(Rectangle((0, y - 0.1), BAR_SHARE * share, 0.2, facecolor=colour, alpha=GAINED_ALPHA))
    _write(axes, BAR_SHARE + 0.025, y, percent(share) if share > 1e-12 else "none", 7.5, MUTED)


def _draw_choice(axes: Axes, scene: _Scene, row: int, before: float, after: float, colour: str) -> None:
    """The selector draws from the previous step, so its bars are those of that step."""
    _bar(axes, scene, row, before, colour if after > 0 else LOST)
    if after > 0:
        _note(axes, scene, row, before, "chosen", colour, weight="bold")


def _bar(axes: Axes, scene: _Scene, row: int, share: float, colour: str, alpha: float = 1.0) -> None:
    length = BAR_SHARE * share / scene.longest
    axes.add_patch(Rectangle((0, scene.y(row) - 0.31), length, 0.62, facecolor=colour, alpha=alpha))


def _note(axes: Axes, scene: _Scene, row: int, share: float, text: str, colour: str, **style: str) -> None:
    x = BAR_SHARE * share / scene.longest + 0.025
    _write(axes, x, scene.y(row), text, 7.5, colour, **style)


def _band(axes: Axes, scene: _Scene) -> None:
    """The background that links the chosen token from panel to panel."""
    axes.add_patch(Rectangle((0, scene.chosen_row + 0.04), 1, 0.92, facecolor=CHOSEN_BAND, clip_on=False))


def _write_legend(page: Axes, x: float, y: float) -> None:
    for colour, alpha, text in (
        (ROLE_COLOURS["warp"], 1.0, "kept"),
        (ROLE_COLOURS["warp"], GAINED_ALPHA, "gained in this step"),
        (LOST, 1.0, "lost in this step"),
        (CHOSEN, 1.0, "the chosen token"),
    ):
        page.add_patch(Rectangle((x, y - 0.05), 0.16, 0.1, facecolor=colour, alpha=alpha))
        _write(page, x + 0.22, y, text, 7.5, MUTED)
        x += 0.5 + 0.052 * len(text)
    _write(page, x, y, "✕", 8, GONE)
    _write(page, x + 0.15, y, "removed in this step", 7.5, MUTED)


def _drawable(text: str, family: str = MONO) -> str:
    """`text` with characters that the font lacks as escapes."""
    known = _characters(family)
    return "".join(c if ord(c) in known else c.encode("unicode_escape").decode() for c in text)


@cache
def _characters(family: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())
