"""Short texts of whole engines with a small vocabulary, relative to the engines' own sampling.

`python -m benchmarks.generation` measures whole engines in full.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache, partial

import pytest

from .cases import SMALL, Shape
from .generation.cases import CHAIN
from .generation.engines import CASES, missing, opened
from .measure import Work, measure
from .results import GENERATION

TOKENS = 2
SHAPES = [
    pytest.param(engine, case, id=f"{engine}, {case}, vocabulary {SMALL}")
    for engine, cases in CASES.items()
    for case in cases
]


@pytest.fixture(scope="module")
def engine_of():
    """Engine → the engine with its model, opened once."""
    with ExitStack() as engines:
        yield cache(lambda engine: engines.enter_context(opened(engine, SMALL, CHAIN)))


@pytest.mark.parametrize(("engine", "case"), SHAPES)
def bench_generation(benchmark, engine_of, engine, case):
    if names := missing(engine):
        pytest.skip(f"{', '.join(names)} not installed")
    own, ours, *others = engine_of(engine).sides(case._replace(tokens=TOKENS))
    yardsticks = {side.name: Work(partial(side.generate, 1)) for side in (own, *others)}
    shape = Shape(f"{engine}, {case}", SMALL, case.rows)
    measure(benchmark, Work(partial(ours.generate, 1)), GENERATION, shape, yardsticks)
