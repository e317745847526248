"""The floor: reading every logit once, as NumPy's `max` does."""

from __future__ import annotations

import pytest

from . import rows
from .cases import BATCHES, MAIN
from .measure import measure

SHAPES = [(v, b, False) for v in rows.VOCABULARIES for b in BATCHES] + [(MAIN, 1, True)]


@pytest.mark.parametrize(("vocab_size", "batch", "flat"), SHAPES)
def bench_floor(benchmark, vocab_size, batch, flat):
    logits = rows.batch(vocab_size, batch, flat=flat)

    def read():
        for row in logits:
            row.max()

    measure(benchmark, read, "floor", case="floor", vocab_size=vocab_size, batch=batch, flat=flat)
