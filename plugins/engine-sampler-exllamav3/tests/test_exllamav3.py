"""The sampler and the filter, called as exllamav3's jobs call them."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from exllama_files import FOLDER

torch = pytest.importorskip("torch")
exllama = pytest.importorskip("engine_sampler_exllamav3")

from engine_sampler import Grammar, SamplingParams, Scheduler, Tokenizer  # noqa: E402
from engine_sampler.for_bridges import PeerError  # noqa: E402

VOCAB = 90
PADDED = 96


class Vocabulary:
    """What the sampler reads of exllamav3's tokenizer."""

    actual_vocab_size = VOCAB


def rows_of(seed: int, n: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(0, 2, (n, PADDED)).astype(np.float32)
    rows[:, VOCAB:] = 50
    return rows


def draw(sampler: Any, row: np.ndarray, token_ids: list[int], **more: Any) -> int:
    """A call with the arguments of a job, by position as there."""
    logits = torch.tensor(row).view(1, 1, -1)
    drawn = sampler.forward(logits, torch.tensor([token_ids]), 12345, Vocabulary(), **more)
    assert (drawn.dtype, tuple(drawn.shape)) == (torch.long, (1, 1))
    return int(drawn)


PARAMS = [
    SamplingParams(seed=3),
    SamplingParams(temperature=0),
    SamplingParams(repetition_penalty=1.4, presence_penalty=0.5, top_p=0.9, seed=3),
    SamplingParams(dry_multiplier=1.0, xtc_probability=0.5, min_p=0.02, seed=3, order="vllm"),
    SamplingParams(mirostat=2, seed=3),
]


@pytest.mark.parametrize("params", PARAMS, ids=range(len(PARAMS)))
def test_tokens_are_those_of_a_scheduler(params: SamplingParams) -> None:
    sampler, text = exllama.ChainSampler(params), [5, 6, 7, 5, 6]
    scheduler = Scheduler(VOCAB)
    scheduler.add(params, text)
    for row in rows_of(1, 15):
        expected = int(scheduler.step(row[None]).token_ids[0])
        assert draw(sampler, row, text) == expected
        text = [*text, expected]


def test_a_text_that_is_taken_back_is_followed() -> None:
    params = SamplingParams(repetition_penalty=2.0, seed=1)
    sampler, rows = exllama.ChainSampler(params), rows_of(2, 6)
    text = [1, 2, 3]
    for row in rows:
        text.append(draw(sampler, row, text))
    assert draw(sampler, rows[2], text[:5]) == text[5]
    forced = [*text[:5], 9]
    scheduler = Scheduler(VOCAB)
    request = scheduler.add(params, [1, 2, 3], output_token_ids=forced[3:])
    assert draw(sampler, rows[3], forced) == scheduler.step(rows[3][None], [request]).token_ids[0]


def test_another_prompt_begins_another_text() -> None:
    params = SamplingParams(presence_penalty=3.0, temperature=0)
    sampler, row = exllama.ChainSampler(params), rows_of(3, 1)[0]
    first = draw(sampler, row, [4, 4])
    assert draw(sampler, row, [4, 4, first]) != first  # an output is penalised
    assert draw(sampler, row, [3, first]) == first  # a prompt is not


def test_masks_of_both_kinds_hold_and_remove_what_is_beyond_them() -> None:
    row = rows_of(4, 1)[0]
    allowed = [3, 40]
    bits = torch.zeros((1, 2), dtype=torch.int32)
    bits[0, 0], bits[0, 1] = 1 << 3, 1 << 8
    dense = torch.full((1, 64), -torch.inf, dtype=torch.half)
    dense[0, allowed] = 0
    best = max(allowed, key=lambda token: float(row[token]))
    for mask in (bits, dense):
        assert draw(exllama.ChainSampler(SamplingParams(temperature=0)), row, [1], logit_mask=mask) == best


def test_blocked_and_allowed_tokens_hold() -> None:
    row, sampler = rows_of(5, 1)[0], exllama.ChainSampler(SamplingParams(temperature=0))
    order = [int(token) for token in np.argsort(-row[:VOCAB])]
    assert draw(sampler, row, [1], blocked_tokens=order[:2]) == order[2]
    assert draw(sampler, row, [1], allowed_tokens=order[5:9]) == order[5]
    assert draw(sampler, row, [1]) == order[0]


def test_a_faulty_row_gets_the_likeliest_number(caplog: pytest.LogCaptureFixture) -> None:
    row, sampler = rows_of(6, 1)[0], exllama.ChainSampler(SamplingParams(seed=1))
    row[:VOCAB], row[7], row[8] = 0, np.nan, 3
    assert draw(sampler, row, [1]) == 8
    assert "exllamav3" in caplog.text
    assert 0 <= draw(sampler, rows_of(7, 1)[0], [1, 8]) < VOCAB


def test_wrong_parameters_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        exllama.ChainSampler(SamplingParams(max_tokens=3))
    sampler = exllama.ChainSampler(SamplingParams())
    with pytest.raises(ValueError, match="2 rows"):
        sampler.forward(torch.zeros(2, 1, VOCAB))
    with pytest.raises(NotImplementedError, match="return_state"):
        sampler.forward(torch.zeros(1, 1, VOCAB), return_state=True)


# --- the filter ------------------------------------------------------------------------------------

TOKENS = [b"</s>", b"a", b"b", b"ab", b"c"]


def filter_of(pattern: str, **more: Any) -> Any:
    return exllama.GrammarFilter(
        None, Grammar.from_regex(pattern), Tokenizer(TOKENS, eos_token_ids=[0]), **more
    )


def allowed_of(made: Any) -> list[int]:
    word = int(made.get_next_logit_mask()[0, 0])
    return [token for token in range(len(TOKENS)) if word >> token & 1]


def test_masks_follow_the_grammar_and_the_end_completes_the_filter() -> None:
    made = filter_of("ab?c")
    assert allowed_of(made) == [1, 3]
    assert made.feed(1) is False
    assert allowed_of(made) == [2, 4]
    assert made.feed(4) is True
    assert not made.is_active


def test_what_may_go_on_is_not_completed() -> None:
    made = filter_of("ab*")
    assert not made.feed(1)
    assert not made.is_completed()
    assert allowed_of(made) == [0, 2]
    assert made.feed(0) is True


def test_rewinding_restores_the_state() -> None:
    made = filter_of("(ab?c)+", eos_after_completed=False)
    states = []
    for token in (3, 4, 1, 2):
        states.append(allowed_of(made))
        made.feed(token)
    made.rewind(1)
    assert allowed_of(made) == states[3]
    made.rewind(3)
    assert allowed_of(made) == states[0]


def test_a_token_outside_the_grammar_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made = filter_of("ab")
    before = allowed_of(made)
    made.feed(4)
    assert allowed_of(made) == before
    assert "token 4" in caplog.text
    made.rewind(1)
    assert allowed_of(made) == before


def test_triggers_and_prefixes_are_those_of_the_base_class() -> None:
    made = filter_of("ab", trigger_token=4, prefix="a")
    made.feed(1)
    assert not made.is_active
    made.feed(4)
    assert made.is_active
    assert allowed_of(made) == [2]
    with pytest.raises(ValueError, match="does not match the prefix"):
        filter_of("ab", prefix="c")


# --- signatures ------------------------------------------------------------------------------------


def test_changed_signatures_are_refused_by_name() -> None:
    class Other:
        def forward(self, logits: Any) -> None: ...

    with pytest.raises(
        PeerError, match=r"cannot be used beside exllamav3.*: other signatures of Sampler\.forward\."
    ):
        exllama.check_exllama(Other, exllama.Filter)


def test_jobs_call_samplers_with_what_this_one_takes() -> None:
    assert FOLDER is not None
    tree = ast.parse(FOLDER.joinpath("generator", "job.py").read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "sampler.forward" in ast.unparse(node.func)
    ]
    assert calls
    for call in calls:
        assert [keyword.arg for keyword in call.keywords] == ["logit_mask"]
        assert len(call.args) == 4
