"""The expectations of transformers' and vLLM's own tests on stopping.

Two kinds have no counterpart: `stop_string_table` inspects a table over the vocabulary, which the automaton
here does not need, and one case of `eos` has a codebook dimension, which transformers has not released.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.stopping import (
    ConfidenceCriteria,
    EosTokenCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    validate_stopping_criteria,
)
from engine_sampler.stopping import max_time as max_time_module
from engine_sampler.tokenizer.pieces import byte_of_name

from ..conftest import shared_data

WITHOUT_COUNTERPART = {"stop_string_table", "eos_multi_codebook"}


def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of one kind."""
    every = json.loads(shared_data("stopping_cases.json").read_text(encoding="utf-8"))["cases"]
    found = [case for case in every if case["kind"] == kind and case["id"] not in WITHOUT_COUNTERPART]
    assert found, f"there are no cases of {kind}"
    return found


NO_SCORES = np.zeros((1, 1), np.float32)


def test_every_kind_of_case_is_covered() -> None:
    every = json.loads(shared_data("stopping_cases.json").read_text(encoding="utf-8"))["cases"]
    tried = {
        "stop_strings", "stop_strings_bytes", "byte_fallback_pieces", "check_stop_strings",
        "stop_with_min_tokens", "multi_token_step", "streaming", "eos", "max_length", "any_of", "max_time",
        "confidence", "validate", "protocol",
    }  # fmt: skip
    assert {case["kind"] for case in every} == tried | {"stop_string_table"}


# --- called like transformers' -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stop_strings", "stop_strings_bytes"])
def test_stop_strings_end_where_transformers_expects(kind: str) -> None:
    for case in cases(kind):
        hexed = case.get("tokens_hex")
        pieces = [bytes.fromhex(t) for t in hexed] if hexed else [t.encode() for t in case["tokens"] or ()]
        vocabulary = [*dict.fromkeys([*pieces, *(bytes([b]) for b in range(256))])]
        outside = [len(vocabulary), len(vocabulary) + 7]  # in the case without tokens, none is known
        ids = [vocabulary.index(piece) for piece in pieces] or outside
        criterion = StopStringCriteria(Tokenizer(vocabulary), case["stop"])
        assert criterion(np.array([ids]), NO_SCORES).tolist() == [case["expect"]], case["id"]


def test_names_of_bytes_are_read_as_bytes() -> None:
    [case] = cases("byte_fallback_pieces")
    for piece, wanted in case["pieces"].items():
        assert byte_of_name(piece) == (None if wanted is None else bytes.fromhex(wanted)), piece


def test_eos_tokens() -> None:
    for case in cases("eos"):
        ids = case.get("input_ids") or [[5, token] for token in case["last_tokens"]]
        criterion = EosTokenCriteria(case["eos_token_id"])
        answer = criterion(np.array(ids), NO_SCORES, new_token_length=case.get("new_token_length", 1))
        assert answer.tolist() == case["expect"], case["id"]


def test_lengths() -> None:
    for case in cases("max_length"):
        rows = np.zeros((case["batch"], case["length"]), np.int64)
        assert MaxLengthCriteria(case["max_length"])(rows, NO_SCORES).tolist() == case["expect"]


def test_any_of_a_list() -> None:
    for case in cases("any_of"):
        kinds = {"max_length": MaxLengthCriteria, "max_time": MaxTimeCriteria}
        criteria = StoppingCriteriaList(kinds[k](v) for one in case["criteria"] for k, v in one.items())
        rows = np.zeros((case["batch"], case["length"]), np.int64)
        assert criteria(rows, NO_SCORES).tolist() == case["expect"]


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for case in cases("max_time"):
        monkeypatch.setattr(max_time_module.time, "time", lambda: 100.0)
        criterion = MaxTimeCriteria(case["max_time"])
        monkeypatch.setattr(max_time_module.time, "time", lambda elapsed=case["elapsed"]: 100.0 + elapsed)
        assert criterion(np.zeros((2, 3), np.int64), NO_SCORES).tolist() == [case["expect"]] * 2


def test_confidence() -> None:
    for case in cases("confidence"):
        scores = np.full((1, case["vocab"]), case["other_logits"], np.float32)
        scores[0, 7] = case["logit_of_last_token"]
        answer = ConfidenceCriteria(case["threshold"])(np.array([[1, 7]]), (scores,))
        assert answer is case["expect"], case["id"]


def test_validation() -> None:
    for case in cases("validate"):
        own = case["criteria_max_length"]
        criteria = StoppingCriteriaList([MaxLengthCriteria(own)] if own else [])
        if own:
            with pytest.warns(UserWarning, match="max_length"):
                checked = validate_stopping_criteria(criteria, case["max_length"])
            assert (len(checked), checked.max_length) == (1, own)
            assert checked[0] is not criteria[0]
        else:
            checked = validate_stopping_criteria(criteria, case["max_length"])
            assert (criteria, checked.max_length) == ([], case["max_length"])


def test_a_list_accepts_plain_functions_and_passes_each_what_it_accepts() -> None:
    assert [case["id"] for case in cases("protocol")] == ["list_filters_kwargs"]
    seen: list[dict[str, Any]] = []

    def no_more(input_ids: Any, scores: Any) -> np.ndarray:
        return np.array([False, True])

    def takes_one(input_ids: Any, scores: Any, new_token_length: int) -> bool:
        seen.append({"new_token_length": new_token_length})
        return False

    def takes_all(input_ids: Any, scores: Any, **kwargs: Any) -> bool:
        seen.append(kwargs)
        return False

    criteria = StoppingCriteriaList([no_more, takes_one, takes_all, lambda input_ids, scores: False])
    more = {"new_token_length": 2, "other": 5}
    assert criteria(np.zeros((2, 3), np.int64), NO_SCORES, **more).tolist() == [False, True]
    assert seen == [{"new_token_length": 2}, more]


# --- in a scheduler, like vLLM's -------------------------------------------------------------------


def said(tokens: Sequence[str], step: int, eos: str = "<eos>", **parameters: Any) -> tuple[Any, list[str]]:
    """The record of a request that is given `tokens`, `step` of them at a time, and its deltas."""
    vocabulary = [*dict.fromkeys([*tokens, eos])]
    end = vocabulary.index(eos)
    scheduler = Scheduler(len(vocabulary), Tokenizer([t.encode() for t in vocabulary], [end], [end]))
    request_id = scheduler.add(SamplingParams(temperature=0, **parameters))
    ids = [vocabulary.index(token) for token in tokens]
    deltas, at = [], 0
    while at < len(ids) and scheduler.request_ids:
        these = ids[at : at + step]
        rows = np.full((len(these), len(vocabulary)), -9, np.float32)
        rows[range(len(these)), these] = 9
        result = scheduler.step(rows, draft_token_ids=[these[:-1]])
        deltas.append(result.text[0] or "")
        at += len(these)
    return scheduler.record(request_id), deltas


def test_the_string_that_is_completed_first_wins() -> None:
    for case in cases("check_stop_strings"):
        fresh = len(case["text"]) - case["new_char_count"]
        tokens = [case["text"][:fresh], case["text"][fresh:]] if case["new_char_count"] else [case["text"]]
        tokens = [token for token in tokens if token]
        new_only = {"min_tokens": 1} if len(tokens) == 2 or not case["new_char_count"] else {}
        include = case["include_in_output"]
        parameters = {"stop": case["stop"], "include_stop_str_in_output": include, **new_only}
        record, _ = said(tokens, 1, **parameters)
        if case["expect"] is None:
            assert record.finish_reason is None, case["id"]
            continue
        string, end = case["expect"]
        text = case["text"] if end == -1 else case["text"][:end]
        assert (record.stop_reason, record.text) == (string, text), case["id"]


@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("kind", ["stop_with_min_tokens", "multi_token_step"])
def test_stops_within_a_step(kind: str, step: int) -> None:
    for case in cases(kind):
        for name, include in (("excluded", False), ("included", True)):
            record, deltas = said(
                case["tokens"],
                step,
                stop=case["stop"],
                min_tokens=case.get("min_tokens", 0),
                include_stop_str_in_output=include,
            )
            if case["expect_text"][name] is None:
                assert record.finish_reason is None, case["id"]
                continue
            assert record.text == case["expect_text"][name] == "".join(deltas), case["id"]
            assert len(record.token_ids) == case["expect_num_tokens_kept"], case["id"]
            assert (record.finish_reason, record.stop_reason) == ("stop", case["stop"][0])


def test_streams_join_to_the_same_text_and_hold_back_no_more() -> None:
    for case in cases("streaming"):
        include = case["include_stop_str_in_output"]
        record, deltas = said(case["tokens"], 1, stop=case["stop"], include_stop_str_in_output=include)
        if record.finish_reason is None:
            assert "".join(deltas) == case["joined"], case["id"]
        assert record.text == case["joined"]
        ours, theirs = np.cumsum([len(d) for d in deltas]), np.cumsum([len(d) for d in case["deltas_vllm"]])
        assert (ours >= theirs[: len(ours)]).all(), case["id"]
