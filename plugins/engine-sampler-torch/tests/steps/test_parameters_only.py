"""Parts that say so need nothing that changes from step to step."""

from __future__ import annotations

import numpy as np
import pytest
from engine_sampler_torch.steps import selector_of, step_of
from torch_chains import HOST_ONLY

from engine_sampler import SamplingParams
from engine_sampler.contract import Rows
from tests.random_chains import SAMPLERS, SELECTORS, random_rows

OF_A_STEP = ("bitmask", "draw", "output_token_ids", "position", "seed", "states", "token_ids")
NAMES = [name for name in (*SAMPLERS, *SELECTORS) if name not in HOST_ONLY]
CHANGING = {
    "adaptive_p", "bad_words", "dist", "dry", "grammar_bias", "min_tokens", "mirostat", "mirostat_v2",
    "no_repeat_ngram", "penalties", "xtc",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_kept_follow_from_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        random = np.random.default_rng(number)
        given = SAMPLERS[name](random, 500) if name in SAMPLERS else SELECTORS[name]
        chain, rows = random_rows(random, SamplingParams(**given), 3, 500)
        parts = [(step_of(sampler), sampler) for sampler in chain.samplers]
        with monkeypatch.context() as patched:
            for attribute in OF_A_STEP:
                patched.setattr(Rows, attribute, property(lambda rows, what=attribute: pytest.fail(what)))
            for part, owner in (*parts, (selector_of(chain.selector), chain.selector)):
                assert part is not None
                assert part.parameters_only == (owner.name not in CHANGING)
                if part.parameters_only:
                    part.inputs(rows.bind(owner)), part.fixed(rows.bind(owner))
