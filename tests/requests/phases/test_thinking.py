"""Thoughts and answers: markers, budgets, grammars, stops and what is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import (
    ParameterError,
    RequestLimits,
    SamplingParams,
    Scheduler,
    Tokenizer,
    process_logits,
    sample,
)

from .world import BACKENDS, END, EOS, OTHER, START, TOKENIZER, VOCAB, Chat, ids

TEXT = {"start": "<think>", "end": "</think>"}


class Script:
    """A scheduler whose model wants given tokens, one after the other."""

    def __init__(self, prompt: list[int], backend: str = "native", **given: Any) -> None:
        self.scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
        params = SamplingParams(**{"temperature": 0, "thinking": TEXT, **given})
        self.request = self.scheduler.add(params, prompt)
        self.results: list[Any] = []

    def want(self, *tokens: int) -> list[int]:
        """What is drawn where the model wants these tokens."""
        drawn = []
        for token in tokens:
            logits = np.zeros((1, VOCAB), np.float32)
            logits[0, token] = 9
            self.results.append(self.scheduler.step(logits, [self.request]))
            drawn += self.results[-1].tokens(0)
        return drawn

    @property
    def record(self) -> Any:
        return self.scheduler.record(self.request)

    @property
    def counts(self) -> Any:
        return self.record.phase_tokens


A, B, C, D = ids(b"a", b"b", b"c", b"d")
OK = ids(b"ok")[0]


# --- budgets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_end_is_forced_after_the_budget(backend: str) -> None:
    script = Script([START], backend, thinking={**TEXT, "message": "ok"}, thinking_token_budget=2)
    assert script.want(A, B, C, D, A) == [A, B, OK, END, A]
    assert script.counts == {"reasoning": 4, "answer": 1}


def test_a_budget_of_0_ends_thoughts_at_once() -> None:
    assert Script([START], thinking_token_budget=0).want(A, B) == [END, B]
    assert Script([], thinking_token_budget=0).want(A, START, B, C) == [A, START, END, C]


@pytest.mark.parametrize("budget", [None, -1])
def test_no_budget_leaves_thoughts_alone(budget: int | None) -> None:
    assert Script([START], thinking_token_budget=budget).want(*[A] * 9) == [A] * 9


def test_tokens_of_the_prompt_count_since_its_last_marker() -> None:
    assert Script([START, A, END, B, START, A, A], thinking_token_budget=3).want(A, A, A) == [A, END, A]
    assert Script([START, A, A, A, A], thinking_token_budget=3).want(B) == [END]


def test_a_new_start_arms_the_budget_again() -> None:
    script = Script([START], thinking_token_budget=1)
    assert script.want(A, B, C, START, A, B, C) == [A, END, C, START, A, END, C]
    assert script.counts == {"reasoning": 5, "answer": 2}


def test_a_natural_end_at_the_last_moment_is_not_doubled() -> None:
    assert Script([START], thinking_token_budget=2).want(A, END, B) == [A, END, B]
    assert Script([START], thinking_token_budget=2).want(A, B, END, C) == [A, B, END, C]


def test_an_end_met_half_way_is_completed() -> None:
    end = ids(b"e", b"n", b"d>")
    script = Script(
        [START], thinking={"start": [START], "end": [end], "message": "ok"}, thinking_token_budget=3
    )
    assert script.want(A, *end[:2], B, C) == [A, *end, C]
    text = Script(
        [START], thinking={"start": [START], "end": "end>", "message": "ok"}, thinking_token_budget=2
    )
    assert text.want(A, ids(b"en")[0], B, C) == [A, ids(b"en")[0], *ids(b"d>"), C]


def test_the_end_waits_for_a_whole_character_but_not_for_ever() -> None:
    lead, follow = ids(b"\xc3", b"\xa9")
    assert Script([START], thinking_token_budget=1).want(lead, follow, A) == [lead, follow, END]
    assert Script([START], thinking_token_budget=1).want(*[lead] * 6) == [*[lead] * 4, END, lead]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "given",
    [
        {"min_p": 1.0, "temperature": 1.0, "seed": 1},
        {"allowed_token_ids": [A, B]},
        {"logit_bias": {END: float("-inf")}},
        {"bad_words": [END]},
        {"mirostat": 2, "temperature": 2.0, "seed": 1},
        {"top_k": 1, "xtc_probability": 1.0, "temperature": 1.0, "seed": 1},
    ],
    ids=lambda given: next(iter(given)),
)
def test_no_sampler_weakens_what_is_forced(backend: str, given: dict[str, Any]) -> None:
    script = Script([START], backend, thinking_token_budget=1, **given)
    assert script.want(A, B)[1] == END


def test_a_row_that_is_faulty_ends_the_request_although_a_token_is_forced() -> None:
    script = Script([START], thinking_token_budget=0)
    result = script.scheduler.step(np.full((1, VOCAB), np.nan, np.float32))
    assert result.finish_reasons == ["error"]
    assert result.token_ids.tolist() == [-1]


# --- markers -----------------------------------------------------------------------------------------


def test_several_ends_are_heeded() -> None:
    for end in ([END], [OTHER], ids(b"d>", b">")):
        script = Script([START], thinking={**TEXT, "end": ["</think>", [OTHER], ids(b"d>", b">")]})
        script.want(A, *end, B)
        assert script.counts == {"reasoning": 1 + len(end), "answer": 1}


def test_a_text_is_found_however_it_is_divided_into_tokens() -> None:
    divisions = [
        ids(b"e", b"n", b"d>"),
        ids(b"en", b"d>"),
        ids(b"en", b"d", b">"),
        ids(b"e", b"n", b"d", b">\n"),
    ]
    for division in divisions:
        script = Script([START], thinking={"start": "<think>", "end": "end>"})
        script.want(A, *division, B)
        assert script.counts == {"reasoning": 1 + len(division), "answer": 1}


def test_a_marker_that_is_one_token_is_not_its_text_in_pieces() -> None:
    pieces = [*[bytes([i]) for i in range(256)], b"</think>", b"<think>"]
    tokenizer = Tokenizer(pieces, special_token_ids=[256])
    scheduler = Scheduler(len(pieces), tokenizer)
    for end, counts in (([256], {"reasoning": 1, "answer": 1}), (list(b"</think>"), {"reasoning": 9})):
        request = scheduler.add(SamplingParams(thinking=TEXT), [257])
        scheduler.accept(request, [*end, 65])
        assert scheduler.record(request).phase_tokens == counts


@pytest.mark.parametrize(
    ("prompt", "given", "inside"),
    [
        ([START], "auto", True),
        ([START, A], "auto", True),
        ([START, A, END], "auto", False),
        ([START, A, END, B, START], "auto", True),
        ([A], "auto", False),
        ([A], True, True),
        ([START], False, False),
    ],
)
def test_the_prompt_tells_whether_it_has_opened_the_thoughts(
    prompt: list[int], given: Any, inside: bool
) -> None:
    script = Script(prompt, thinking={**TEXT, "starts_inside": given})
    script.want(A)
    assert script.counts == ({"reasoning": 1} if inside else {"answer": 1})


def test_a_marker_may_begin_in_the_prompt() -> None:
    start = ids(b"<", b"a", b">")
    script = Script([B, *start[:2]], thinking={"start": [start], "end": [END]}, thinking_token_budget=1)
    assert script.want(start[2], B, C) == [start[2], B, END]


def test_a_marker_of_several_tokens_counts_as_a_part_of_the_thoughts() -> None:
    script = Script([B], thinking={"start": [ids(b"<", b"a")], "end": [END]})
    script.want(C, *ids(b"<", b"a"), D, END, A)
    assert script.counts == {"answer": 2, "reasoning": 4}


@pytest.mark.parametrize("family", ["qwen_3", "mistral_v11", "harmony", "gemma_4", "kimi_k3", "cohere"])
def test_a_family_has_its_markers(family: str) -> None:
    from engine_sampler.params.families import TOOL_FAMILIES

    start, end = TOOL_FAMILIES[family].thinking or ("", "")
    tokenizer = Tokenizer([bytes([i]) for i in range(256)] + [b"<eos>"], eos_token_ids=[256])
    scheduler = Scheduler(257, tokenizer)
    params = SamplingParams(thinking=family, thinking_token_budget=2, max_tokens=400)
    request = scheduler.add(params, [*start.encode(), 65])
    scheduler.accept(request, [66])
    forced = bytes(scheduler.forced_tokens(request)).decode()
    assert forced == end + TOOL_FAMILIES[family].closing
    scheduler.accept(request, list(forced.encode()))
    assert scheduler.record(request).phase_tokens == {"reasoning": 1 + len(forced), "answer": 0}


# --- ends of texts ---------------------------------------------------------------------------------


def test_stop_strings_and_tokens_hold_in_the_answer_only() -> None:
    script = Script([START], stop=["ab"], stop_token_ids=[D], stop_regex=["c1+"])
    assert script.want(A, B, D, C, ids(b"1")[0], A, END, B) == [A, B, D, C, ids(b"1")[0], A, END, B]
    script.want(A, B)
    assert script.record.finish_reason == "stop"
    assert script.record.stop_reason == "ab"
    assert script.record.text == "abdc1ab"


def test_a_stop_string_does_not_reach_back_into_the_thoughts() -> None:
    script = Script([START], stop=["ab"])
    assert script.want(A, END, B, A) == [A, END, B, A]


def test_stops_hold_everywhere_where_the_scope_says_so() -> None:
    script = Script([START], stop=["ab"], thinking={**TEXT, "scope": "all"})
    script.want(A, B)
    assert (script.record.finish_reason, script.record.text) == ("stop", "")


def test_min_tokens_counts_the_answer() -> None:
    script = Script([START], min_tokens=2)
    assert script.want(A, A, EOS, END)[2] != EOS
    drawn = script.want(EOS, EOS, EOS)
    assert [token == EOS for token in drawn] == [False, False, True]
    everywhere = Script([START], min_tokens=2, thinking={**TEXT, "scope": "all"})
    assert everywhere.want(A, END, EOS)[-1] == EOS


def test_penalties_count_the_answer_or_all() -> None:
    for scope, repeated in (("answer", True), ("all", False)):
        script = Script([START], thinking={**TEXT, "scope": scope}, frequency_penalty=2.0, seed=1)
        script.want(*[A] * 8, END)
        logits = np.full((1, VOCAB), -20, np.float32)
        logits[0, A], logits[0, B] = 5, 4
        assert bool(script.scheduler.step(logits).token_ids[0] == A) is repeated


def test_eos_in_thoughts_stops_or_closes_them_or_is_masked() -> None:
    stops = Script([START])
    stops.want(A, EOS)
    assert (stops.record.finish_reason, stops.counts) == ("stop", {"reasoning": 2})
    closes = Script([START], thinking={**TEXT, "eos": "close", "message": "ok"})
    assert closes.want(A, EOS, B, C, EOS) == [A, OK, END, C, EOS]
    assert closes.record.finish_reason == "stop"
    masked = Script([START], thinking={**TEXT, "eos": "mask"})
    assert EOS not in masked.want(A, EOS, END)
    assert masked.want(EOS) == [EOS]


def test_max_tokens_counts_thoughts_as_well() -> None:
    script = Script([START], max_tokens=4, thinking_token_budget=2)
    script.want(A, A, A, A)
    assert script.record.finish_reason == "length"


# --- grammars ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_grammar_begins_with_the_answer(backend: str) -> None:
    script = Script([START], backend, regex="[ab]{2}1", thinking_token_budget=4)
    assert script.want(C, D, END) == [C, D, END]
    drawn = script.want(C, D, D, EOS)
    assert {drawn[0], drawn[1]} <= {A, B, ids(b"ab")[0]}
    assert script.record.finish_reason == "stop"
    assert script.record.text.endswith("1")


def test_the_grammar_begins_inside_a_draft() -> None:
    drafts = [C, END, A, B]
    script = Script([START], regex="[ab]{2}1")
    logits = np.zeros((5, VOCAB), np.float32)
    for i, wanted in enumerate([C, END, D, B, D]):
        logits[i, wanted] = 9
    logits[2, A] = 8
    result = script.scheduler.step(logits, draft_token_ids=[drafts])
    assert result.tokens(0) == [C, END, A, B, ids(b"1")[0]]


def test_thoughts_may_precede_a_grammar_that_holds_from_the_first_token() -> None:
    thinks, answers = (Script([B], regex="[ab]{2}1") for _ in range(2))
    assert thinks.want(START, C, D, END, A) == [START, C, D, END, A]
    assert answers.want(A, START)[0] == A
    assert START not in answers.record.token_ids
    assert START not in thinks.want(START)


def test_the_grammar_may_cover_the_thoughts() -> None:
    script = Script([START], thinking={**TEXT, "grammar": "all"}, regex="[ab]+")
    assert set(script.want(C, D)) <= {A, B, ids(b"ab")[0]}


def test_the_start_of_a_call_ends_thoughts_if_the_grammar_takes_it() -> None:
    call = ids(b"<call>")
    marks = {**TEXT, "tool_call": "<call>"}
    taken = Script([START], thinking=marks, grammar='start: "<call>" /[ab]+/ "]"')
    assert taken.want(C, *call) == [C, *call]
    assert taken.counts == {"reasoning": 1, "answer": 1}
    assert set(taken.want(C)) <= {A, B, ids(b"ab")[0]}
    refused = Script([START], thinking=marks, regex="[ab]{2}1")
    refused.want(C, *call, C)
    assert refused.counts == {"reasoning": 3}
    free = Script([START], thinking=marks)
    free.want(C, *call, C)
    assert free.counts == {"reasoning": 1, "answer": 2}


def test_a_call_that_begins_in_thoughts_is_taken_back_with_them() -> None:
    script = Script([START], thinking={**TEXT, "tool_call": "<call>"}, grammar='start: "<call>" /[ab]+/ "]"')
    script.want(C, ids(b"<call>")[0], A)
    script.scheduler.rollback(script.request, 2)
    assert script.want(D, END) == [D, END]
    assert script.want(C)[0] in ids(b"<", b"<call>")


# --- results -----------------------------------------------------------------------------------------


def test_results_say_how_many_tokens_each_phase_had_when_one_ends() -> None:
    script = Script([START], max_tokens=4)
    script.want(A, END, B, C)
    assert [result.phase_tokens for result in script.results] == [
        [],
        [{"reasoning": 2, "answer": 0}],
        [],
        [{"reasoning": 2, "answer": 2}],
    ]


def test_a_request_without_phases_has_no_counts() -> None:
    chat = Chat.with_backend("native")
    plain = chat.add([1], max_tokens=2)
    chat.run()
    assert chat.record(plain).phase_tokens is None


def test_rows_without_a_scheduler_know_their_phase() -> None:
    params = SamplingParams(thinking={**TEXT, "message": "ok"}, thinking_token_budget=1, temperature=0)
    logits = np.zeros((3, VOCAB), np.float32)
    logits[:, C] = 9
    outputs = [[], [A], [A, OK]]
    found = sample(
        logits, params, prompt_token_ids=[[START]] * 3, output_token_ids=outputs, tokenizer=TOKENIZER
    )
    assert found.token_ids.tolist() == [C, OK, END]
    again = sample(
        logits[:1], params, prompt_token_ids=[[START]], output_token_ids=[[A, OK, END]], tokenizer=TOKENIZER
    )
    assert again.token_ids.tolist() == [C]
    rows = process_logits(
        logits, params, prompt_token_ids=[[START]] * 3, output_token_ids=outputs, tokenizer=TOKENIZER
    )
    assert rows.argmax(axis=1).tolist() == [C, OK, END]


# --- parameters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thinking": "nobody"}, "names the family 'nobody', allowed are qwen_3"),
        ({"thinking": "hermes"}, "it has no end; allowed are end"),
        ({"thinking": {"start": "<think>"}}, "it has no end"),
        ({"thinking": {"end": "x"}}, "starts_inside must be True"),
        ({"thinking": {"end": []}}, "end must be one or at most 16 markers"),
        ({"thinking": {"end": ["x"] * 3 + ["y" * 200]}}, "of 1 to 128"),
        ({"thinking": {"end": "x", "start": "y", "scope": "none"}}, "scope must be one of 'answer', 'all'"),
        ({"thinking": {"end": "x", "ends": "y"}}, "an object with some of family"),
        ({"thinking": {**TEXT, "message": "x" * 2000}}, "message must be a text"),
        ({"thinking": {**TEXT, "tool_call": True}}, "needs a family"),
        ({"thinking": TEXT, "thinking_token_budget": -2}, "thinking_token_budget=-2 is not allowed"),
        ({"thinking_token_budget": 5}, "needs thinking"),
        ({"answer": {"top_p": 0.5}}, "needs thinking"),
        ({"thinking": TEXT, "answer": {"top_p": 2}}, "answer: top_p=2 is not allowed"),
        ({"thinking": TEXT, "answer": {"stop": "x"}}, "answer names 'stop', which is not allowed there"),
        ({"thinking": TEXT, "answer": {"max_tokens": 4}}, "answer names 'max_tokens'"),
        ({"thinking": TEXT, "answer": 3}, "an object of parameters"),
        ({"thinking": TEXT, "phases": [{}]}, "at most one of them"),
        ({"thinking": TEXT, "use_beam_search": True}, "not allowed with use_beam_search"),
        ({"phases": [{"until": "x"}]}, r"phases\[0\] ends, but then=1 is not allowed"),
        ({"phases": [{"until": "x", "then": 3}, {}]}, r"from 0 to 1"),
        ({"phases": [{"tokens": 0}, {}]}, "at least 1"),
        ({"phases": [{"until": "x", "force": "y"}, {}]}, r"phases\[0\].force is not allowed without"),
        ({"phases": [{"params": {"nobody": 1}}]}, r"phases\[0\].params names 'nobody'"),
        ({"phases": [{}] * 17}, "a list of 1 to 16 objects"),
    ],
)
def test_what_is_not_allowed_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SamplingParams(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thinking": {"start": [[VOCAB]], "end": "x"}}, "thinking names token id"),
        ({"thinking": {**TEXT, "message": [VOCAB]}}, "thinking names token id"),
        ({"thinking": {**TEXT, "message": "Q"}}, "cannot be encoded"),
        ({"thinking": TEXT, "answer": {"allowed_token_ids": [VOCAB]}}, "allowed_token_ids names token id"),
    ],
)
def test_what_the_vocabulary_does_not_allow_is_refused_by_add(given: dict[str, Any], message: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match=message):
        scheduler.add(SamplingParams(**given))
    assert not scheduler.request_ids


def test_texts_need_a_tokenizer_and_ids_do_not() -> None:
    scheduler = Scheduler(VOCAB)
    with pytest.raises(ParameterError, match="thinking is given as text, which needs a tokenizer"):
        scheduler.add(SamplingParams(thinking=TEXT))
    request = scheduler.add(
        SamplingParams(thinking={"start": [START], "end": [END]}, thinking_token_budget=0), [START]
    )
    assert scheduler.forced_tokens(request) == [END]


def test_limits_hold_in_phases_too() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER, limits=RequestLimits(logit_bias=4))
    with pytest.raises(ParameterError, match="limit is 4"):
        scheduler.add(SamplingParams(thinking=TEXT, answer={"logit_bias": dict.fromkeys(range(9), 1.0)}))
    Scheduler(VOCAB, TOKENIZER, limits=RequestLimits(min_tokens=9)).add(
        SamplingParams(thinking=TEXT, min_tokens=5)
    )


# --- phases in general ---------------------------------------------------------------------------------


def test_a_bias_expires() -> None:
    script = Script([], thinking=None, phases=[{"tokens": 2, "params": {"logit_bias": {A: 50.0}}}, {}])
    assert script.want(B, B, B) == [A, A, B]
    assert script.counts == {"0": 2, "1": 1}


def test_a_word_moves_on_and_a_cycle_returns() -> None:
    banned = {"logit_bias": {A: float("-inf")}}
    phases = [
        {"name": "free", "until": "d>"},
        {"name": "banned", "tokens": 2, "then": 0, "params": banned},
    ]
    script = Script([], thinking=None, phases=phases)
    drawn = script.want(A, *ids(b"d", b">"), A, A, A)
    assert drawn[:3] == [A, *ids(b"d", b">")]
    assert A not in drawn[3:5]
    assert drawn[5] == A
    assert script.counts == {"free": 4, "banned": 2}


def test_phases_may_force_text_again_and_again() -> None:
    script = Script([], thinking=None, phases=[{"tokens": 0, "force": "ok", "then": 0}])
    assert script.want(A, B, C) == [OK, OK, OK]


def test_a_grammar_that_covers_the_thoughts_may_refuse_what_is_forced() -> None:
    for given in ({"thinking_token_budget": 1}, {}):
        marks = {**TEXT, "grammar": "all", "eos": "close"}
        script = Script([START], thinking=marks, regex="[ab]{0,9}", **given)
        script.want(A, EOS)
        assert script.record.error == f"the grammar refuses token {END}"


def test_an_end_of_thoughts_that_has_no_tokens_ends_its_request_alone() -> None:
    vocabulary = [b"ab", b"xa", b"y", b"</s>", b"cd"]  # no single bytes, and EOS within "abcd"
    scheduler = Scheduler(5, Tokenizer(vocabulary, [3]))
    thinking = {"start": "y", "end": "abcd", "starts_inside": True, "eos": "close"}
    scheduler.add(SamplingParams(temperature=0, thinking=thinking), [], request_id="thinks")
    scheduler.add(SamplingParams(temperature=0), [], request_id="beside")
    for token, beside in ((1, 0), (3, 4)):
        rows = np.zeros((2, 5), np.float32)
        rows[0, token] = rows[1, beside] = 9
        result = scheduler.step(rows)
    assert result.finish_reasons == ["error", None]
    assert "cannot be encoded" in str(result.errors[0])
    assert result.token_ids.tolist() == [-1, 4]
    assert scheduler.request_ids == ["beside"]
