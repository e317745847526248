"""Sessions around a tiny model of the real library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")

import llama_cpp
import tiny_gguf
from engine_sampler_llama_cpp import (
    Session,
)
from tiny_gguf import PROMPT, SETTINGS

from engine_sampler import ParameterError, SamplingParams, Tokenizer

PLUGIN = Path(__file__).resolve().parents[1]
"""Where a process of its own imports the package from."""


def by_session(model: Path, settings: dict[str, Any], prompt: str = PROMPT) -> Any:
    session = Session(str(model))
    request = session.add(SamplingParams(**settings), prompt)
    while session.scheduler.request_ids:
        session.step()
    return session.scheduler.record(request)


def test_a_greedy_session_writes_what_llama_cpp_writes(llm: Any, model: Path, tokenizer: Tokenizer) -> None:
    ids = llm.tokenize(PROMPT.encode(), special=True)
    expected_ids: list[int] = []
    for token in llm.generate(ids, temp=0.0):
        expected_ids.append(token)
        if len(expected_ids) == 20 or token in tokenizer.eos_token_ids:
            break
    assert by_session(model, {"temperature": 0, "max_tokens": 20}).token_ids == expected_ids


def test_requests_share_the_model_and_keep_their_texts(model: Path) -> None:
    names = ("greedy", "plain", "truncated", "mirostat", "grammar")
    settings = [{**SETTINGS[name], "max_tokens": 6 + 2 * i} for i, name in enumerate(names)]
    prompts = [PROMPT[: 4 + i] for i in range(len(settings))]
    session = Session(str(model), max_requests=3)
    waiting = list(zip(settings, prompts, strict=True))
    requests = []
    while waiting or session.scheduler.request_ids:
        while waiting and len(session.scheduler.request_ids) < 3:
            own, prompt = waiting.pop(0)
            requests.append(session.add(SamplingParams(**own), prompt))
        session.step()
    assert session.steps < session.rows
    for request, own, prompt in zip(requests, settings, prompts, strict=True):
        assert session.scheduler.record(request).token_ids == by_session(model, own, prompt).token_ids


@pytest.mark.parametrize(
    "settings", [{"regex": "(on the )+"}, {"regex": "((on|at) the )+", "banned_strings": ["on the on"]}]
)
def test_drafts_change_no_token(model: Path, settings: dict[str, Any]) -> None:
    sessions = [Session(str(model), max_requests=2) for _ in range(2)]
    for session, drafter in zip(sessions, ([], ["grammar", "ngram"]), strict=True):
        for seed in (1, 2):
            params = SamplingParams(**settings, seed=seed, max_tokens=60, drafter=drafter)
            session.add(params, PROMPT + PROMPT, seed)
        while session.scheduler.request_ids:
            session.step()
    plain, drafting = sessions
    for seed in (1, 2):
        assert plain.scheduler.record(seed).token_ids == drafting.scheduler.record(seed).token_ids
    assert 0 < drafting.accepted < drafting.drafted
    assert drafting.steps < plain.steps


def test_a_removed_request_frees_its_sequence(model: Path) -> None:
    session = Session(str(model), max_requests=2)
    first = session.add(SamplingParams(temperature=0), "the")
    session.add(SamplingParams(temperature=0), "a")
    session.step()
    with pytest.raises(ValueError, match="max_requests=2"):
        session.add(SamplingParams(), "on")
    session.scheduler.remove(first)
    third = session.add(SamplingParams(temperature=0, max_tokens=8), PROMPT)
    while third in session.scheduler.request_ids:
        session.step()
    expected = by_session(model, {"temperature": 0, "max_tokens": 8})
    assert session.scheduler.record(third).token_ids == expected.token_ids


def test_a_request_ends_at_the_models_context(model: Path) -> None:
    session = Session(str(model), context=32)
    request = session.add(SamplingParams(temperature=0, ignore_eos=True), "the")
    while session.scheduler.request_ids:
        session.step()
    record = session.scheduler.record(request)
    assert (record.finish_reason, record.stop_reason) == ("length", "max_model_len")
    with pytest.raises(ParameterError, match="max_model_len=32"):
        session.add(SamplingParams(), "{" * 40)


def test_a_prompt_longer_than_a_batch_is_read_in_parts(model: Path) -> None:
    session = Session(str(model), context=1200)
    request = session.add(SamplingParams(temperature=0, max_tokens=3), "{" * 1100)
    while session.scheduler.request_ids:
        session.step()
    assert len(session.scheduler.record(request).token_ids) == 3


def session_with(model: Path, *prompts: str) -> tuple[Session, dict[Any, list[int]]]:
    """A session with greedy requests, and their contexts."""
    session = Session(str(model), max_requests=len(prompts))
    contexts = {session.add(SamplingParams(temperature=0), text): session.encode(text) for text in prompts}
    return session, contexts


def test_a_session_passes_on_llama_cpps_own_logits(model: Path) -> None:
    session, contexts = session_with(model, "the", "a cat")
    first = session.forward(contexts)
    second = session.forward({request: [*ids, 5] for request, ids in contexts.items()})
    assert first.shape == second.shape == (2, len(tiny_gguf.PIECES))
    assert np.shares_memory(first, second)


def test_a_request_without_a_new_token_gets_its_logits_again(model: Path) -> None:
    session, contexts = session_with(model, "the", "a cat", "on")
    first = session.forward(contexts).copy()
    assert np.array_equal(session.forward(contexts), first)
    early, middle, late = contexts
    grown = session.forward({early: [*contexts[early], 5], late: contexts[late]}).copy()
    assert np.array_equal(grown[1], first[2])
    last = session.forward({**contexts, early: [*contexts[early], 5]})
    assert np.array_equal(last, [grown[0], first[1], first[2]])
    session.forget(middle)
    assert session._rows.keys() == {early, late}


def test_a_request_that_waits_for_its_grammar_gets_the_same_tokens(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"regex": "(.*a.{6}b|[a-z ]*)", "seed": 3, "max_tokens": 12}
    expected = by_session(model, settings).token_ids
    monkeypatch.setattr("engine_sampler.requests.budget.STEP_WORK", 2000)
    monkeypatch.setattr("engine_sampler.requests.budget.REQUEST_WORK", 1000)
    session = Session(str(model))
    request = session.add(SamplingParams(**settings), PROMPT)
    while session.scheduler.request_ids:
        session.step()
    assert session.scheduler.record(request).token_ids == expected
    assert session.steps > len(expected)


def test_requests_of_a_session_get_their_logits_from_several_batches(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ("the cat sat on a mat", "a", "the mat sat")
    session, contexts = session_with(model, *prompts)
    expected = session.forward(contexts)
    monkeypatch.setattr("engine_sampler_llama_cpp.session._BATCH", 4)
    session, contexts = session_with(model, *prompts)
    assert np.allclose(session.forward(contexts), expected, atol=1e-3)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system pins no processes")
def test_a_session_uses_the_cores_that_its_process_may_use(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5})
    context = Session(str(model))._model._context
    assert llama_cpp.llama_n_threads_batch(context) == 3
    assert llama_cpp.llama_n_threads(context) == 1


def test_a_file_that_is_not_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"--model .*none.gguf: no such file"):
        Session(str(tmp_path / "none.gguf"))
    (tmp_path / "bad.gguf").write_text("no model")
    with pytest.raises(ValueError, match=r"--model .*bad.gguf: llama.cpp cannot load it"):
        Session(str(tmp_path / "bad.gguf"))


@pytest.mark.parametrize("prompt", [None, 5, b"the", [1, 2]])
def test_a_prompt_that_is_no_text_is_refused_by_name(prompt: Any, model: Path) -> None:
    with pytest.raises(ParameterError, match=r"prompt=.* is not allowed: a text"):
        Session(str(model)).add(SamplingParams(), prompt)


def test_a_session_is_quiet(model: Path) -> None:
    program = (
        "import sys; from engine_sampler import SamplingParams;"
        "from engine_sampler_llama_cpp import Session;"
        "s = Session(sys.argv[1]); s.add(SamplingParams(max_tokens=2), 'the'); s.step(); s.step()"
    )
    command = [sys.executable, "-c", program, str(model)]
    done = subprocess.run(command, cwd=PLUGIN, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_the_example_of_the_page_runs(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = PLUGIN.parents[1] / "docs" / "coming-from" / "llama.cpp.md"
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (example,) = [block for block in blocks if "Session(" in block]
    exec(example.replace("model.gguf", str(model)).replace("2048", "64"), {})
    assert re.match(r"Once upon a time .*\nThe sea .", capsys.readouterr().out, re.DOTALL)
