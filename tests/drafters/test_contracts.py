"""The built-in drafters keep the laws of every drafter."""

from __future__ import annotations

import pytest

from engine_sampler.registry import default_registry
from engine_sampler.testing import DrafterContract

DRAFTERS = default_registry().catalogue.drafters


@pytest.mark.quick_share(2)
class TestGrammar(DrafterContract):
    drafter = DRAFTERS["grammar"]


@pytest.mark.quick_share(2)
class TestNgram(DrafterContract):
    drafter = DRAFTERS["ngram"]
    params = (
        {},
        {"prompt_lookup_max": 1, "prompt_lookup_min": 1},
        {"prompt_lookup_max": 64, "prompt_lookup_min": 3},
    )
