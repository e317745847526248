"""The adapter with the real library: a tiny model, its tokenizer, completions and samplers."""

from __future__ import annotations

import ctypes
import gc
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
)
from tiny_gguf import PROMPT, SETTINGS

from engine_sampler import SamplingParams, Scheduler, Tokenizer, process_logits
from tests.parity.llama import LlamaSampler


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
