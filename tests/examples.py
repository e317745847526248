"""How many examples Hypothesis tries of each property."""

from __future__ import annotations

import os

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


def examples(count: int) -> int:
    """`count` with ENGINE_SAMPLER_TEST_ROUNDS=2, as `.ci/run` sets it; half as many in a quick run, which
    tries others each time unless the property is derandomized."""
    return max(1, count * max(1, ROUNDS) // 2)
