"""Why a token was not drawn."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.explain import trace, why_not

ROW = np.append(np.log([0.4, 0.3, 0.15, 0.1, 0.05]), -np.inf).astype(np.float32)
STEPS = trace(ROW, SamplingParams(top_k=4, min_p=0.3, seed=1))
CHOSEN = STEPS[-1].token_id


def test_the_step_that_removed_a_token_is_named_with_what_it_kept() -> None:
    fate = why_not(STEPS, 4)
    assert (fate.outcome, fate.step, fate.name, fate.settings) == ("removed", 1, "top_k", {"top_k": 4})
    assert (fate.rank, fate.kept) == (5, 4)
    assert fate.probability == pytest.approx(0.05)
    assert (fate.least_kept, fate.most_kept) == (pytest.approx(0.1), pytest.approx(0.4))
    assert str(fate) == (
        "removed by step 1, top_k 4: it had 5.0 %, rank 5; kept are 4 tokens of 10.0 % to 40.0 %"
    )


def test_shares_are_those_before_the_step() -> None:
    fate = why_not(STEPS, 3)
    assert (fate.name, fate.rank) == ("min_p", 4)
    assert fate.probability == pytest.approx(0.1 / 0.95)


def test_the_chosen_token_and_those_left_are_told_apart() -> None:
    outcomes = {token: why_not(STEPS, token).outcome for token in range(3)}
    assert outcomes.pop(int(CHOSEN or 0)) == "chosen"
    assert set(outcomes.values()) == {"left"}
    assert "drew another" in str(why_not(STEPS, next(iter(outcomes))))
    assert str(why_not(STEPS, int(CHOSEN or 0))).startswith("chosen by dist; before that ")


def test_a_token_that_the_model_excludes_was_impossible() -> None:
    fate = why_not(STEPS, 5)
    assert (fate.outcome, fate.step, fate.rank) == ("impossible", 0, 0)
    assert str(fate) == "the row has −inf for it, before any step"


@pytest.mark.parametrize("token_id", [-1, 6])
def test_an_id_outside_the_vocabulary_is_refused(token_id: int) -> None:
    with pytest.raises(ParameterError, match=rf"token_id={token_id} is not allowed: 0 to 5"):
        why_not(STEPS, token_id)
