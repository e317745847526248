"""The floor: reading every logit once, with NumPy's `max` and with one pass of the native library."""

from __future__ import annotations

import pytest

from engine_sampler.cli.bench import rows

from .cases import BATCHES, Shape
from .engines import reading
from .measure import Work, measure
from .results import FLOOR

SHAPES = [Shape("floor", v, b) for v in rows.VOCABULARIES for b in BATCHES]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def bench_floor(benchmark, shape):
    logits = rows.batch(shape.vocab_size, shape.batch)

    def read():
        for row in logits:
            row.max()

    measure(benchmark, Work(read), FLOOR, shape, {"pass": reading(logits)})
