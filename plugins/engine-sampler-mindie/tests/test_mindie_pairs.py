"""MindIE's `sample` interface: what is drawn, what it scores, and the tensors of other libraries."""

import doctest
import importlib
import inspect
import json

import engine_sampler_mindie as mindie
import numpy as np
import pytest
from engine_sampler_mindie import (
    Sampler,
    SamplingData,
    SamplingParam,
)
from mindie_reference import LOGITS, VOCAB, padded, param, penalised, processed

from engine_sampler.for_backends import LogprobsCollector
from tests.chi_square import assert_drawn_from
from tests.conftest import shared_data


def draws(logits, settings, count=1000, sampler=None, **data):
    """Tokens and logprobs of `count` seeds for one row of logits."""
    repeated = {name: np.repeat(np.array([value]), count) for name, value in settings.items()}
    tokens, logprobs = (sampler or Sampler()).sample(
        np.repeat(np.array([logits], np.float32), count, axis=0),
        SamplingData(**{name: np.repeat(np.array([ids]), count, axis=0) for name, ids in data.items()}),
        SamplingParam(seed=np.arange(count), **repeated),
    )
    return tokens, logprobs


def test_the_example_runs():
    outcome = doctest.testmod(mindie)
    assert outcome.attempted > 10
    assert outcome.failed == 0


def test_the_documents_method_body_and_imports_run_with_one_prefix_changed():
    prefix = "engine_sampler_mindie.text_generator"
    names = importlib.import_module(f"{prefix}.utils.sampling_metadata")
    made = importlib.import_module(f"{prefix}.samplers.sampler").Sampler()
    assert (names.SamplingData, names.SamplingParam) == (SamplingData, SamplingParam)
    assert names.SamplingMetadata is mindie.SamplingMetadata

    class Generator:
        sampler = made

        def sample(self, logits, sampling_data, sampling_param):
            logits_or_logprobs, next_tokens = self.sampler(logits, sampling_data, sampling_param)
            return next_tokens, logits_or_logprobs

    settings = param(temperature=[2.0, 0.0, 2.0, 1.5], seed=[1, 2, 3, 4])
    tokens, scores = Generator().sample(LOGITS, names.SamplingData.from_numpy(), settings)
    expected, expected_scores = Sampler().sample(LOGITS, None, settings)
    assert tokens.tolist() == expected.tolist()
    assert scores.tolist() == expected_scores.tolist()
    assert isinstance(made(LOGITS, mindie.SamplingMetadata.from_numpy([[1, 2, 3, 4]])), mindie.SamplingOutput)


def test_no_logprobs_are_computed_if_none_are_wanted(monkeypatch):
    settings = param(temperature=[2.0, 0.0, 2.0, 1.5], top_k=[5] * 4, seed=[1, 2, 3, 4])
    expected, scores = Sampler().sample(LOGITS, None, settings)
    assert scores is not None

    def forbidden(*arguments):
        raise AssertionError("logprobs are collected")

    monkeypatch.setattr(LogprobsCollector, "__init__", forbidden)
    tokens, nothing = Sampler(logprobs=False).sample(LOGITS, None, settings)
    assert nothing is None
    assert tokens.tolist() == expected.tolist()


def test_arguments_have_mindies_names_and_order():
    data = ["all_input_ids", "output_ids", "to_tensor", "is_prefill", "request_ids"]
    assert list(inspect.signature(SamplingData.from_numpy).parameters) == data
    assert inspect.signature(SamplingData.from_numpy).parameters["is_prefill"].default is True
    assert list(inspect.signature(SamplingParam.from_numpy).parameters) == [
        "repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p",
        "seed", "do_sample", "to_tensor",
    ]  # fmt: skip
    assert list(inspect.signature(Sampler.sample).parameters)[1:4] == [
        "logits",
        "sampling_data",
        "sampling_param",
    ]


def test_a_batch_without_settings_is_greedy_and_has_no_scores():
    tokens, scores = Sampler().sample(LOGITS)
    assert tokens.tolist() == LOGITS.argmax(axis=1).tolist()
    assert tokens.dtype == np.int64
    assert scores is None


def test_an_all_greedy_batch_scores_minus_9999_in_the_observed_mode():
    _, scores = Sampler(mode="observed").sample(LOGITS)
    assert scores.tolist() == [-9999.0] * 4


def varying(sampler, **settings):
    """For each row, whether 60 seeds draw more than one token."""
    tokens = [
        sampler.sample(LOGITS / 4, None, param(**settings, seed=[seed] * 4))[0].tolist() for seed in range(60)
    ]
    return [len(set(row)) > 1 for row in zip(*tokens, strict=True)]


def test_a_row_with_a_sampling_setting_samples_and_one_without_is_greedy():
    settings = {"temperature": [1.0, 0.5, 0.0, 1.0], "top_k": [0, 0, 3, 5]}
    assert varying(Sampler(), **settings) == [True, True, False, True]  # a seed is one as well
    tokens, scores = Sampler().sample(LOGITS / 4, None, param(**settings))
    assert tokens[[0, 2]].tolist() == LOGITS[[0, 2]].argmax(axis=1).tolist()
    assert scores[[0, 2]].tolist() == (LOGITS[[0, 2]].max(axis=1) / 4).tolist()


def test_in_the_observed_mode_nothing_samples_without_do_sample():
    for seed in range(20):
        settings = param(temperature=[0.5] * 4, top_k=[5] * 4, seed=[seed] * 4)
        tokens, scores = Sampler(mode="observed").sample(LOGITS / 4, None, settings)
        assert tokens.tolist() == LOGITS.argmax(axis=1).tolist()
        assert (scores == -9999).all()


@pytest.mark.parametrize(("mode", "overruled"), [("documented", True), ("observed", False)])
def test_a_temperature_of_0_is_greedy_and_a_sampling_setting_overrules_do_sample_as_documented(
    mode, overruled
):
    settings = {"temperature": [1.0, 0.7, 0.0, 2.0], "do_sample": [True, False, True, True]}
    assert varying(Sampler(mode=mode), **settings) == [True, overruled, False, True]


@pytest.mark.parametrize("setting", [{"top_k": [5]}, {"top_p": [0.9]}, {"temperature": [1.5]}, {"seed": [3]}])
def test_each_sampling_setting_makes_do_sample_true_as_documented(setting):
    sampler, row = Sampler(), np.zeros((1, VOCAB), np.float32)
    settings = param(**setting, do_sample=[False])
    assert len({sampler.sample(row, None, settings)[0][0] for _ in range(40)}) > 2
    greedy = Sampler(mode="observed")
    assert {greedy.sample(row, None, settings)[0][0] for _ in range(40)} == {0}
    neutral = param(temperature=[1.0], top_k=[0], top_p=[1.0], do_sample=[False])
    assert {sampler.sample(row, None, neutral)[0][0] for _ in range(40)} == {0}


def test_a_greedy_row_among_sampled_ones_scores_its_logit_after_penalties():
    history = padded([[1, 2, 2], [int(LOGITS[1].argmax()), 3, 3], [4], [5, 5]], VOCAB)
    output = padded([[2], [3, 3], [], [5]], VOCAB)
    settings = {
        "repetition_penalty": [1.3] * 4,
        "frequency_penalty": [0.5] * 4,
        "presence_penalty": [0.25] * 4,
    }
    tokens, scores = Sampler().sample(
        LOGITS,
        SamplingData.from_numpy(history, output),
        param(**settings, temperature=[1.0, 0.0, 0.0, 1.0], seed=[1, 1, 1, 1]),
    )
    for row, (all_ids, out) in {1: ([int(LOGITS[1].argmax()), 3], [3, 3]), 2: ([4], [])}.items():
        expected = penalised(LOGITS[row], all_ids, out, 1.3, 0.5, 0.25)
        assert tokens[row] == expected.argmax()
        assert scores[row] == pytest.approx(expected.max(), rel=1e-5)
    assert (scores[[0, 3]] <= 0).all()


def test_a_greedy_row_among_sampled_ones_scores_0_in_the_observed_mode():
    _, scores = Sampler(mode="observed").sample(LOGITS, None, param(do_sample=[True, False, False, True]))
    assert scores[1] == scores[2] == 0.0


@pytest.mark.quick_share(2)
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7},
        {"temperature": 1.6, "top_k": 7},
        {"temperature": 2.0, "top_p": 0.8},
        {"temperature": 2.0, "top_k": 9, "top_p": 0.6},
        {
            "temperature": 3.0,
            "top_k": 12,
            "repetition_penalty": 1.4,
            "frequency_penalty": 0.4,
            "presence_penalty": 0.3,
        },
    ],
)
def test_sampled_rows_follow_the_reference_formula_and_score_its_logarithm(settings):
    all_ids, output = [1, 2, 3, 3, 7, 7, 7, 8], [7, 7, 8]
    tokens, logprobs = draws(LOGITS[0], settings, all_input_ids=all_ids, output_ids=output)
    names = {
        "repetition_penalty": "repetition",
        "frequency_penalty": "frequency",
        "presence_penalty": "presence",
    }
    expected = processed(
        LOGITS[0], all_ids, output, **{names.get(name, name): value for name, value in settings.items()}
    )
    assert_drawn_from(expected, tokens)
    np.testing.assert_allclose(logprobs, np.log(expected[tokens]), atol=2e-5)


@pytest.mark.parametrize(("mode", "kept"), [("documented", {0, 1}), ("observed", {0, 1, 2})])
def test_top_p_keeps_tokens_until_it_is_reached_or_as_observed_exceeded(mode, kept):
    row = np.where(np.arange(VOCAB) < 4, 0.0, -100.0)
    settings = {"temperature": 0.9, "do_sample": True}
    tokens, _ = draws(row, {**settings, "top_p": 0.5}, 300, Sampler(mode=mode))
    assert set(tokens.tolist()) == kept
    tokens, _ = draws(row, {**settings, "top_p": 0.0}, 50, Sampler(mode=mode))
    assert set(tokens.tolist()) == {0}


@pytest.mark.parametrize(("mode", "kept"), [("documented", {0}), ("observed", {0, 1})])
def test_top_p_of_a_half_keeps_a_token_that_has_one_half(mode, kept):
    row = np.full(VOCAB, -np.inf)
    row[:4] = np.log([0.5, 0.25, 0.125, 0.125])
    tokens, _ = draws(row, {"do_sample": True, "top_p": 0.5}, 300, Sampler(mode=mode))
    assert set(tokens.tolist()) == kept


@pytest.mark.parametrize("pad", [0, -1, VOCAB])
def test_padding_is_never_penalised(pad):
    row = np.zeros((1, VOCAB), np.float32)
    row[0, 0], row[0, 5] = 3.0, 2.9
    history = np.array([[5, 6, pad, pad, pad]])
    settings = param(repetition_penalty=[2.0], frequency_penalty=[9.0], presence_penalty=[9.0])
    sampler = Sampler(pad_token_id=0)
    assert sampler.sample(row, SamplingData(history, history[:, 1:]), settings)[0].tolist() == [0]
    left = SamplingData(history[:, ::-1])
    assert sampler.sample(row, left, param(repetition_penalty=[2.0]))[0].tolist() == [0]


def test_the_pad_token_inside_a_text_is_a_token():
    row = np.zeros((1, VOCAB), np.float32)
    row[0, 0], row[0, 5] = 3.0, 2.9
    inside = np.array([[6, 0, 6, 0, 0]])
    assert Sampler(pad_token_id=0).sample(row, SamplingData(inside), param(repetition_penalty=[2.0]))[0] == 5


def test_a_token_does_not_depend_on_the_batch():
    settings = {"temperature": [0.9, 1.5, 0.0, 2.0], "top_k": [0, 9, 0, 12], "seed": [4, 5, 6, 7]}
    tokens, scores = Sampler().sample(LOGITS, None, param(**settings))
    for row in range(4):
        alone = param(**{name: values[row : row + 1] for name, values in settings.items()})
        token, score = Sampler().sample(LOGITS[row : row + 1], None, alone)
        assert token[0] == tokens[row]
        assert score is None or score[0] == scores[row]


def test_a_faulty_row_gives_no_token_and_leaves_the_others_alone(caplog):
    broken = LOGITS.copy()
    broken[1, 3] = np.nan
    sampler = Sampler()
    settings = param(temperature=[2.0] * 4, seed=[1, 2, 3, 4])
    tokens, scores = sampler.sample(broken, None, settings)
    expected, expected_scores = Sampler().sample(LOGITS, None, settings)
    assert tokens[1] == -1
    assert scores[1] == -9999.0
    assert (tokens[[0, 2, 3]] == expected[[0, 2, 3]]).all()
    assert (scores[[0, 2, 3]] == expected_scores[[0, 2, 3]]).all()
    assert sampler.errors[1]
    assert sampler.errors[0] is None
    assert "row 1" in caplog.text


def test_float16_logits_and_other_layouts_are_read():
    half = LOGITS.astype(np.float16)
    expected, _ = Sampler().sample(half.astype(np.float32), None, param(temperature=[2.0] * 4, seed=[1] * 4))
    tokens, _ = Sampler().sample(np.asfortranarray(half), None, param(temperature=[2.0] * 4, seed=[1] * 4))
    assert tokens.tolist() == expected.tolist()


# --- other libraries -----------------------------------------------------------------------------


def test_torch_logits_give_numpy_arrays_or_by_request_torch_tensors():
    torch = pytest.importorskip("torch")
    settings = param(temperature=[2.0, 0.0, 2.0, 1.5], seed=[1, 2, 3, 4])
    ids = torch.tensor(padded([[1], [2, 3], [4], [5]], VOCAB))
    tokens, scores = Sampler().sample(
        torch.from_numpy(LOGITS), SamplingData(ids, to_tensor=torch.tensor), settings
    )
    assert type(tokens) is type(scores) is np.ndarray
    assert tokens[0] in {tokens.tolist()[0]}  # as a loop finds its EOS token
    tokens, scores = Sampler(return_tensors=True).sample(
        torch.from_numpy(LOGITS), SamplingData(ids, to_tensor=torch.tensor), settings
    )
    assert isinstance(tokens, torch.Tensor)
    assert tokens.dtype == torch.int64
    assert tokens.device.type == "cpu"
    assert isinstance(scores, torch.Tensor)
    assert scores.dtype == torch.float32
    assert tokens.tolist() == Sampler().sample(LOGITS, SamplingData(ids), settings)[0].tolist()
    half = torch.from_numpy(LOGITS).to(torch.bfloat16)
    assert (
        Sampler().sample(half, None, settings)[0].tolist()
        == Sampler().sample(half.float(), None, settings)[0].tolist()
    )


def test_a_bfloat16_batch_scores_its_greedy_rows():
    torch = pytest.importorskip("torch")
    half = torch.from_numpy(LOGITS).to(torch.bfloat16)
    _, scores = Sampler().sample(half, None, param(do_sample=[False, True, False, True]))
    assert scores[[0, 2]].tolist() == half.float()[[0, 2]].max(dim=1).values.tolist()


def test_mindspore_tensors_come_back_as_mindspore_tensors_by_request():
    mindspore = pytest.importorskip("mindspore")
    settings = SamplingParam.from_numpy(
        temperature=np.array([2.0, 0.0, 2.0, 1.5]), seed=np.arange(4), to_tensor=mindspore.Tensor
    )
    expected, expected_scores = Sampler().sample(LOGITS, None, settings)
    tokens, scores = Sampler(return_tensors=True).sample(mindspore.Tensor(LOGITS), None, settings)
    assert isinstance(tokens, mindspore.Tensor)
    assert tokens.dtype == mindspore.int64
    assert isinstance(scores, mindspore.Tensor)
    assert scores.dtype == mindspore.float32
    assert tokens.asnumpy().tolist() == expected.tolist()
    assert scores.asnumpy().tolist() == expected_scores.tolist()
    half = mindspore.Tensor(LOGITS).astype(mindspore.bfloat16)
    assert (
        Sampler().sample(half, None, settings)[0].tolist()
        == Sampler().sample(half.float().asnumpy(), None, settings)[0].tolist()
    )


# --- cases of other systems' tests ---------------------------------------------------------------


PEER_CASES = {"temperature": 2, "top_k": 3, "top_p": 2, "repetition_penalty": 4}
"""The samplers that MindIE has, with the number of cases for each."""

PEER_DIFFERS = {
    "top_k_ties_kept": "MindIE has no min_tokens_to_keep, and keeps exactly k of tied tokens",
    "top_k_min_tokens_to_keep": "MindIE has no min_tokens_to_keep",
    "top_p_0.9_min2": "MindIE has no min_tokens_to_keep",
    "repetition_penalty_prompt_ignored": "MindIE has no prompt_ignore_length: the prompt counts",
    "repetition_penalty_after_prompt": "MindIE has no prompt_ignore_length",
    "repetition_penalty_normalized": "MindIE has no penalty on normalised scores",
}
"""Cases with a different result, or that cannot be expressed, and why."""


def as_floats(rows):
    return np.array([[float(value) for value in row] for row in rows], np.float32)


def agrees_with_peer(case):
    """Whether every row's draws and logprobs agree with the softmax of the case's output."""
    field, params = case["sampler"], dict(case["params"])
    value = params.pop("penalty" if field == "repetition_penalty" else field)
    if params:
        return False
    output = as_floats(case["output"]).astype(np.float64)
    expected = np.exp(output - output.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    for i, row in enumerate(as_floats(case["scores"])):
        data = {"all_input_ids": case["input_ids"][i]} if case["input_ids"] else {}
        tokens, logprobs = draws(row, {"do_sample": True, field: value}, 60, **data)
        with np.errstate(divide="ignore"):
            if not np.allclose(logprobs, np.log(expected[i][tokens]), atol=1e-4):
                return False
    return True


@pytest.mark.parametrize("sampler", PEER_CASES)
def test_peers_cases_agree_except_for_the_listed_ones(sampler):
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    cases = [case for case in cases if case["sampler"] == sampler]
    assert len(cases) == PEER_CASES[sampler]
    differing = {case["id"] for case in cases if not agrees_with_peer(case)}
    assert differing == {case["id"] for case in cases} & set(PEER_DIFFERS)
