"""Requests that an engine keeps, and their draws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler import RowSampler, SamplingParams, sample
from engine_sampler.for_bridges import (
    BridgeSampler,
    EngineRequest,
    follow_slots,
    follow_update,
    processed_by,
    tokens_beside,
    tokens_of_drafts,
)
from engine_sampler.for_bridges.rows import tokens_in_slots

VOCAB = 9
PARAMS = SamplingParams(frequency_penalty=0.7, repetition_penalty=1.2, seed=5)


def noise(seed: int, rows: int = 1, width: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, width)).astype(np.float32)


def alone(row: np.ndarray, prompt: list[int], output: list[int], params: SamplingParams = PARAMS) -> int:
    drawn = sample(row[None], params, prompt_token_ids=[prompt], output_token_ids=[output])
    return int(drawn.token_ids[0])


def test_tokens_of_rows_without_faults_are_those_that_were_drawn() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (3, 9)).astype(np.float32)
    drawn = RowSampler(9).step(logits, [*"abc"], {"temperature": [0.0] * 3})
    assert tokens_beside(drawn, logits).tolist() == logits.argmax(1).tolist()


def test_a_faulty_row_gets_the_likeliest_token_that_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor([[0.0, 1.0, 2.0], [float("nan"), 5.0, 4.0], [1.0, 2.0, 3.0], [9.0, 1.0, 1.0]])
    columns = {"temperature": [0.0] * 3}
    drawn = RowSampler(3).step(logits, [*"abc"], columns, draft_token_ids=[[], [], [0]])
    assert tokens_beside(drawn, logits).tolist() == [2, 1, 2, -1]


# --- BridgeSampler ---------------------------------------------------------------------------------


def test_a_request_draws_what_it_draws_alone_at_every_width() -> None:
    bridge, request = BridgeSampler("the engine"), EngineRequest(PARAMS, [1, 2, 99, -3], output := [])
    for step, width in enumerate([VOCAB, VOCAB, VOCAB + 3, VOCAB + 3, VOCAB]):
        logits = noise(step, width=width)
        token = int(bridge.draw(logits, [request]).token_ids[0])
        assert token == alone(logits[0], [1, 2], output)
        output.append(token % VOCAB)


def test_a_placeholder_stands_for_what_was_drawn() -> None:
    bridge, request = BridgeSampler("the engine"), EngineRequest(PARAMS, [1], output := [4, -1, -1])
    drawn = [4]
    for step in range(5):
        logits = noise(step)
        token = int(bridge.draw(logits, [request]).token_ids[0])
        assert token == alone(logits[0], [1], drawn)
        drawn.append(token)
        output.append(-1)


def test_a_request_that_begins_again_has_other_tokens() -> None:
    bridge, request = BridgeSampler("the engine"), EngineRequest(PARAMS, [1], [4])
    bridge.draw(noise(0), [request])
    request.begin([3, 3, 99], [2])
    assert int(bridge.draw(noise(1), [request]).token_ids[0]) == alone(noise(1)[0], [3, 3], [2])


def test_faulty_rows_are_logged_with_the_name_of_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    logits = noise(0, 2)
    logits[1] = np.nan
    bridge = BridgeSampler("the engine")
    drawn = bridge.draw(logits, [EngineRequest(PARAMS), EngineRequest(PARAMS)])
    assert drawn.token_ids[1] == -1
    assert "the engine: row 1: " in caplog.text


def test_rows_of_unknown_requests_have_the_parameters_of_columns() -> None:
    bridge, logits = BridgeSampler("the engine"), noise(0, 3)
    columns = {"temperature": np.array([[0.0], [0.0], [1.0]]), "top_k": [0, 0, 1], "min_p": None}
    for _ in range(2):
        drawn = bridge.draw(logits, None, params=SamplingParams(seed=1), columns=columns)
        assert drawn.token_ids.tolist() == logits.argmax(1).tolist()


# --- drafts ---------------------------------------------------------------------------------------


def test_drafts_become_tokens_as_far_as_they_are_drawn() -> None:
    greedy = SamplingParams(temperature=0.0)
    requests = [EngineRequest(greedy), EngineRequest(greedy), EngineRequest(greedy)]
    logits = noise(3, 8)
    best = logits.argmax(1).tolist()
    drafts = [[best[0], (best[1] + 1) % VOCAB], [], [best[4], -1, best[6]]]
    drawn = BridgeSampler("the engine").draw(logits, requests, drafts=drafts)
    tokens, rows = tokens_of_drafts(drawn, logits, drafts, 5)
    assert tokens.tolist() == [
        [best[0], best[1], -1, -1, -1], [best[3], -1, -1, -1, -1], [best[4], best[5], -1, -1, -1]
    ]  # fmt: skip
    assert rows.tolist() == [[0, 1, 2, 0, 0], [3, 0, 0, 0, 0], [4, 5, 6, 7, 0]]


# --- what engines say of their batches ------------------------------------------------------------


def test_a_batch_is_followed_through_removals_arrivals_and_moves() -> None:
    rows: dict[int, str] = {0: "a", 1: "b", 2: "c", 3: "d"}
    left: list[str] = []
    update = SimpleNamespace(
        removed=[1, 7],
        added=[(0, "e", 1), (4, "none", 0)],
        moved=[
            (3, 1, SimpleNamespace(name="UNIDIRECTIONAL")),
            (0, 2, SimpleNamespace(name="SWAP")),
            (1, 0, SimpleNamespace(name="UNIDIRECTIONAL")),
        ],
    )
    follow_update(rows, None, lambda *what: None)
    follow_update(rows, update, lambda name, count: name if count else None, left.append)
    assert rows == {2: "e", 0: "d"}
    assert sorted(left) == ["a", "b", "c"]


def test_what_is_new_in_slots_is_read_in_one_copy() -> None:
    class Table:
        reads = 0

        def __getitem__(self, index: Any) -> np.ndarray:
            self.reads += 1
            return np.arange(40).reshape(4, 10)[index]

    table = Table()
    news = tokens_in_slots(table, np.array([2, 0, 3, 1]), [0, 3, 5, 4], [4, 5, 3, 4], [2, 2, 2, 2])
    assert news == [([20, 21], [22, 23]), (None, [3, 4]), ([30, 31], [32]), (None, [])]
    assert table.reads == 1


def test_requests_follow_their_slots() -> None:
    table, vocab = np.arange(40).reshape(4, 10), 33
    one, two = EngineRequest(PARAMS), EngineRequest(PARAMS)
    follow_slots([one, two], np.array([2, 3]), table, [3, 5], [2, 2], vocab)
    assert (one.prompt_within(vocab), one.tokens(), one.known) == ([20, 21], [22], 3)
    assert (two.prompt_within(vocab), two.tokens(), two.known) == ([30, 31], [32], 5)
    follow_slots([two, one], np.array([3, 2]), table, [4, 6], [2, 2], vocab)  # one has been set back
    assert (one.tokens(), one.known) == ([22, 23, 24, 25], 6)
    assert (two.tokens(), two.known) == ([32], 4)


def test_steps_of_others_get_a_copy() -> None:
    torch = pytest.importorskip("torch")

    def halve(logits: Any, context: float) -> None:
        logits *= context

    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.tensor([[2.0, 4.0]], dtype=dtype)
        assert processed_by([], logits) is logits
        processed = processed_by([halve, lambda rows, _: rows + 1], logits, 0.5)
        assert processed.tolist() == [[2.0, 3.0]]
        assert processed.dtype == torch.float32
        assert logits.tolist() == [[2.0, 4.0]]
