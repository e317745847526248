"""Our chain and our criteria as callables for llama-cpp-python, called as it calls them."""

from __future__ import annotations

import doctest
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_sampler_llama_cpp import LogitsProcessor, StoppingCriteria, neutral_settings, processor

from engine_sampler import Grammar, ParameterError, SamplingParams, Scheduler, Tokenizer

VOCAB = 50
PROMPT = [3, 1, 4]

PLUGIN = Path(__file__).resolve().parents[1]
"""Where a process of its own imports the package from."""


def rows(count: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(count, VOCAB)) * 3).astype(np.float32)


def complete(
    logits_processor: LogitsProcessor, logits: np.ndarray, prompt: list[int] = PROMPT
) -> tuple[list[int], int]:
    """llama-cpp-python's loop: the tokens it yields, and how many tokens it sampled."""
    ids = list(prompt)
    tokens = []
    for sampled, row in enumerate(logits, 1):
        token = int(logits_processor(np.array(ids, np.intc), row).argmax())
        if logits_processor.stopped(np.array(ids, np.intc), row):
            return tokens, sampled
        tokens.append(token)
        ids.append(token)
    return tokens, len(logits)


def by_scheduler(params: SamplingParams, logits: np.ndarray, **kwargs: Any) -> list[int]:
    scheduler = Scheduler(VOCAB, **kwargs)
    request = scheduler.add(params, PROMPT)
    for row in logits:
        if scheduler.request_ids:
            scheduler.step(row[None])
    return scheduler.record(request).token_ids


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(processor).attempted


def test_an_import_does_not_need_the_library() -> None:
    program = "import engine_sampler_llama_cpp, sys; print('llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PLUGIN, capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.7, "top_k": 12, "min_p": 0.02},
        {"temperature": 0},
        {"mirostat": 2, "mirostat_tau": 3.0},
        {"adaptive_target": 0.3, "min_p": 0.01},
        {"xtc_probability": 0.5, "repetition_penalty": 1.3, "dry_multiplier": 1.0},
    ],
)
def test_the_tokens_equal_those_of_a_scheduler(settings: dict[str, Any]) -> None:
    params = SamplingParams(seed=11, **settings)
    logits = rows(20)
    tokens, _ = complete(LogitsProcessor(params, vocab_size=VOCAB), logits)
    assert tokens == by_scheduler(params, logits)


def test_only_the_drawn_token_is_left_and_the_scores_are_not_modified() -> None:
    logits = rows(1)
    before = logits.copy()
    result = LogitsProcessor(SamplingParams(seed=1), vocab_size=VOCAB)(np.array(PROMPT, np.intc), logits[0])
    assert result.dtype == np.float32
    assert sorted(set(result.tolist())) == [np.float32(-1e12), 0]
    assert (result == 0).sum() == 1
    assert np.array_equal(logits, before)


def test_scores_with_gaps_and_padding_are_read() -> None:
    wide = np.zeros((VOCAB + 6, 3), np.float32)
    wide[:VOCAB, 1] = rows(1)[0]
    wide[VOCAB:, 1] = 99
    result = LogitsProcessor(SamplingParams(temperature=0), vocab_size=VOCAB)(np.array(PROMPT), wide[:, 1])
    assert result.shape == (VOCAB + 6,)
    assert result.argmax() == wide[:VOCAB, 1].argmax()


def test_another_prompt_begins_another_completion() -> None:
    params = SamplingParams(seed=4, max_tokens=5)
    logits = rows(6)
    chain = LogitsProcessor(params, vocab_size=VOCAB)
    first, _ = complete(chain, logits)
    complete(chain, logits, [9, 9])
    assert complete(chain, logits)[0] == first
    assert chain.scheduler.request_ids == []


def test_an_unseeded_processor_gets_a_new_seed_per_completion_and_records_it() -> None:
    chain = LogitsProcessor(SamplingParams(), vocab_size=VOCAB)
    seeds = set()
    for _ in range(2):
        complete(chain, rows(1))
        assert chain.record is not None
        seeds.add(chain.record.seed)
    assert len(seeds) == 2


def test_the_end_of_the_request_stops_the_completion_after_its_last_token() -> None:
    chain = LogitsProcessor(SamplingParams(seed=4, max_tokens=5), vocab_size=VOCAB)
    tokens, sampled = complete(chain, rows(20))
    assert (len(tokens), sampled) == (5, 6)
    assert chain.record is not None
    assert (chain.record.finish_reason, chain.record.stop_reason) == ("length", "max_tokens")
    assert chain.record.token_ids == tokens


def test_once_the_request_has_ended_only_eos_is_left() -> None:
    chain = LogitsProcessor(SamplingParams(seed=4, max_tokens=1), vocab_size=VOCAB, eos_token_ids=(7,))
    ids = np.array(PROMPT, np.intc)
    token = chain(ids, rows(1)[0]).argmax()
    last = chain(np.append(ids, token), rows(1)[0])
    assert np.flatnonzero(last == 0).tolist() == [7]
    assert last.min() == np.float32(-1e12)  # finite: llama.cpp ends the process if a row has nothing else


BYTES = Tokenizer([*(bytes([byte]) for byte in range(256)), b"</s>"], [256])


def written(chain: LogitsProcessor, calls: int) -> bytes:
    """What llama-cpp-python has after this many calls, up to EOS."""
    ids = list(PROMPT)
    for _ in range(calls):
        token = int(chain(np.array(ids, np.intc), np.zeros(257, np.float32)).argmax())
        if token == 256:
            break
        ids.append(token)
    return bytes(ids[len(PROMPT) :])


@pytest.mark.parametrize(
    "settings", [{"seed": 5}, {"mirostat": 2}, {"temperature": 0, "min_tokens": 2}], ids=str
)
def test_a_character_that_max_tokens_cuts_is_completed(settings: dict[str, Any]) -> None:
    chain = LogitsProcessor(SamplingParams(regex="中文[a-z]*", max_tokens=4, **settings), BYTES)
    assert written(chain, 6).decode() == "中文"
    assert chain.record is not None
    assert (chain.record.text, len(chain.record.token_ids)) == ("中文", 6)
    written(chain, 4)
    assert (chain.record.finish_reason, chain.record.stop_reason) == (
        "length",
        "max_tokens",
    )  # if nobody asks


def test_after_three_more_tokens_the_request_has_ended() -> None:
    chain = LogitsProcessor(SamplingParams(regex="中文[a-z]*", max_tokens=4, seed=5), BYTES)
    text = written(chain, 9).decode()
    assert len(text.encode()) == 7
    assert chain.record is not None
    assert (chain.record.text, chain.record.finish_reason) == (text, "length")


def test_a_whole_character_is_the_last() -> None:
    chain = LogitsProcessor(SamplingParams(regex="中文[a-z]*", max_tokens=3, seed=5), BYTES)
    assert written(chain, 6).decode() == "中"


@pytest.mark.parametrize("mode", ["raw", "processed", ("raw", "processed")], ids=str)
def test_the_logprobs_are_those_of_a_scheduler(mode: Any) -> None:
    params = SamplingParams(seed=11, top_k=5, logprobs=3, logprobs_mode=mode)
    chain, logits = LogitsProcessor(params, vocab_size=VOCAB), rows(6)
    assert chain.logprobs is None
    tokens, _ = complete(chain, logits)
    scheduler = Scheduler(VOCAB)
    scheduler.add(params, PROMPT)
    steps = [scheduler.step(row[None]).logprobs for row in logits]
    for name in (mode,) if isinstance(mode, str) else mode:
        ours: Any = chain.logprobs if isinstance(mode, str) else chain.logprobs.modes[name]
        theirs: Any = [step if isinstance(mode, str) else step.modes[name] for step in steps]
        assert ours.token_ids[:, 0].tolist() == tokens
        for row, step in enumerate(theirs):
            assert np.array_equal(ours.row(row).token_ids, step.row(0).token_ids)
            assert np.array_equal(ours.row(row).logprobs, step.row(0).logprobs)
            assert ours.ranks[row] == step.ranks[0]
    complete(chain, logits, [9, 9])
    assert isinstance(mode, tuple) or len(chain.logprobs.ranks) == 6  # type: ignore[union-attr]


def test_without_logprobs_there_are_none() -> None:
    chain = LogitsProcessor(SamplingParams(seed=11), vocab_size=VOCAB)
    complete(chain, rows(3))
    assert chain.logprobs is None


def alone(chain: LogitsProcessor, row: np.ndarray) -> np.ndarray:
    """llama-cpp-python's array of candidates after the only processor of its list."""
    candidates = np.recarray(
        (len(row),), np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)
    )
    candidates.logit[:] = row
    (called,) = chain.settings["logits_processor"]
    candidates.logit[:] = called(np.array(PROMPT, np.intc), candidates.logit)
    return candidates.logit


def test_the_only_processor_leaves_the_drawn_token() -> None:
    params, row = SamplingParams(seed=3), rows(1)[0]
    expected = LogitsProcessor(params, vocab_size=VOCAB)(np.array(PROMPT, np.intc), row)
    assert np.array_equal(alone(LogitsProcessor(params, vocab_size=VOCAB), row), expected)


def test_the_only_processor_leaves_eos_after_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    left = alone(
        LogitsProcessor(SamplingParams(), vocab_size=VOCAB, eos_token_ids=(7,)), np.full(VOCAB, np.nan)
    )
    assert np.flatnonzero(left == 0).tolist() == [7]
    assert "the completion ends" in caplog.text


def test_a_replaced_token_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    chain = LogitsProcessor(SamplingParams(temperature=0), vocab_size=VOCAB)
    ids = list(PROMPT)
    for row in rows(3):
        token = int(chain(np.array(ids), row).argmax())
        ids.append((token + 1) % VOCAB)
    (message,) = caplog.messages
    assert message.startswith(f"token {ids[3]} follows where {ids[3] - 1} was drawn. grammar, response_for")


def test_the_processors_of_the_settings_refuse_a_logit_bias() -> None:
    settings = LogitsProcessor(SamplingParams(), vocab_size=VOCAB).settings
    with pytest.raises(ParameterError, match="logit_bias is not allowed beside a LogitsProcessor"):
        settings["logits_processor"].extend([print])


def test_a_grammar_constrains_the_completion() -> None:
    tokenizer = Tokenizer([b"</s>", *(bytes([c]) for c in b"abcdefgh")], [0])
    chain = LogitsProcessor(SamplingParams(regex="ab*c", seed=2), tokenizer)
    logits = np.random.default_rng(0).normal(size=(40, 9)).astype(np.float32)
    complete(chain, logits, [1])
    assert chain.record is not None
    assert chain.record.text is not None
    assert chain.record.text[0] == "a"
    assert set(chain.record.text[1:-1]) <= {"b"}


def test_a_matcher_serves_several_completions() -> None:
    tokenizer = Tokenizer([b"</s>", b"a", b"b"], [0])
    chain = LogitsProcessor(
        SamplingParams(seed=2), tokenizer, grammar=Grammar.from_regex("ab").compile(tokenizer).matcher()
    )
    for _ in range(2):
        assert complete(chain, np.zeros((6, 3), np.float32), [1])[0] == [1, 2, 0]


def test_a_faulty_row_is_logged_and_raised_by_stopped(caplog: pytest.LogCaptureFixture) -> None:
    chain = LogitsProcessor(SamplingParams(), vocab_size=VOCAB, eos_token_ids=(7,))
    row = rows(1)[0]
    row[5] = np.nan
    with caplog.at_level(logging.ERROR, "engine_sampler"):
        assert chain(np.array(PROMPT), row).argmax() == 7
    assert "the completion ends" in caplog.text
    with pytest.raises(ValueError, match="greatest logit is nan"):
        chain.stopped(np.array(PROMPT), row)


def test_unusable_settings_are_refused_at_construction() -> None:
    with pytest.raises(ParameterError, match="logit_bias names token id 50"):
        LogitsProcessor(SamplingParams(logit_bias={50: 1}), vocab_size=VOCAB)
    with pytest.raises(ParameterError, match="n=2"):
        LogitsProcessor(SamplingParams(n=2), vocab_size=VOCAB)
    with pytest.raises(ValueError, match="LogitsProcessor needs a tokenizer or vocab_size"):
        LogitsProcessor(SamplingParams())


def test_the_settings_hold_every_keyword_that_a_completion_needs() -> None:
    chain = LogitsProcessor(
        SamplingParams(max_tokens=3, stop=["x"]), Tokenizer([bytes([i]) for i in range(VOCAB)])
    )
    settings = chain.settings
    assert settings.items() >= neutral_settings().items()
    assert settings["logits_processor"] == [chain]
    assert settings["grammar"] is None  # so that Python refuses another one
    assert settings["max_tokens"] == 3
    assert settings["stop"] == ["x"]
    including = SamplingParams(stop=["x"], include_stop_str_in_output=True)
    assert LogitsProcessor(including, Tokenizer([b"x"])).settings["stop"] == []


# --- criteria alone ------------------------------------------------------------------------------


def verdicts(criteria: StoppingCriteria, ids: list[int], prompt: int) -> list[bool]:
    return [criteria(np.array(ids[:n], np.intc), None) for n in range(prompt, len(ids) + 1)]


def test_criteria_apply_to_tokens_that_another_sampler_chose() -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=2, stop_token_ids=[9]), vocab_size=VOCAB)
    assert verdicts(criteria, [9, 1, 2, 3], 2) == [False, False, True]
    assert verdicts(criteria, [9, 1, 9, 3], 2) == [False, True, True]
    assert criteria.record is not None
    assert criteria.record.stop_reason == 9


def test_the_same_ids_get_the_same_answer() -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=2), vocab_size=VOCAB)
    asked = [[9, 1], [9, 1], [9, 1, 2], [9, 1, 2], [9, 1, 2, 3], [9, 1, 2, 3], [9, 1], [9, 1, 2]]
    answers = [criteria(np.array(ids, np.intc), None) for ids in asked]
    assert answers == [False, False, False, False, True, True, False, False]


def test_a_prompt_that_continues_the_last_completion_needs_a_reset() -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=1), vocab_size=VOCAB)
    assert verdicts(criteria, [9, 1], 1) == [False, True]
    criteria.reset()
    assert criteria.record is None
    assert verdicts(criteria, [9, 1, 2], 2) == [False, True]


def test_without_eos_the_settings_hold_what_stops_the_completion() -> None:
    chain = LogitsProcessor(SamplingParams(), vocab_size=VOCAB)
    assert chain.settings["stopping_criteria"] == chain.stopped
    with_eos = LogitsProcessor(SamplingParams(), vocab_size=VOCAB, eos_token_ids=(7,))
    assert "stopping_criteria" not in with_eos.settings


def test_a_stop_token_is_replaced_by_eos() -> None:
    params = SamplingParams(allowed_token_ids=[3], stop_token_ids=[3])
    ids = np.array(PROMPT, np.intc)
    for included, token in ((False, 7), (True, 3)):
        own = params.replace(include_stop_str_in_output=included)
        chain = LogitsProcessor(own, vocab_size=VOCAB, eos_token_ids=(7,))
        assert chain(ids, rows(1)[0]).argmax() == token
        assert chain.record is not None
        assert (chain.record.token_ids, chain.record.stop_reason) == ([3], 3)
        assert chain(np.append(ids, token), rows(1)[0]).argmax() == 7
        assert chain.record.token_ids == [3]


def test_the_own_text_needs_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="with_own_text needs a processor with a tokenizer"):
        LogitsProcessor(SamplingParams(), vocab_size=VOCAB).with_own_text({})


def test_criteria_take_several_tokens_at_once() -> None:
    criteria = StoppingCriteria(SamplingParams(max_tokens=4), vocab_size=VOCAB)
    assert not criteria(np.array([1, 2]), None)
    assert not criteria(np.array([1, 2, 3, 4]), None)
    assert criteria(np.array([1, 2, 3, 4, 5, 6]), None)


def test_stop_strings_are_found_across_token_boundaries() -> None:
    tokenizer = Tokenizer([b"a", b"b", b"c"])
    criteria = StoppingCriteria(SamplingParams(stop=["bc"]), tokenizer)
    assert verdicts(criteria, [0, 1, 0, 1, 2], 2) == [False, False, False, True]
