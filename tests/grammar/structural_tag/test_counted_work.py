"""No loop that a structural tag drives runs for long without counting its work."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.structural_tag.structural_tag import rules_from_tag

from ..schema.test_counted_work import MOST_LINES, metered
from .random_tags import random_tag

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

HEAVY: dict[str, Any] = {
    "a long end": {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": "ab" * 2500},
    "many exclusions": {"type": "any_text", "excludes": [f"x{n}y{n * n}" for n in range(200)]},
}


@pytest.mark.parametrize("name", HEAVY)
def test_work_is_counted_at_least_every_ten_milliseconds(name: str) -> None:
    with metered(100_000) as meter, suppress(GrammarError):
        rules_from_tag({"type": "structural_tag", "format": HEAVY[name]}, special_tokens={}).program()
    assert meter.longest[0] <= MOST_LINES, meter.longest


def test_the_work_of_random_nested_tags_is_counted() -> None:
    for seed in range(6 * ROUNDS):
        tag = random_tag(random.Random(seed))
        with metered(8000) as meter, suppress(GrammarError):
            rules_from_tag(tag, special_tokens={}).program()
        assert meter.longest[0] <= MOST_LINES, (seed, meter.longest)
