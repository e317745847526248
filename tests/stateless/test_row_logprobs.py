"""Tables of logprobs of `RowSampler`: the drawn token, the likeliest ones, and their ranks."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import RowSampler, SamplingParams, process_logits
from tests.stateless.row_worlds import KEYS, LOGITS, SIZE


def expected_values(source: np.ndarray, ids: np.ndarray, *, of_logits: bool) -> np.ndarray:
    """The logits, or the logprobs, of some tokens of each row, in float64."""
    rows = source.astype(np.float64)
    if not of_logits:
        rows -= np.log(np.exp(rows - rows.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
        rows -= source.max(axis=1, keepdims=True)
    return np.take_along_axis(rows, ids, axis=1)


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_table_has_the_drawn_token_first_and_then_the_likeliest(mode: str, backend: str) -> None:
    params = [SamplingParams(temperature=t, min_p=0.001, seed=1, logit_bias={3: 2.0}) for t in (0, 1, 2)]
    sampler = RowSampler(SIZE, backend=backend)
    given = [[5, 6], None, [7]]
    drawn = sampler.step(
        LOGITS[:3], KEYS[:3], params=params, logprobs=4, logprobs_mode=mode, logprob_token_ids=given
    )
    warm = [p.replace(temperature=p.temperature or 1.0) for p in params]
    source = process_logits(LOGITS[:3], warm) if mode.startswith("processed") else LOGITS[:3]
    table, named = drawn.logprobs, drawn.given_logprobs
    assert table is not None
    assert named is not None
    assert table.token_ids.shape == table.logprobs.shape == (3, 5)
    np.testing.assert_array_equal(table.token_ids[:, 0], drawn.token_ids)
    order = np.argsort(-source, axis=1, kind="stable")
    np.testing.assert_array_equal(table.token_ids[:, 1:], order[:, :4])
    ranks = [order[i].tolist().index(token) + 1 for i, token in enumerate(drawn.token_ids.tolist())]
    assert table.ranks.tolist() == named.ranks.tolist() == ranks
    of_logits = mode.endswith("logits")
    np.testing.assert_allclose(
        table.logprobs, expected_values(source, table.token_ids, of_logits=of_logits), atol=1e-5
    )
    assert named.token_ids[:, 1:].tolist() == [[5, 6], [-1, -1], [7, -1]]
    present = named.token_ids >= 0
    wanted = expected_values(source, np.maximum(named.token_ids, 0), of_logits=of_logits)
    np.testing.assert_allclose(named.logprobs[present], wanted[present], atol=1e-5)
    assert np.isnan(named.logprobs[~present]).all()


def test_processed_logprobs_follow_masks_and_drafts() -> None:
    sampler, params = RowSampler(SIZE), SamplingParams(frequency_penalty=3.0, temperature=0.0)
    best = int(LOGITS[0].argmax())
    mask = np.ones((3, SIZE), bool)
    mask[2, best] = False
    rows = LOGITS[[0, 0, 0]]
    draft = [best, int(np.argsort(-LOGITS[0])[0])]
    drawn = sampler.step(
        rows, ["a"], params=params, mask=mask, draft_token_ids=[draft], logprobs=-1,
        logprobs_mode="processed_logits",
    )  # fmt: skip
    assert drawn.logprobs is not None
    values = dict(zip(drawn.logprobs.token_ids[1].tolist(), drawn.logprobs.logprobs[1].tolist(), strict=True))
    assert values[best] == LOGITS[0, best] - np.float32(3.0)
    assert drawn.logprobs.token_ids.shape == (3, 1 + SIZE)
    if drawn.token_ids[2] < 0:
        assert (drawn.logprobs.token_ids[2] == -1).all()
        assert drawn.logprobs.ranks[2] == 0


def test_every_row_of_right_drafts_has_processed_logits() -> None:
    best = LOGITS[:3].argmax(axis=1).tolist()
    drawn = RowSampler(SIZE).step(
        LOGITS[:3], ["a"], params=SamplingParams(temperature=0.0), draft_token_ids=[best[:2]], logprobs=0,
        logprobs_mode="processed_logits",
    )  # fmt: skip
    assert drawn.token_ids.tolist() == best
    assert drawn.logprobs is not None
    assert drawn.logprobs.logprobs[:, 0].tolist() == LOGITS[:3].max(axis=1).tolist()


def test_a_row_without_a_token_has_no_entries() -> None:
    faulty = LOGITS[:2].copy()
    faulty[1] = np.inf
    drawn = RowSampler(SIZE).step(faulty, KEYS[:2], logprobs=2, logprob_token_ids=[[1], [1]])
    for table in (drawn.logprobs, drawn.given_logprobs):
        assert table is not None
        assert (table.token_ids[1] == -1).all()
        assert np.isnan(table.logprobs[1]).all()
        assert table.ranks[1] == 0


def test_a_table_is_as_wide_as_asked_even_beyond_the_vocabulary() -> None:
    table = RowSampler(3).step(LOGITS[:1], ["a"], logprobs=5).logprobs
    assert table is not None
    assert table.token_ids.shape == (1, 6)
    assert table.token_ids[0, 4:].tolist() == [-1, -1]


def test_a_table_of_all_tokens_is_told_by_their_ids() -> None:
    logits = LOGITS[:3].copy()
    logits[2] = np.nan
    params = [SamplingParams(top_k=top_k, seed=1) for top_k in (0, 3, 0)]
    drawn = RowSampler(SIZE).step(
        logits, KEYS[:3], params=params, logprobs=-1, logprobs_mode="processed_logits"
    )
    assert drawn.logprobs is not None
    values = drawn.logprobs.by_id()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[:2], process_logits(logits[:2], params[:2]))
    assert (values[2] == -np.inf).all()
