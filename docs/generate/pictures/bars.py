"""Bars: what a sampler does to a peaked and a flat row, and how often a selector chooses each word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Sampler, Selector
from engine_sampler.explain import trace
from engine_sampler.explain.labels import settings_text

from ..svg import BLUE, FAINT, MONO_WIDTH, ORANGE, PINK, PURPLE, TEAL, TEXT, Drawing
from .scenes import LIFT, Scene, rows, scene_of

DRAWS = 4000
"""How many tokens a picture of a selector counts: 40 steps of 100 requests."""
REQUESTS = 100

COLOURS = {"edit": PURPLE, "penalty": TEAL, "warp": BLUE, "selector": ORANGE}
WIDTH, MARGIN, GAP = 720.0, 6.0, 28.0
PANEL = (WIDTH - 2 * MARGIN - GAP) / 2
NARROW = PANEL + 2 * MARGIN
TOP, BARS, FOOT = 52.0, 104.0, 34.0
"""Heights within a line of panels: its headings, the longest bar, and the words."""
STACKED = TOP - 20 + BARS + FOOT
"""How far below the first panel of some settings the second one is, if they are below each other."""
HISTORY = 30.0
BAR, INNER = 0.8, 0.5
"""Widths of the bars before and after, as shares of a word's width."""


@dataclass(frozen=True)
class Change:
    """One panel: the probabilities of the words before and after, and whether words were removed."""

    before: np.ndarray
    after: np.ndarray
    removed: np.ndarray


def draw(part: Sampler | Selector, *, narrow: bool = False) -> str:
    """The picture of a sampler or selector, as SVG; a narrow one has its panels below each other."""
    scene = scene_of(part)
    colour = COLOURS["selector" if isinstance(part, Selector) else part.role]
    right, down = (0.0, STACKED) if narrow else (PANEL + GAP, 0.0)
    picture = Drawing(NARROW if narrow else WIDTH, 0, f"{part.name}: before and after")
    y = MARGIN + (_history(picture, scene) if scene.history else 0)
    removes = False
    for settings in scene.settings:
        heading = settings_text(settings) or "no settings"
        size = min(13.0, (picture.width - 2 * MARGIN) / (len(heading) * MONO_WIDTH))
        picture.text(MARGIN, y + 14, heading, size, colour, mono=True, bold=True)
        for number, (name, row) in enumerate(rows().items()):
            change = _change(part, scene, settings, row)
            removes = removes or bool(change.removed.any())
            x, top = MARGIN + number * right, y + number * down
            picture.text(x, top + 34, name, 12.5, bold=True)
            _panel(picture, x, top, scene.words, change, colour)
        y += TOP + BARS + FOOT + down
    picture.height = _legend(picture, y + 17, colour, removes) + 9
    return picture.svg()


def _change(part: Sampler | Selector, scene: Scene, settings: Mapping[str, Any], row: np.ndarray) -> Change:
    if isinstance(part, Selector):
        return _chosen(settings, row)
    return _changed(part.name, scene, settings, row)


def _changed(name: str, scene: Scene, settings: Mapping[str, Any], row: np.ndarray) -> Change:
    steps = trace(row, SamplingParams(**settings, seed=1), **scene.history_ids, tokenizer=scene.tokenizer)
    number = next(i for i, step in enumerate(steps) if step.name == name)
    before, after = steps[number - 1].probabilities, steps[number].probabilities
    return Change(before, after, (after == 0) & (before > 0))


def _chosen(settings: Mapping[str, Any], row: np.ndarray) -> Change:
    """How often each word is drawn, by requests whose selector adapts to what it has drawn."""
    scheduler = Scheduler(len(row), eos_token_ids=[])
    for seed in range(REQUESTS):
        scheduler.add(SamplingParams(**settings, seed=seed))
    logits = np.tile(row, (REQUESTS, 1))
    counts = np.zeros(len(row))
    for _ in range(DRAWS // REQUESTS):
        counts += np.bincount(scheduler.step(logits).token_ids, minlength=len(row))
    return Change(np.exp(row.astype(np.float64) - LIFT), counts / DRAWS, counts == 0)


# --- drawing -------------------------------------------------------------------------------------


def _panel(picture: Drawing, x: float, y: float, words: Sequence[str], change: Change, colour: str) -> None:
    left = int((change.after > 0).sum())
    verb = "drawn" if colour == COLOURS["selector"] else "left"
    picture.text(x + PANEL, y + 34, f"{left} of {len(words)} words {verb}", 11.5, anchor="end")
    base, pitch = y + TOP + BARS, PANEL / len(words)
    highest = max(change.before.max(), change.after.max())
    for number, word in enumerate(words):
        centre = x + (number + 0.5) * pitch
        before, after = (float(p[number]) for p in (change.before, change.after))
        _bar(picture, centre, base, pitch, (before / highest, after / highest), colour)
        removed = bool(change.removed[number])
        _label(picture, centre, base - max(before, after) / highest * (BARS - 14), removed, after)
        picture.text(
            centre, base + 15, word, 10.5, PINK if removed else TEXT, anchor="middle", struck=removed
        )
    picture.line(x, base, x + PANEL, base)


def _bar(
    picture: Drawing, centre: float, base: float, pitch: float, shares: tuple[float, float], colour: str
) -> None:
    for share, width, fill, opacity in (
        (shares[0], BAR * pitch, FAINT, 0.38),
        (shares[1], INNER * pitch, colour, 1.0),
    ):
        height = share * (BARS - 14)
        if height > 0:
            picture.rect(centre - width / 2, base - height, width, height, fill, opacity=opacity)


def _label(picture: Drawing, x: float, top: float, removed: bool, after: float) -> None:
    """Above a bar: its percentage, or a cross."""
    if removed:
        picture.text(x, top - 4, "×", 13, PINK, anchor="middle", bold=True)
        return
    text = f"{100 * after:.0f}" if after >= 0.0095 else "<1"
    picture.text(x, top - 4, text, 9.5, anchor="middle")


def _history(picture: Drawing, scene: Scene) -> float:
    """The words so far, as boxes; returns their height."""
    x, y = MARGIN + 42, MARGIN
    picture.text(MARGIN, y + 14, "so far", 11.5)
    for word in scene.history:
        width = len(word) * 11 * MONO_WIDTH + 10
        if x + width > picture.width - MARGIN:
            x, y = MARGIN + 42, y + 24
        picture.rect(x, y, width, 20, FAINT, opacity=0.25, radius=3)
        picture.text(x + width / 2, y + 14, word, 11, anchor="middle", mono=True)
        x += width + 4
    picture.text(x + 2, y + 14, "…", 12)
    return y - MARGIN + HISTORY


def _legend(picture: Drawing, y: float, colour: str, removes: bool) -> float:
    """What the bars mean; returns the place of its last line."""
    x, is_selector = MARGIN, colour == COLOURS["selector"]
    after = "how often it is drawn, %" if is_selector else "probability after, %"
    gone = "never drawn" if is_selector else "removed"
    for fill, opacity, text in ((FAINT, 0.38, "probability before"), (colour, 1.0, after)):
        picture.rect(x, y - 8, 10, 10, fill, opacity=opacity)
        picture.text(x + 15, y + 1, text, 11)
        x += 32 + 6.0 * len(text)
    if removes:
        if x + 13 + 6.0 * len(gone) > picture.width:
            x, y = MARGIN, y + 18
        picture.text(x, y + 2, "×", 13, PINK, bold=True)
        picture.text(x + 13, y + 1, gone, 11)
    return y
