"""The adapter with the real library: a tiny model, its completions, tokenizer and samplers."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")

import llama_cpp
import tiny_gguf
from engine_sampler_llama_cpp import (
    LogitsProcessor,
    Session,
    StoppingCriteria,
    from_request,
    tokenizer_of,
)

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer, process_logits
from tests.parity.llama import LlamaSampler

PROMPT = "the cat sat on a mat."
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "plain": {"seed": 7},
    "truncated": {"seed": 7, "temperature": 1.2, "top_k": 40, "top_p": 0.9, "min_p": 0.01},
    "penalised": {"seed": 8, "repetition_penalty": 1.2, "penalty_scope": "all", "dry_multiplier": 0.8},
    "xtc": {"seed": 9, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "mirostat": {"seed": 9, "mirostat": 2},
    "typical": {"seed": 9, "typical_p": 0.6, "top_n_sigma": 1.5},
    "grammar": {"seed": 3, "regex": "[a-z ]{5,30}\\."},
}

PLUGIN = Path(__file__).resolve().parents[1]
"""Where a process of its own imports the package from."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def loaded(model: Path) -> Iterator[Any]:
    with closing(llama_cpp.Llama(str(model), n_ctx=128, verbose=False)) as llama:
        yield llama


@pytest.fixture
def llm(loaded: Any) -> Any:
    """The model with an empty cache: cached earlier texts would change its logits in the last bits."""
    loaded.reset()
    return loaded


@pytest.fixture(scope="module")
def tokenizer(loaded: Any) -> Tokenizer:
    return tokenizer_of(loaded)


class Recorder:
    """A processor that changes nothing and records its inputs."""

    def __init__(self) -> None:
        self.ids: list[list[int]] = []
        self.rows: list[np.ndarray] = []

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        self.ids.append(input_ids.tolist())
        self.rows.append(scores.copy())
        return scores

    def replay(self, params: SamplingParams, tokenizer: Tokenizer) -> Any:
        """The record of a scheduler's request on the same rows."""
        scheduler = Scheduler(len(tokenizer), tokenizer)
        request = scheduler.add(params, self.ids[0])
        for row in self.rows:
            if scheduler.request_ids:
                scheduler.step(row[None])
        return scheduler.record(request)


def by_session(model: Path, settings: dict[str, Any], prompt: str = PROMPT) -> Any:
    session = Session(str(model))
    request = session.add(SamplingParams(**settings), prompt)
    while session.scheduler.request_ids:
        session.step()
    return session.scheduler.record(request)


# --- the tokenizer -------------------------------------------------------------------------------


def test_the_tokenizer_has_the_models_pieces(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == len(tiny_gguf.PIECES)
    assert tokenizer.token_bytes[3:259] == tuple(bytes([b]) for b in range(256))
    assert tokenizer.token_bytes[tiny_gguf.PIECES.index("▁cat")] == b" cat"
    assert tokenizer.token_bytes[tiny_gguf.TURN] == b"<|turn|>"
    assert tokenizer.eos_token_ids == (tiny_gguf.EOS, tiny_gguf.TURN)
    assert tokenizer.eot_token_id == tiny_gguf.TURN
    assert tokenizer.special_token_ids == {0, 1, tiny_gguf.EOS, tiny_gguf.TURN}


@pytest.mark.parametrize("text", ["the cat", "s.", "\n", "é", "€uro", '{"a": 1}', "<|turn|>", ""])
def test_texts_are_tokenized_as_the_model_tokenizes_them(llm: Any, tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == llm.tokenize(text.encode(), add_bos=False, special=False)
    assert tokenizer.decode(ids).removeprefix(" ") == text


def test_the_tokenizer_keeps_its_model_alive(model: Path) -> None:
    tokenizer = Session(str(model)).scheduler.vocabulary.need_tokenizer("encode")
    gc.collect()
    assert tokenizer.decode(tokenizer.encode("the cat")) == " the cat"


def test_breakers_given_as_texts_match_llama_cpps(loaded: Any, tokenizer: Tokenizer) -> None:
    vocab = llama_cpp.llama_model_get_vocab(loaded.model)
    breakers = ["\n", ":", "at", "e c", '"']
    texts = (ctypes.c_char_p * len(breakers))(*(text.encode() for text in breakers))
    random = np.random.default_rng(0)
    few = [*range(259, len(tiny_gguf.PIECES) - 1), *(3 + b for b in b"atec ")]
    row = np.zeros(len(tokenizer), np.float32)
    penalised = 0
    for last_n in (0, 20, 300) * 20:
        history = random.choice(random.choice(few, 5), 60).tolist()
        body = {"dry_multiplier": 0.8, "dry_penalty_last_n": last_n, "dry_sequence_breakers": breakers}
        params = from_request({**body, "samplers": ["dry"]})
        ours = process_logits(row[None], params, prompt_token_ids=[history], tokenizer=tokenizer)[0]
        pointer = llama_cpp.llama_sampler_init_dry(vocab, 0.8, 1.75, 2, last_n, texts, len(breakers))
        sampler = LlamaSampler(pointer)
        sampler.accept(history)
        theirs = sampler.apply(row).row(len(row))
        llama_cpp.llama_sampler_free(pointer)
        assert np.allclose(ours, theirs, rtol=1e-5)
        penalised += int((ours < 0).any())
    assert penalised > 10


# --- completions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_a_completion_has_the_tokens_of_a_scheduler(name: str, llm: Any, tokenizer: Tokenizer) -> None:
    params = SamplingParams(**SETTINGS[name], max_tokens=24)
    processor, recorder = LogitsProcessor(params, tokenizer), Recorder()
    completion = llm.create_completion(
        PROMPT, **{**processor.settings, "logits_processor": [recorder, processor]}
    )
    expected = recorder.replay(params, tokenizer)
    assert processor.record is not None
    assert processor.record.token_ids == expected.token_ids
    assert processor.record.finish_reason == expected.finish_reason
    assert completion["choices"][0]["text"] == expected.text.replace("�", "")


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_only_processor_draws_the_same_tokens(
    name: str, temperature: float, llm: Any, tokenizer: Tokenizer
) -> None:
    params = SamplingParams(**SETTINGS[name], max_tokens=24)
    outcomes = []
    for is_only in (True, False):
        llm.reset()
        processor = LogitsProcessor(params, tokenizer)
        settings = {**processor.settings, "temperature": temperature}
        if not is_only:
            settings["logits_processor"] = [Recorder(), processor]
        text = llm.create_completion(PROMPT, **settings)["choices"][0]["text"]
        assert processor.record is not None
        outcomes.append((text, processor.record.token_ids))
    assert outcomes[0] == outcomes[1]


def test_the_logits_are_read_where_they_lie(llm: Any, tokenizer: Tokenizer) -> None:
    seen = []

    class Watching(LogitsProcessor):
        def _draw(self, row: np.ndarray) -> int:
            seen.append(not row.flags.owndata)
            return super()._draw(row)

    processor = Watching(SamplingParams(seed=1, max_tokens=5), tokenizer)
    llm.create_completion(PROMPT, **processor.settings)
    assert seen == [False, *([True] * 4)]  # the first token tells that no other sampler takes part


def test_logprobs_need_no_logits_of_all_tokens(llm: Any, tokenizer: Tokenizer) -> None:
    processor = LogitsProcessor(SamplingParams(seed=1, max_tokens=5, logprobs=2), tokenizer)
    llm.create_completion(PROMPT, **processor.settings)
    logprobs: Any = processor.logprobs
    assert processor.record is not None
    assert logprobs.token_ids[:, 0].tolist() == processor.record.token_ids
    assert logprobs.logprobs.shape == (5, 3)
    assert (logprobs.logprobs <= 0).all()


@pytest.mark.parametrize("max_tokens", range(1, 8))
def test_a_character_that_max_tokens_cuts_is_completed_as_by_llama_cpp(
    max_tokens: int, llm: Any, tokenizer: Tokenizer
) -> None:
    settings = {"regex": "中文[a-z]{3,9}", "temperature": 0, "max_tokens": max_tokens}
    processor = LogitsProcessor(SamplingParams(**settings), tokenizer)
    ours = llm.create_completion(PROMPT, **processor.settings)
    llm.reset()
    own = llama_cpp.LlamaGrammar.from_string('root ::= "中文" [a-z]{3,9}', verbose=False)
    theirs = llm.create_completion(PROMPT, max_tokens=max_tokens, temperature=0.0, grammar=own)
    assert ours["choices"] == theirs["choices"]
    assert ours["choices"][0]["finish_reason"] == "length"


def test_later_samplers_choose_the_drawn_token(llm: Any, tokenizer: Tokenizer) -> None:
    params = SamplingParams(seed=5, temperature=1.5, max_tokens=16)
    processor, recorder = LogitsProcessor(params, tokenizer), Recorder()
    ids = llm.tokenize(PROMPT.encode(), special=True)
    drawn = llm.generate(
        ids, top_k=40, top_p=0.9, min_p=0.1, typical_p=0.9, temp=0.8, repeat_penalty=1.3,
        logits_processor=[recorder, processor], stopping_criteria=processor.stopped,
    )  # fmt: skip
    assert list(drawn) == recorder.replay(params, tokenizer).token_ids


def test_a_stop_string_ends_a_completion(llm: Any, tokenizer: Tokenizer) -> None:
    without_stop = LogitsProcessor(SamplingParams(regex="[a-t]{20}", seed=7), tokenizer)
    text = llm.create_completion(PROMPT, **without_stop.settings)["choices"][0]["text"]
    llm.reset()
    stop = text[6:8]
    processor = LogitsProcessor(SamplingParams(regex="[a-t]{20}", seed=7, stop=[stop]), tokenizer)
    choice = llm.create_completion(PROMPT, **processor.settings)["choices"][0]
    assert (choice["finish_reason"], choice["text"]) == ("stop", text[: text.index(stop)])
    assert processor.record is not None
    assert processor.record.stop_reason == stop


def test_our_criteria_end_a_completion_that_llama_cpp_samples(llm: Any, tokenizer: Tokenizer) -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=5), tokenizer)
    ids = llm.tokenize(PROMPT.encode(), special=True)
    assert len(list(llm.generate(ids, temp=0.0, stopping_criteria=criteria))) == 5


def test_a_chat_completion_takes_the_processor(llm: Any, tokenizer: Tokenizer) -> None:
    processor = LogitsProcessor(SamplingParams(regex="(cat|mat)s?", seed=1), tokenizer)
    answer = llm.create_chat_completion([{"role": "user", "content": "hello"}], **processor.settings)
    assert answer["choices"][0]["message"]["content"] in ("cat", "mat", "cats", "mats")


CHAT = [{"role": "user", "content": "hello"}]


def text_of(answer: Any) -> str:
    """The text of a completion or of a chat completion, streamed or not."""
    parts = [answer] if isinstance(answer, dict) else answer
    choices = [part["choices"][0] for part in parts]
    bodies = [choice.get("message", choice.get("delta", choice)) for choice in choices]
    return "".join(body.get("content", body.get("text")) or "" for body in bodies)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", [{"max_tokens": 5}, {"stop_regex": ["[a-z ]{4}"]}], ids=str)
def test_our_criteria_keep_the_text_of_a_completion(
    stop: dict[str, Any], stream: bool, llm: Any, tokenizer: Tokenizer
) -> None:
    criteria = StoppingCriteria(SamplingParams(**stop), tokenizer)
    bias = {str(tokenizer.encode(letter)[-1]): 30.0 for letter in "abcdefgh"}
    answer = llm.create_completion(
        PROMPT, max_tokens=40, seed=3, logit_bias=bias, stream=stream, stopping_criteria=criteria
    )
    answer = list(answer) if stream else answer
    record = criteria.record
    assert record is not None
    assert record.stop_reason in ("max_tokens", "[a-z ]{4}")
    assert len(record.token_ids) < 40
    assert text_of(answer) == tokenizer.decode(record.token_ids)
    last = answer[-1] if stream else answer
    assert last["choices"][0]["finish_reason"] == "stop"


def test_criteria_serve_several_completions(llm: Any, tokenizer: Tokenizer) -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=4), tokenizer)
    for prompt in (PROMPT, PROMPT, "the"):
        answer = llm.create_completion(prompt, temperature=0, max_tokens=9, stopping_criteria=criteria)
        assert answer["usage"]["completion_tokens"] == 4
    again = llm.tokenize(b"the", special=True) + criteria.record.token_ids  # type: ignore[union-attr]
    criteria.reset()
    answer = llm.create_completion(again, temperature=0, max_tokens=9, stopping_criteria=criteria)
    assert answer["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_completion_has_the_tokens_of_a_scheduler(
    stream: bool, llm: Any, tokenizer: Tokenizer
) -> None:
    params = SamplingParams(regex="[a-h]{30}", seed=8, max_tokens=12)
    processor, recorder = LogitsProcessor(params, tokenizer), Recorder()
    settings = {**processor.settings, "logits_processor": [recorder, processor]}
    answer = llm.create_chat_completion(CHAT, stream=stream, **settings)
    text = text_of(list(answer) if stream else answer)
    expected = recorder.replay(params, tokenizer)
    assert processor.record is not None
    assert processor.record.token_ids == expected.token_ids
    assert text == expected.text
    assert len(text) == 12


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_the_text_of_a_stop_token_does_not_reach_the_caller(
    stream: bool, chat: bool, llm: Any, tokenizer: Tokenizer
) -> None:
    params = SamplingParams(regex="[ab]{40}", seed=4, stop_token_ids=tokenizer.encode("b")[-1:])
    processor = LogitsProcessor(params, tokenizer)
    create = llm.create_chat_completion if chat else llm.create_completion
    answer = create(CHAT if chat else PROMPT, stream=stream, **processor.settings)
    text = text_of(list(answer) if stream else answer)
    record = processor.record
    assert record is not None
    assert record.stop_reason == record.token_ids[-1] == params.stop_token_ids[0]
    assert text == record.text
    assert "b" not in text
    kept = LogitsProcessor(params.replace(include_stop_str_in_output=True), tokenizer)
    llm.reset()
    assert text_of(llm.create_completion(PROMPT, **kept.settings)).endswith("b")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_a_callers_text_ends_before_the_match_of_a_pattern(
    stream: bool, chat: bool, llm: Any, tokenizer: Tokenizer
) -> None:
    params = SamplingParams(regex="[abc]{40}", seed=5, stop_regex=["[ab]c+[ab]"])
    processor = LogitsProcessor(params, tokenizer)
    create = llm.create_chat_completion if chat else llm.create_completion
    answer = processor.with_own_text(create(CHAT if chat else PROMPT, stream=stream, **processor.settings))
    chunks = list(answer) if stream else [answer]
    record = processor.record
    assert record is not None
    assert record.stop_reason == "[ab]c+[ab]"
    assert text_of(chunks) == record.text
    assert record.text != tokenizer.decode(record.token_ids)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_completion_that_its_context_ends_keeps_its_text(llm: Any, tokenizer: Tokenizer) -> None:
    params = SamplingParams(regex="[abc]{40}", seed=5, stop_regex=["[ab]{400}"])
    for stream in (False, True):
        processor = LogitsProcessor(params, tokenizer)
        settings = {**processor.settings, "max_tokens": 6, "stream": stream}
        answer = processor.with_own_text(llm.create_completion(PROMPT, **settings))
        text = text_of(list(answer) if stream else answer)
        assert processor.record is not None
        assert processor.record.finish_reason is None
        assert len(processor.record.token_ids) == 6
        assert text == tokenizer.decode(processor.record.token_ids)


def test_stopped_raises_the_error_of_a_completion(llm: Any, tokenizer: Tokenizer) -> None:
    class Spoil(Recorder):
        def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
            return np.full_like(scores, np.nan)

    processor = LogitsProcessor(SamplingParams(), tokenizer)
    settings = {**processor.settings, "logits_processor": [Spoil(), processor]}
    with pytest.raises(ValueError, match="greatest logit is nan"):
        llm.create_completion(PROMPT, **settings, stopping_criteria=processor.stopped)
    answer = llm.create_completion(PROMPT, **settings)
    assert answer["choices"][0]["text"] == ""
    assert processor.record is not None
    assert "greatest logit is nan" in (processor.record.error or "")


# --- sessions ------------------------------------------------------------------------------------


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
