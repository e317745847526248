"""Texts that are banned are taken back, and the request goes another way."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Record, SamplingParams, Scheduler, Tokenizer, sample
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, NoTokenLeft, TextCriteria, TextMatch, TextMatcher
from engine_sampler.messages import MessageParser
from engine_sampler.requests.bans import MAX_WITHHELD

from ..chi_square import assert_drawn_from

PIECES = [bytes([byte]) for byte in b"abcdefgh "] + [
    b"ab",
    b"bc",
    b"cde",
    b"A",
    b"B",
    "É".encode(),
    b"\xc3",
    b"\xa9",
]
EOS = len(PIECES)
TOKENIZER = Tokenizer([*PIECES, b"</s>"], [EOS], [EOS])
VOCAB = EOS + 1
PROMPT = [1, 2]

BANS: Sequence[Mapping[str, Any]] = (
    {"banned_strings": ["ab", "cd a", "bcd"]},  # phrases that overlap
    {"banned_strings": ["b", "abc", "é"]},  # a ban within a ban, a letter in two cases and in two tokens
    {"banned_strings": ["ab"], "banned_regex": ["e[fg]+h", "[cd]{2}"]},
    {"banned_strings": ["ab", "hh"], "stop": ["bh", "cc"]},  # bans beside stop strings
    {"banned_strings": ["a", "c"], "min_tokens": 20, "stop": ["e"], "include_stop_str_in_output": True},
)
SAMPLERS: Sequence[Mapping[str, Any]] = (
    {},
    {"temperature": 0.0},
    {"repetition_penalty": 1.3, "dry_multiplier": 0.8, "dry_allowed_length": 1, "frequency_penalty": 0.4},
    {"adaptive_target": 0.3},
    {"mirostat": 2, "mirostat_tau": 2.0},
    {"xtc_probability": 0.5, "xtc_threshold": 0.05, "logprobs": 2},
    {"regex": "([a-h] ?)*"},
    {"regex": "([a-h] ?)*", "grammar_bias": 1.0},
    {
        "thinking": {"start": "a", "end": "c", "starts_inside": True},
        "thinking_token_budget": 5,
        "answer": {"top_k": 9},
    },
)


def model_row(history: Sequence[int]) -> np.ndarray:
    """Logits [vocab] that follow from the last two tokens and the length."""
    random = np.random.default_rng([len(history), *history[-2:]])
    row = random.normal(0, 1.5, VOCAB).astype(np.float32)
    row[EOS] -= 2
    return row


class Engine:
    """An engine with one request, whose context it cuts as results say. Checks what every step must keep."""

    def __init__(
        self, params: SamplingParams, backend: str = "native", drafts: int = 0, **keywords: Any
    ) -> None:
        self.scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
        self.id = self.scheduler.add(params, PROMPT, **keywords)
        self.context, self.streamed, self.steps, self.rewound = list(PROMPT), "", 0, 0
        self.certain = 0
        self.drafts, self.random = drafts, np.random.default_rng(0)
        self.deltas: list[Any] = []

    @property
    def live(self) -> bool:
        return self.id in self.scheduler.request_ids

    def step(self) -> Any:
        guesses = self.random.integers(0, VOCAB, self.drafts).tolist()
        rows = [model_row(self.context + guesses[:i]) for i in range(len(guesses) + 1)]
        result = self.scheduler.step(np.array(rows), [self.id], [guesses] if guesses else None)
        self.steps += 1
        if result.rewinds:
            self.rewound += 1
            assert len(self.context) - result.rewinds[0] >= len(PROMPT) + self.certain
            del self.context[-result.rewinds[0] :]
        self.context += result.tokens(0)
        self.streamed += result.text[0]
        self.deltas += result.deltas[0] if result.deltas else []
        left = len(self.context) - len(PROMPT)
        self.certain = left - (result.withheld[0] if result.withheld else 0)
        record = self.scheduler.record(self.id)
        assert record.token_ids == self.context[len(PROMPT) :]
        assert record.text == self.streamed
        return result

    def run(self) -> Record:
        while self.live:
            self.step()
            assert self.steps < 5000
        return self.scheduler.record(self.id)


def outcome(record: Record) -> tuple[Any, ...]:
    return record.token_ids, record.text, record.finish_reason, record.stop_reason, record.error


def params_of(bans: Mapping[str, Any], settings: Mapping[str, Any], seed: int) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 24, **bans, **settings}, seed=seed)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("settings", SAMPLERS, ids=str)
@pytest.mark.parametrize("bans", BANS, ids=str)
def test_bans_stay_out_of_the_text_on_all_backends_and_with_drafts(bans: Any, settings: Any) -> None:
    params = params_of(bans, settings, len(str((bans, settings))))
    record = Engine(params, "numpy").run()
    assert record.finish_reason in ("stop", "length")
    if not record.unenforced:
        text = (record.text or "").lower()
        assert not [ban for ban in params.banned_strings if ban in text]
    for backend, drafts in (("native", 0), ("native", 3)):
        assert outcome(Engine(params, backend, drafts).run()) == outcome(record)


def test_a_request_that_meets_no_ban_is_as_without() -> None:
    for seed in range(8):
        plain = Engine(SamplingParams(seed=seed, max_tokens=30, temperature=0.7)).run()
        banned = Engine(
            SamplingParams(seed=seed, max_tokens=30, temperature=0.7, banned_strings=["hhhhh"])
        ).run()
        assert outcome(plain) == outcome(banned)


# --- against a slow model ------------------------------------------------------------------------


class Slow:
    """The same, as the documentation says it: text is searched anew after every token."""

    def __init__(self, bans: Sequence[str], seed: int) -> None:
        self.bans, self.seed = bans, seed
        self.tokens: list[int] = []
        self.removed: dict[int, set[int]] = {}
        self.certain = self.rewinds = 0

    def begins(self, offset: int) -> int:
        """The number of the token with the byte at `offset`."""
        ends = list(itertools.accumulate(len(TOKENIZER.token_bytes[t]) for t in self.tokens))
        return sum(end <= offset for end in ends)

    def run(self, length: int) -> list[int]:
        while len(self.tokens) < length and EOS not in self.tokens:
            at = len(self.tokens)
            bias = dict.fromkeys(self.removed.get(at, ()), -np.inf)
            params = SamplingParams(seed=self.seed, logit_bias=bias)
            position = len(PROMPT) + at + (self.rewinds << 40)
            row = model_row([*PROMPT, *self.tokens])
            self.tokens += sample(row[None], params, positions=[position]).token_ids.tolist()
            self.look()
        return self.tokens

    def look(self) -> None:
        text = b"".join(TOKENIZER.text_bytes(t) for t in self.tokens).lower()
        found = [at for ban in self.bans if (at := text.find(ban.encode())) >= 0]
        if found:
            place = max(self.begins(min(found)), self.certain)
            self.removed = {at: ids for at, ids in self.removed.items() if at <= place}
            self.removed.setdefault(place, set()).add(self.tokens[place])
            del self.tokens[place:]
            self.rewinds += 1
            return
        held = [n for ban in self.bans for n in range(1, len(ban)) if text.endswith(ban[:n].encode())]
        self.certain = max(self.certain, self.begins(len(text) - max(held, default=0)))


def test_rewinds_are_those_of_a_slow_model() -> None:
    for seed in range(6):
        bans = ["ab", "cd a", "bcd", "fee"]
        params = SamplingParams(seed=seed, max_tokens=30, banned_strings=bans)
        assert Engine(params).run().token_ids == Slow(bans, seed).run(30)


def test_the_law_of_the_draw_is_that_of_a_row_without_the_token() -> None:
    row = model_row([])
    row[[9, 10, 12, 13]] = -np.inf  # other tokens with these letters
    tokens = []
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for seed in range(1000):
        scheduler.add(
            SamplingParams(seed=seed, max_tokens=1, banned_strings=["a", "f", "g"]), request_id=seed
        )
    while ids := scheduler.request_ids:
        result = scheduler.step(np.broadcast_to(row, (len(ids), VOCAB)), ids)
        tokens += [token for token in result.token_ids.tolist() if token >= 0]
    row[[0, 5, 6]] = -np.inf
    weights = np.exp(row.astype(np.float64))
    assert_drawn_from(weights / weights.sum(), np.array(tokens))


def test_the_law_of_two_tokens_is_that_of_the_pairs_that_are_allowed_after_the_first() -> None:
    """The token after a rewind has numbers of its own: those that led to the ban would not be independent."""
    first, second = np.full(VOCAB, -np.inf, np.float32), np.full(VOCAB, -np.inf, np.float32)
    first[[0, 2]], second[[0, 1, 3]] = [1.0, 0.0], [0.0, 1.0, 0.5]
    scheduler, pairs = Scheduler(VOCAB, TOKENIZER), []
    for seed in range(1000):
        scheduler.add(SamplingParams(seed=seed, max_tokens=2, banned_strings=["ab"]), request_id=seed)
    while ids := scheduler.request_ids:
        rows = [second if scheduler.record(i).token_ids else first for i in ids]
        scheduler.step(np.array(rows), ids)
    for seed in range(1000):
        one, two = scheduler.record(seed).token_ids
        pairs.append(VOCAB * (one == 2) + two)
    p, q = (np.exp(row) / np.exp(row).sum() for row in (first, second))
    law = np.concatenate([p[0] * q, p[2] * q + p[0] * q[1] * q])
    law[1] = 0  # a, b is taken back, and c comes instead
    assert_drawn_from(law, np.array(pairs))


# --- what the request and the engine do besides --------------------------------------------------


BOTH = {
    "banned_strings": ["ab", "cd", "e", "bc"],
    "repetition_penalty": 1.2,
    "adaptive_target": 0.4,
    "stop": ["gg"],
}


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("what", ["suspend", "move", "fork", "rollback", "accept and rollback"])
def test_a_request_with_bans_continues_after(what: str) -> None:
    for seed in range(4):
        params = SamplingParams(seed=seed, max_tokens=24, **BOTH)
        expected = Engine(params).run()
        engine, backends = Engine(params), itertools.cycle(["numpy", "native"])
        while engine.live:
            engine.step()
            if not engine.live or engine.random.random() < 0.5:
                continue
            scheduler = engine.scheduler
            if what == "suspend":
                scheduler.suspend(engine.id)
                scheduler.add(SamplingParams(seed=1), request_id="other")
                scheduler.remove("other")
                scheduler.resume(engine.id)
            elif what == "move":
                state = json.loads(json.dumps(scheduler.export(engine.id)))
                assert state["position"] is None
                engine.scheduler = Scheduler(VOCAB, TOKENIZER, backend=next(backends))
                engine.scheduler.add_exported(state)
                assert engine.scheduler.export(engine.id) == state
            elif what == "fork":
                child = scheduler.fork(engine.id)
                scheduler.remove(engine.id)
                engine.id = child
            elif what == "rollback":
                n = min(2, len(engine.context) - len(PROMPT) - engine.certain)
                scheduler.rollback(engine.id, n)
                del engine.context[len(engine.context) - n :]
            elif len(engine.context) < 20:
                scheduler.accept(engine.id, [7, 7])
                scheduler.rollback(engine.id, 2)
        assert outcome(engine.scheduler.record(engine.id)) == outcome(expected)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_operations_on_many_requests_change_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    scheduler = Scheduler(VOCAB, TOKENIZER, backend=["numpy", "native"][seed % 2])
    orders = [params_of(BANS[i % len(BANS)], SAMPLERS[i % len(SAMPLERS)], seed * 9 + i) for i in range(9)]
    names = {scheduler.add(params, PROMPT): i for i, params in enumerate(orders)}
    contexts, certain = {name: list(PROMPT) for name in names}, dict.fromkeys(names, len(PROMPT))

    def rename(old: Any, new: Any) -> None:
        for table in (names, contexts, certain):
            table[new] = table.pop(old)

    for _ in range(3000):
        live = scheduler.request_ids
        if not live:
            break
        name, what = live[random.integers(len(live))], random.random()
        if what < 0.05:
            scheduler.suspend(name)
            scheduler.resume(name)
        elif what < 0.1:
            child = scheduler.fork(name)
            scheduler.remove(name)
            rename(name, child)
        elif what < 0.15:
            state = json.loads(json.dumps(scheduler.export(name)))
            scheduler.remove(name)
            rename(name, scheduler.add_exported({**state, "request_id": None}))
        elif what < 0.2 and (n := min(2, len(contexts[name]) - certain[name])):
            scheduler.rollback(name, n)
            del contexts[name][-n:]
        else:
            some = [i for i in random.permutation(live).tolist() if random.random() < 0.7]
            drafts = [random.integers(0, VOCAB, random.integers(0, 3)).tolist() for _ in some]
            pairs = list(zip(some, drafts, strict=True))
            rows = [model_row(contexts[i] + draft[:k]) for i, draft in pairs for k in range(len(draft) + 1)]
            result = scheduler.step(np.array(rows, np.float32).reshape(-1, VOCAB), some, drafts)
            for i, request_id in enumerate(some):
                if result.rewinds and result.rewinds[i]:
                    del contexts[request_id][-result.rewinds[i] :]
                contexts[request_id] += result.tokens(i)
                certain[request_id] = len(contexts[request_id]) - (
                    result.withheld[i] if result.withheld else 0
                )
    assert not scheduler.request_ids
    for name, i in names.items():
        assert outcome(scheduler.record(name)) == outcome(Engine(orders[i]).run())


def test_siblings_have_bans_of_their_own() -> None:
    params = SamplingParams(seed=3, n=3, max_tokens=20, banned_strings=["ab", "c"])
    scheduler = Scheduler(VOCAB, TOKENIZER)
    ids = scheduler.add_group(params, PROMPT)
    while live := scheduler.request_ids:
        scheduler.step(np.array([model_row(PROMPT + scheduler.record(i).token_ids) for i in live]), live)
    for request_id in ids:
        record = scheduler.record(request_id)
        alone = Engine(params.replace(n=1, seed=record.seed)).run()
        assert outcome(record) == outcome(alone)


def test_a_parser_never_reads_what_is_taken_back() -> None:
    for seed in range(8):
        params = SamplingParams(seed=seed, max_tokens=30, banned_strings=["ab", "c"])
        engine = Engine(params, parser=MessageParser("hermes", tokenizer=TOKENIZER))
        record = engine.run()
        said = "".join(event.text for event in engine.deltas if getattr(event, "text", None))
        assert said.strip() == (record.text or "").strip()


def test_a_parser_that_moves_with_its_request_reads_what_was_withheld() -> None:
    for seed in range(4):
        params = SamplingParams(seed=seed, max_tokens=30, banned_strings=["ab", "c", "efgh"])
        expected = Engine(params).run()
        engine = Engine(params, parser=MessageParser("hermes", tokenizer=TOKENIZER))
        while engine.live:
            engine.step()
            if engine.live:
                state, record = engine.scheduler.export(engine.id), engine.scheduler.remove(engine.id)
                engine.scheduler.add_exported(state, parser=record.parser)
        said = "".join(event.text for event in engine.deltas if getattr(event, "text", None))
        assert said.strip() == (expected.text or "").strip()


def test_logprobs_of_tokens_that_are_taken_back_are_left_out() -> None:
    rewound = 0
    for seed in range(6):
        params = SamplingParams(seed=seed, max_tokens=30, logprobs=0, banned_strings=["ab", "bc", "cd", "ed"])
        engine = Engine(params, drafts=3)
        while engine.live:
            result = engine.step()
            nothing = result.token_ids < 0
            assert np.isnan(result.logprobs.logprobs[nothing]).all()
            assert not np.isnan(result.logprobs.logprobs[~nothing, 0]).any()
        rewound += engine.rewound
    assert rewound


def test_tokens_of_earlier_steps_that_are_taken_back_are_counted() -> None:
    engine = forced(b"ab", banned_strings=["AB"])
    results = [engine.scheduler.step(row[None]) for row in certain_rows(0, 1)]
    assert [r.token_ids.tolist() for r in results] == [[0], [-1]]
    assert [r.rewinds for r in results] == [[], [1]]
    assert [r.withheld for r in results] == [[1], []]
    assert [r.text for r in results] == [[""], [""]]
    assert results[1].token_ids_on_device is None
    row = certain_rows(0)[0]
    row[3] = 20
    assert engine.scheduler.step(row[None]).token_ids.tolist() == [3]
    assert engine.scheduler.step(row[None]).token_ids.tolist() == [0]  # banned at its position only


# --- ends and bounds -----------------------------------------------------------------------------


def certain_rows(*tokens: int) -> np.ndarray:
    """A row for each token, in which it is certain."""
    rows = np.full((len(tokens), VOCAB), -30, np.float32)
    rows[np.arange(len(tokens)), tokens] = 30
    return rows


def forced(text: bytes, **settings: Any) -> Engine:
    return Engine(SamplingParams(**settings))


def test_a_stop_string_that_cuts_a_ban_off_ends_the_request() -> None:
    engine = forced(b"", stop=["bc"], banned_strings=["cd"])
    engine.scheduler.step(certain_rows(1))
    result = engine.scheduler.step(certain_rows(11))  # "cde"
    assert (result.finish_reasons, result.stop_reasons) == (["stop"], ["bc"])
    assert engine.scheduler.record(engine.id).text == ""


def test_a_ban_that_a_stop_string_leaves_in_the_text_is_taken_back() -> None:
    for settings in ({"stop": ["de"]}, {"stop": ["cd"], "include_stop_str_in_output": True}):
        engine = forced(b"", banned_strings=["c"], **settings)
        result = engine.scheduler.step(certain_rows(11))
        assert (result.finish_reasons, result.token_ids.tolist()) == ([None], [-1])


def test_the_last_token_that_max_tokens_allows_can_be_taken_back() -> None:
    engine = forced(b"", banned_strings=["a"], max_tokens=1)
    assert engine.scheduler.step(certain_rows(0)).finish_reasons == [None]
    row = certain_rows(0)[0]
    row[3] = 20
    result = engine.scheduler.step(row[None])
    assert (result.token_ids.tolist(), result.finish_reasons) == ([3], ["length"])


def test_a_ban_that_leaves_nothing_gives_way(caplog: Any) -> None:
    for settings in ({"regex": "ab*"}, {"allowed_token_ids": [0]}, {}):
        engine = forced(b"", banned_strings=["a"], max_tokens=1, **settings)
        row = certain_rows(0)
        row[row < 0] = -np.inf
        with caplog.at_level(logging.WARNING, "engine_sampler"):
            results = [engine.scheduler.step(row) for _ in range(3)]
        assert [r.token_ids.tolist() for r in results] == [[-1], [-1], [0]]
        record = engine.scheduler.record(engine.id)
        assert record.unenforced == ["a banned text may stay: its tokens are the only ones left"]
        assert record.finish_reason == "length"


@pytest.mark.parametrize(("kind", "goes_on"), [(NoTokenLeft, True), (str, False)])
def test_a_ban_gives_way_to_a_kind_of_error_whatever_its_words(
    kind: type[str], goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: NumpyBackend, batch: Batch) -> None:
        original(self, batch)
        batch.errors[:] = [error and kind("kein Token bleibt") for error in batch.errors]

    original = NumpyBackend.run
    monkeypatch.setattr(NumpyBackend, "run", run)
    params = SamplingParams(banned_strings=["a"], max_tokens=1, allowed_token_ids=[0])
    engine = Engine(params, "numpy")
    results = [engine.scheduler.step(certain_rows(0)) for _ in range(2)]
    expected = (None, None) if goes_on else ("error", "kein Token bleibt")
    assert (results[1].finish_reasons[0], results[1].errors[0]) == expected
    assert type(engine.scheduler.record(engine.id).error) in (str, type(None))


def test_a_token_that_a_phase_forces_stays() -> None:
    thinking = {"start": "h", "end": "ab", "starts_inside": True}
    params = SamplingParams(
        thinking=thinking, thinking_token_budget=1, banned_strings=["ab"], max_tokens=6, seed=1
    )
    record = Engine(params).run()
    assert "ab" in TOKENIZER.decode(record.token_ids)
    assert record.unenforced == ["'ab' stays in the text: nothing else can come there"]


def test_text_that_the_given_output_withholds_is_streamed_once_it_is_certain() -> None:
    for settings in ({"banned_strings": ["ab"]}, {"stop": ["ab"]}):
        scheduler = Scheduler(VOCAB, TOKENIZER)
        scheduler.add(SamplingParams(**settings), output_token_ids=[2, 0])
        assert scheduler.step(certain_rows(2)).text == ["ac"]


def test_a_token_that_was_added_takes_nothing_back_but_goes_with_a_later_match() -> None:
    engine = forced(b"", banned_strings=["ab", "acd"])
    engine.scheduler.accept(engine.id, [0, 1, 0, 2])
    assert engine.scheduler.record(engine.id).token_ids == [0, 1, 0, 2]
    result = engine.scheduler.step(certain_rows(3))
    assert (result.token_ids.tolist(), result.rewinds) == ([-1], [2])


def test_a_request_that_has_moved_still_says_why_a_ban_stays() -> None:
    engine = forced(b"", banned_strings=["a"], allowed_token_ids=[0], seed=1)
    for _ in range(3):
        engine.step()
    assert engine.scheduler.record(engine.id).unenforced
    state = json.loads(json.dumps(engine.scheduler.export(engine.id)))
    other = Scheduler(VOCAB, TOKENIZER)
    moved = other.add_exported(state)
    assert other.record(moved).unenforced == engine.scheduler.record(engine.id).unenforced
    with pytest.raises(ParameterError, match=r"state\['passed'\]"):
        other.add_exported({**state, "request_id": 9, "passed": 5})


@pytest.mark.parametrize(("extra", "bound"), [(0, 20), (15, 32)])
def test_rewinds_in_a_row_are_bounded(extra: int, bound: int) -> None:
    size = 60
    tokenizer = Tokenizer([b"a%d." % i for i in range(size)])
    scheduler = Scheduler(size, tokenizer)
    bans = ["a", *(f"x{i}" for i in range(extra))]
    request = scheduler.add(SamplingParams(seed=1, max_tokens=2, banned_strings=bans))
    counts, steps = [], 0
    while scheduler.request_ids:
        steps += 1
        if scheduler.step(np.zeros((1, size), np.float32)).token_ids[0] >= 0:
            counts.append(steps)
    assert np.diff([0, *counts]).tolist() == [bound + 1, bound + 1]
    assert scheduler.record(request).unenforced == [f"'a' stays in the text after {bound} rewinds in a row"]


def test_what_a_pattern_may_still_match_is_withheld_up_to_a_bound() -> None:
    params = SamplingParams(banned_regex=["a[^~]*~"], ignore_eos=True)
    tokenizer = Tokenizer([b"a", b"b" * 1000, b"~"])
    scheduler = Scheduler(3, tokenizer)
    scheduler.add(params)
    rows = np.full((3, 3), -30, np.float32)
    np.fill_diagonal(rows, 30)
    streamed = scheduler.step(rows[:1]).text[0]
    for _ in range(9):
        streamed += scheduler.step(rows[1:2]).text[0]
    assert len(streamed) == 1 + 9000 - MAX_WITHHELD // 1000 * 1000 - 1000
    result = scheduler.step(rows[2:])
    assert result.rewinds == [5]  # to the first token that has not been streamed


def test_bans_are_not_allowed_where_texts_change_until_the_end() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match="banned_strings and use_beam_search are not allowed together"):
        scheduler.add_group(SamplingParams(banned_strings=["a"], use_beam_search=True, n=2))
    with pytest.raises(ParameterError, match="position=549755813888 is not allowed with bans: less than 2"):
        scheduler.add(SamplingParams(banned_strings=["a"]), position=1 << 39)
    with pytest.raises(ParameterError, match="banned_regex is given as text, which needs a tokenizer"):
        Scheduler(VOCAB).add(SamplingParams(banned_regex=["a"]))


@pytest.mark.parametrize(
    "rewinds",
    [
        [[1, 1, 0, 0]],
        [[1, 1, 0, 0, [0]], [1, 2, 0, 0, [0]]],
        [[9, 1, 0, 0, [0]]],
        [[1, 1, 0, -1, []]],
        [[1, 1, 0, 0, [VOCAB]]],
        5,
        ["x"],
    ],
    ids=str,
)
def test_a_state_with_other_rewinds_is_refused(rewinds: Any) -> None:
    engine = Engine(SamplingParams(seed=1, banned_strings=["zz"]))
    engine.step()
    state = engine.scheduler.export(engine.id)
    assert "rewinds" not in state
    with pytest.raises(ParameterError, match="rewinds"):
        engine.scheduler.add_exported({**state, "request_id": 5, "rewinds": rewinds})


class EndMatcher(TextMatcher):
    """Finds b, at whose end nothing is cut; holds back as many bytes as told."""

    start = b""

    def __init__(self, held: Any) -> None:
        self.holds = held

    def advance(self, state: Any, data: bytes) -> tuple[Any, TextMatch | None]:
        end = data.find(b"b") + 1
        return state, TextMatch(end, end, "b") if end else None

    def held(self, state: Any) -> Any:
        return self.holds


class EndBan(TextCriteria):
    takes_back = True

    def __init__(self, held: Any = 0) -> None:
        self.holds = held

    def matcher(self, params: Any, vocabulary: Any) -> TextMatcher:
        return EndMatcher(self.holds)


def test_a_ban_of_a_plugin_that_cuts_nothing_takes_back_the_token_it_ends_in() -> None:
    record = Engine(SamplingParams(seed=1, max_tokens=24), stopping_criteria=[EndBan()]).run()
    assert record.finish_reason != "error"
    assert "b" not in (record.text or "")


@pytest.mark.parametrize("held", ["x", None, -1, 10**9])
def test_a_ban_of_a_plugin_that_holds_back_nonsense_is_named(held: Any) -> None:
    record = Engine(SamplingParams(seed=1), stopping_criteria=[EndBan(held)]).run()
    assert record.error is not None
    assert "EndMatcher failed: ValueError: it holds" in record.error
