"""`trace`: the chain step by step, checked against definitions and against the stateless calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler.contract import ParameterError
from engine_sampler.explain import notable_tokens, trace
from engine_sampler.params import SamplingParams
from engine_sampler.registry import default_registry
from engine_sampler.scheduler import Scheduler
from engine_sampler.stateless import sample
from engine_sampler.testing import apply_sampler
from engine_sampler.tokenizer import Tokenizer

from ..reference import order, softmax
from ..samplers.mirostat_reference import reference_k

ROW = np.array([2.0, 1.0, 0.5, -1.0, -3.0, -np.inf], np.float32)


def test_the_first_step_is_the_row_as_given():
    first = trace(ROW, SamplingParams())[0]
    assert (first.name, first.role, first.backend) == ("logits", "logits", "")
    assert (first.candidates, first.removed, first.kept_mass) == (5, 0, 1.0)
    np.testing.assert_allclose(first.probabilities, softmax(ROW), rtol=1e-12)


def test_there_is_one_step_per_active_sampler_in_the_chains_order():
    steps = trace(ROW, SamplingParams(temperature=0.7, top_k=3, min_p=0.1, logit_bias={1: 0.5}))
    assert [s.name for s in steps] == ["logits", "logit_bias", "top_k", "min_p", "temperature", "dist"]
    assert [s.role for s in steps] == ["logits", "edit", "warp", "warp", "warp", "selector"]


def test_a_step_records_how_many_candidates_it_left_and_their_share():
    step = trace(ROW, SamplingParams(top_k=2))[1]
    assert (step.candidates, step.removed) == (2, 3)
    assert step.kept_mass == pytest.approx(softmax(ROW)[:2].sum())


def test_a_step_that_removes_nothing_keeps_everything():
    step = trace(ROW, SamplingParams(temperature=0.5))[1]
    assert (step.removed, step.kept_mass) == (0, 1.0)


def test_entropy_is_that_of_the_remaining_distribution():
    uniform = np.zeros(8, np.float32)
    steps = trace(uniform, SamplingParams(top_k=4))
    assert [round(s.entropy_bits, 12) for s in steps] == [3.0, 2.0, 0.0]


def test_settings_are_the_parameters_of_a_step_that_are_not_neutral():
    steps = trace(ROW, SamplingParams(top_k=3, temperature=0.8, dynatemp_range=0.2))
    assert [s.settings for s in steps[1:3]] == [{"top_k": 3}, {"temperature": 0.8, "dynatemp_range": 0.2}]


def test_top_tokens_come_in_order_of_probability_and_ties_in_order_of_id():
    steps = trace(np.array([1.0, 3.0, 3.0, 0.0], np.float32), SamplingParams(), top=3)
    assert [token.token_id for token in steps[0].top] == [1, 2, 0]


def test_removed_tokens_are_not_listed():
    assert [token.token_id for token in trace(ROW, SamplingParams(top_k=2), top=5)[1].top] == [0, 1]


def test_the_last_step_is_the_choice():
    last = trace(ROW, SamplingParams(temperature=0))[-1]
    assert (last.name, last.role, last.token_id, last.candidates) == ("greedy", "selector", 0, 1)


def test_the_share_of_the_choice_is_its_probability_in_the_step_before():
    steps = trace(ROW, SamplingParams(seed=11))
    assert steps[-1].kept_mass == pytest.approx(steps[-2].probabilities[steps[-1].token_id])


def test_the_same_seed_chooses_the_same_token():
    row = np.zeros(1000, np.float32)
    chosen = {seed: trace(row, SamplingParams(seed=seed))[-1].token_id for seed in range(20)}
    assert len(set(chosen.values())) > 10
    assert all(trace(row, SamplingParams(seed=seed))[-1].token_id == t for seed, t in chosen.items())


def test_penalties_see_prompt_and_output():
    params = SamplingParams(repetition_penalty=2.0, presence_penalty=1.0)
    step = trace(ROW, params, prompt_token_ids=[0], output_token_ids=[1])[1]
    expected = softmax(np.array([1.0, -0.5, 0.5, -1.0, -3.0, -np.inf]))
    np.testing.assert_allclose(step.probabilities, expected, rtol=1e-6)


def test_tokens_are_written_with_visible_spaces():
    tokenizer = Tokenizer([b" a", b"b\n", b"\xff", b"", b"<end>", b"c"], eos_token_ids=[4])
    steps = trace(np.zeros(6, np.float32), SamplingParams(), tokenizer=tokenizer, top=6)
    assert [token.text for token in steps[0].top] == ["␣a", "b\\n", "\\xff", "#3", "<end>", "c"]


def test_the_chain_uses_the_eos_tokens_of_the_tokenizer():
    tokenizer = Tokenizer([b"a", b"<end>"], eos_token_ids=[1])
    steps = trace(np.zeros(2, np.float32), SamplingParams(ignore_eos=True), tokenizer=tokenizer)
    assert [(s.name, s.candidates) for s in steps] == [("logits", 2), ("ignore_eos", 1), ("dist", 1)]


def test_the_row_is_only_read():
    row = ROW.copy()
    row.flags.writeable = False
    trace(row, SamplingParams(top_k=2, temperature=0.5))
    np.testing.assert_array_equal(row, ROW)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([0.0, np.nan], "nan"),
        ([0.0, np.inf], "inf"),
        ([-np.inf, -np.inf], "every logit of the row is -inf"),
        ([[0.0, 1.0]], "shape"),
        ([], "shape"),
    ],
)
def test_a_row_that_gives_no_token_is_refused_with_the_reason(row, reason):
    with pytest.raises(ValueError, match=reason):
        trace(row, SamplingParams())


def test_a_mask_that_leaves_no_token_is_named():
    row = np.array([0.0, -np.inf], np.float32)
    with pytest.raises(ValueError, match="allowed_token_ids leaves no token"):
        trace(row, SamplingParams(allowed_token_ids=[1]))


def test_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(ParameterError, match="logit_bias"):
        trace(ROW, SamplingParams(logit_bias={6: 1.0}))


def test_at_least_one_token_is_listed():
    with pytest.raises(ValueError, match="top=0 is not allowed"):
        trace(ROW, SamplingParams(), top=0)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="backend='abacus' is not allowed"):
        trace(ROW, SamplingParams(), backend="abacus")


@given(
    st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=300),
    st.integers(0, 20),
    st.floats(0.1, 1.0),
    st.floats(0.0, 0.5),
    st.floats(0.2, 2.0),
)
def test_every_step_equals_the_sampler_on_its_own(values, top_k, top_p, min_p, temperature):
    params = SamplingParams(top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature, seed=1)
    row = np.array(values, np.float32)
    samplers = default_registry().catalogue.samplers
    steps = trace(row, params)
    for step in steps[1:-1]:
        row = apply_sampler(samplers[step.name], row, params)
        np.testing.assert_allclose(step.probabilities, softmax(row), atol=1e-12)
        assert step.candidates == np.isfinite(row).sum()
    assert steps[-2].probabilities[steps[-1].token_id] > 0


def test_tokens_to_follow_are_the_likeliest_of_any_step_in_the_order_of_the_given_row():
    row = np.array([3.0, 2.0, 1.0, 0.0, -1.0], np.float32)
    steps = trace(row, SamplingParams(logit_bias={4: 10.0, 0: -20.0}, temperature=0))
    assert notable_tokens(steps, 3) == [0, 1, 4]


def test_the_chosen_token_is_always_followed():
    steps = trace(np.array([0.0, 3.0, 2.0, 5.0], np.float32), SamplingParams(allowed_token_ids=[0]))
    assert notable_tokens(steps, 1) == [0]


# --- mirostat ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.0, 0.7, 1.2, 5.0])
def test_what_mirostat_2_keeps_and_its_mu_are_a_step(tau):
    row = np.random.default_rng(4).normal(0, 2, 60).astype(np.float32)
    steps = trace(row, SamplingParams(mirostat=2, mirostat_tau=tau, temperature=0.9, seed=3))
    assert [s.name for s in steps] == ["logits", "temperature", "mirostat_v2 cut", "mirostat_v2"]
    cut, last = steps[2:]
    surprise = -np.log2(softmax(row / 0.9))
    kept = np.flatnonzero(surprise <= max(2 * tau, surprise.min() + 1e-6))
    assert np.flatnonzero(cut.probabilities).tolist() == kept.tolist()
    assert (cut.role, cut.settings, cut.candidates) == ("warp", {"mu": 2 * tau}, len(kept))
    assert cut.removed == 60 - len(kept)
    assert last.token_id in kept
    assert last.removed == len(kept) - 1


def test_what_mirostat_1_keeps_and_its_mu_are_a_step():
    row = np.random.default_rng(4).normal(0, 2, 60).astype(np.float32)
    for tau in (0.5, 1.0, 2.0):
        cut = trace(row, SamplingParams(mirostat=1, mirostat_tau=tau, seed=3))[-2]
        assert (cut.name, cut.settings) == ("mirostat cut", {"mu": 2 * tau})
        assert cut.candidates == max(1, min(60, int(reference_k(np.sort(softmax(row))[::-1], 2 * tau, 60))))
        assert np.flatnonzero(cut.probabilities).tolist() == sorted(order(row)[: cut.candidates].tolist())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_the_choice_of_mirostat_is_that_of_the_stateless_call(version, backend):
    if default_registry().catalogue.backends[backend].reason:
        pytest.skip("this backend cannot be used here")
    row = np.random.default_rng(5).normal(0, 2, 60).astype(np.float32)
    for seed in range(20):
        params = SamplingParams(mirostat=version, mirostat_tau=2.0, seed=seed)
        cut, last = trace(row, params, backend=backend)[-2:]
        assert last.token_id == sample(row[None], params, backend=backend).token_ids[0]
        assert cut.probabilities[last.token_id] > 0


def test_the_choice_after_noted_tokens_is_that_of_the_scheduler():
    row = np.random.default_rng(6).normal(0, 2, 60).astype(np.float32)
    for values in ({"adaptive_target": 0.3}, {"mirostat": 1}, {"mirostat": 2, "mirostat_tau": 1.0}):
        params = SamplingParams(seed=3, **values)
        scheduler = Scheduler(60)
        request = scheduler.add(params, [1])
        for _ in range(12):
            state = scheduler.export(request)
            output, notes = state["token_ids"], state["notes"]
            last = trace(row, params, prompt_token_ids=[1], output_token_ids=output, output_notes=notes)[-1]
            assert scheduler.step(row[None]).token_ids[0] == last.token_id
    with pytest.raises(ValueError, match="output_notes"):
        trace(row, params, output_token_ids=[1, 2], output_notes=[None])


def test_other_selectors_have_no_cut():
    assert [s.name for s in trace(ROW, SamplingParams(seed=1))] == ["logits", "dist"]


# --- structured output ---------------------------------------------------------------------------

LETTERS = Tokenizer([b"a", b"b", b"c", b"ab", b"<end>"], eos_token_ids=[4])
FIVE = np.array([2.0, 1.0, 0.5, -1.0, 0.0], np.float32)


def test_a_grammar_is_the_first_step_and_shows_its_parameter():
    params = SamplingParams(regex="ab?", top_k=2, temperature=0.5)
    steps = trace(FIVE, params, tokenizer=LETTERS)
    assert [s.name for s in steps] == ["logits", "grammar", "top_k", "temperature", "dist"]
    step = steps[1]
    assert (step.role, step.backend, step.settings) == ("edit", "", {"regex": "ab?"})
    assert (step.candidates, step.removed) == (2, 3)
    assert step.kept_mass == pytest.approx(softmax(FIVE)[[0, 3]].sum())
    assert [token.text for token in step.top] == ["a", "ab"]


def test_a_grammar_continues_after_the_output():
    steps = trace(FIVE, SamplingParams(regex="ab?"), tokenizer=LETTERS, output_token_ids=[0])
    assert [token.token_id for token in steps[1].top] == [1, 4]


@pytest.mark.parametrize("name", ["json_schema", "grammar", "choice", "structural_tag", "json_object"])
def test_every_structured_parameter_is_traced(name):
    spelled = Tokenizer([bytes((byte,)) for byte in range(128)] + [b""], eos_token_ids=[128])
    tag = {"format": {"type": "const_string", "value": "{}"}}
    value = {
        "json_schema": {"enum": [{}]},
        "grammar": 'start: "{" "}"',
        "choice": ["{}"],
        "structural_tag": tag,
    }
    params = SamplingParams(**{name: value.get(name, True)})
    row = np.zeros(129, np.float32)
    row[ord("{")], row[ord("x")] = 50, 90
    steps = trace(row, params, tokenizer=spelled)
    assert list(steps[1].settings) == [name]
    assert steps[-1].token_id == ord("{")


def test_a_grammar_that_leaves_no_token_is_named():
    row = np.array([-np.inf, 1.0, 2.0, -np.inf, 0.0], np.float32)
    with pytest.raises(ValueError, match="the grammar leaves no token"):
        trace(row, SamplingParams(regex="ab?"), tokenizer=LETTERS)


def test_output_that_a_grammar_refuses_is_named():
    with pytest.raises(ParameterError, match="output_token_ids: the grammar refuses token 2"):
        trace(FIVE, SamplingParams(regex="ab?"), tokenizer=LETTERS, output_token_ids=[0, 2])


def test_a_grammar_needs_a_tokenizer():
    with pytest.raises(ParameterError, match="regex is given as text, which needs a tokenizer"):
        trace(FIVE, SamplingParams(regex="ab?"))


def test_a_grammar_that_only_favours_tokens_is_a_sampler_like_others():
    params = SamplingParams(regex="ab?", grammar_bias=1.5)
    steps = trace(FIVE, params, tokenizer=LETTERS, output_token_ids=[0])
    assert [s.name for s in steps] == ["logits", "grammar_bias", "dist"]
    expected = softmax(FIVE + np.array([0, 1.5, 0, 0, 1.5]))
    np.testing.assert_allclose(steps[1].probabilities, expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_the_traced_choice_under_a_grammar_is_that_of_the_stateless_call(backend):
    if default_registry().catalogue.backends[backend].reason:
        pytest.skip("this backend cannot be used here")
    for seed in range(20):
        params = SamplingParams(regex="[abc]+", seed=seed, temperature=1.7)
        known = {"tokenizer": LETTERS, "backend": backend}
        last = trace(FIVE, params, output_token_ids=[2], **known)[-1]
        assert last.token_id == sample(FIVE[None], params, output_token_ids=[[2]], **known).token_ids[0]
