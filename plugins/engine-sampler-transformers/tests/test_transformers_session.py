"""A transformers model from a directory, in our loop."""

from __future__ import annotations

import json

import pytest
from engine_sampler_transformers import Session
from transformers_models import byte_tokenizer, save_model

from engine_sampler import ParameterError, SamplingParams

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path)
    return path


@pytest.fixture
def session(folder):
    return Session(str(folder))


def finish(session):
    texts = {}
    while session.scheduler.request_ids:
        result = session.step()
        for request_id, text in zip(result.request_ids, result.text, strict=True):
            texts[request_id] = texts.get(request_id, "") + text
    return texts


def test_a_greedy_request_gets_the_tokens_of_its_own_generate(session, folder):
    request_id = session.add(SamplingParams(temperature=0, max_tokens=20), "hello")
    finish(session)
    model, tokenizer = save_model(folder), byte_tokenizer()
    expected = model.generate(**tokenizer("hello", return_tensors="pt"), max_new_tokens=20)[0, 5:].tolist()
    assert session.scheduler.record(request_id).token_ids == expected


@pytest.mark.parametrize("settings", [{}, {"banned_strings": ["a", "ab", "eo"], "temperature": 0.6}])
def test_drafts_change_no_token(folder, settings):
    sessions = [Session(str(folder)) for _ in range(2)]
    for session, drafter in zip(sessions, (None, "ngram"), strict=True):
        for seed in (1, 2):
            params = SamplingParams(**settings, seed=seed, max_tokens=60, top_k=3, drafter=drafter)
            session.add(params, "hello hello hello", seed)
        finish(session)
    plain, drafting = sessions
    for seed in (1, 2):
        assert plain.scheduler.record(seed).token_ids == drafting.scheduler.record(seed).token_ids
    assert 0 < drafting.accepted < drafting.drafted
    assert drafting.steps < plain.steps


def test_a_recurrent_model_is_supported(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.MambaConfig(
        vocab_size=258,
        hidden_size=16,
        state_size=4,
        num_hidden_layers=2,
        eos_token_id=None,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.MambaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    session = Session(str(tmp_path))
    request_id = session.add(SamplingParams(temperature=0, max_tokens=8), "hello")
    finish(session)
    expected = model.generate(**byte_tokenizer()("hello", return_tensors="pt"), max_new_tokens=8)[0, 5:]
    assert session.scheduler.record(request_id).token_ids == expected.tolist()
    with pytest.raises(ParameterError, match="this engine checks no drafts"):
        session.add(SamplingParams(drafter="ngram"), "hello")


def test_a_request_that_joins_late_gets_what_it_gets_alone(folder):
    late_params = SamplingParams(temperature=1.3, seed=4, max_tokens=9)
    alone, busy = Session(str(folder)), Session(str(folder))
    alone.add(late_params, "one two", "late")
    busy.add(SamplingParams(seed=1, max_tokens=30), "three", "early")
    busy.step()
    busy.add(late_params, "one two", "late")
    assert finish(busy)["late"] == finish(alone)["late"]


def test_a_request_that_waits_for_its_grammar_gets_the_same_tokens(folder, monkeypatch):
    params = SamplingParams(regex="(.*a.{6}b|[a-z ]*)", seed=3, max_tokens=12)
    alone, waiting = Session(str(folder)), Session(str(folder))
    alone.add(params, "say: ", "r")
    expected = finish(alone)
    monkeypatch.setattr("engine_sampler.requests.budget.STEP_WORK", 2000)
    monkeypatch.setattr("engine_sampler.requests.budget.REQUEST_WORK", 1000)
    waiting.add(params, "say: ", "r")
    waiting.add(SamplingParams(seed=1, max_tokens=3), "other", "s")
    assert finish(waiting)["r"] == expected["r"]
    assert waiting.steps > alone.steps


def test_nothing_is_cached_for_ended_and_removed_requests(session):
    session.add(SamplingParams(max_tokens=2), "a")
    session.add(SamplingParams(ignore_eos=True), "b", "gone")
    session.step()
    session.scheduler.remove("gone")
    finish(session)
    assert session._caches == session._contexts == {}


def test_the_text_conforms_to_a_schema(session):
    session.add(SamplingParams(json_schema={"const": [True]}, seed=1, max_tokens=80), "say: ", "r")
    assert json.loads(finish(session)["r"]) == [True]


def test_steps_rows_and_times_are_counted(session):
    for _ in range(2):
        session.add(SamplingParams(max_tokens=2, ignore_eos=True), "a")
    finish(session)
    assert (session.steps, session.rows) == (2, 4)
    assert min(session.model_seconds, session.sampling_seconds) > 0


def test_the_models_maximum_length_ends_a_request(session):
    request_id = session.add(SamplingParams(seed=1, ignore_eos=True), "a" * 120)
    finish(session)
    record = session.scheduler.record(request_id)
    assert (len(record.token_ids), record.finish_reason) == (8, "length")


def test_a_prompt_without_tokens_is_refused(session):
    with pytest.raises(ValueError, match="prompt='' has no tokens"):
        session.add(SamplingParams(), "")


def test_a_path_without_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="absent is not a directory"):
        Session(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="contains no loadable model"):
        Session(str(tmp_path))
