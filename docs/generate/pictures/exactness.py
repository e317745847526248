"""The figure of exactness: what the order of a sum changes, in float32 and in integer weights."""

from __future__ import annotations

import numpy as np

from engine_sampler.arithmetic import LN_2, distances, draw64, log2_64, weights

from ..svg import BLUE, ORANGE, Drawing

VOCAB, HEAD = 131_072, 200
DRAWS = 50_000
LANES = (1, 4, 8, 16, 32, 64)

WIDTH, MARGIN, LABELS, LINE, TOP = 720.0, 6.0, 190.0, 26.0, 58.0
PANEL = 220.0
GAP = 40.0


def draw() -> str:
    """The figure, as SVG."""
    row = _row()
    integer = weights(distances(row[None]))[0]
    errors, misses = _compare(integer)
    picture = Drawing(
        WIDTH, TOP + LINE * (len(LANES) + 1) + 34, "The order of a sum, in floats and in integers"
    )
    picture.text(LABELS, 18, "error of the sum", 12.5, bold=True)
    picture.text(LABELS, 36, "parts in a million", 11)
    picture.text(LABELS + PANEL + GAP, 18, "tokens unlike those of 1 lane", 12.5, bold=True)
    picture.text(LABELS + PANEL + GAP, 36, f"of {DRAWS:,} draws, same random numbers", 11)
    for number, lanes in enumerate((*LANES, None)):
        y = TOP + LINE * number
        label = "integers, in any order" if lanes is None else f"float32, {lanes} lane{'s'[: lanes - 1]}"
        colour = ORANGE if lanes is None else BLUE
        picture.text(LABELS - 12, y + 14, label, 12, colour, anchor="end", bold=lanes is None)
        _bar(picture, LABELS, y, errors[lanes] / max(errors.values()), f"{errors[lanes]:.1f}", colour)
        share = misses[lanes] / max(misses.values())
        _bar(picture, LABELS + PANEL + GAP, y, share, f"{misses[lanes]:,}", colour)
    text = f"A row of {VOCAB:,} tokens. Lanes: how many running sums a processor adds to side by side."
    picture.text(MARGIN, picture.height - 10, text, 11)
    return picture.svg()


def _row() -> np.ndarray:
    """Logits float32 [VOCAB]: a body from the library's own random numbers, and a head that falls by a Zipf
    law, with which the row has an entropy of 5.7 bits."""
    uniform = draw64(np.full(VOCAB, 1, np.uint64), np.arange(VOCAB), 0) / 2.0**64
    row = 4 * uniform * uniform
    row[200 :: VOCAB // HEAD][:HEAD] = 16 - 1.2 * LN_2 * log2_64(np.arange(1, HEAD + 1))
    return row.astype(np.float32)


def _compare(integer: np.ndarray) -> tuple[dict[int | None, float], dict[int | None, int]]:
    """For each number of lanes, None for integers: the error of the sum in parts in a million, and how many
    draws find another token than with one lane."""
    shares = (integer / 2.0**30).astype(np.float32)
    numbers = draw64(np.full(DRAWS, 2, np.uint64), np.arange(DRAWS), 0) >> np.uint64(
        40
    )  # 24 bits, as a float has
    uniform = (numbers / 2.0**24).astype(np.float32)
    exact = int(integer.sum())
    cumulative = np.add.accumulate(shares)
    errors: dict[int | None, float] = {None: 0.0}
    misses: dict[int | None, int] = {None: 0}
    first = np.zeros(0)
    for lanes in LANES:
        sums = np.add.accumulate(shares.reshape(-1, lanes))[-1]
        total = np.add.accumulate(sums)[-1]
        errors[lanes] = abs(float(total) / (exact / 2**30) - 1) * 1e6
        drawn = np.searchsorted(cumulative, uniform * total, "right")
        first = drawn if lanes == 1 else first
        misses[lanes] = int((drawn != first).sum())
    return errors, misses


def _bar(picture: Drawing, x: float, y: float, share: float, label: str, colour: str) -> None:
    picture.line(x, y - 2, x, y + 22)
    picture.rect(x, y + 3, max(share * (PANEL - 50), 0.5), 14, colour)
    picture.text(x + share * (PANEL - 50) + 7, y + 14, label, 11)
