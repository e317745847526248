import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.contract import Vocabulary
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.adaptive_p import AdaptiveP
from engine_sampler.samplers.bad_words import BadWords
from engine_sampler.samplers.dry import Breakers, _breakers, _extending, _longest_useful
from engine_sampler.samplers.mirostat import Mirostat
from engine_sampler.samplers.no_repeat_ngram import completions
from engine_sampler.samplers.penalties import Penalties, _Settings
from tests.conftest import example_count
from tests.native.building import load

VOCAB = 300
NO_BREAKERS = _breakers((), None, VOCAB)


class Native:
    """The tables of one request, as the native code stores them."""

    def __init__(self, prompt=(), **params):
        self.ffi, self.lib = load("tables/history.c", headers=("tables/history.h",))
        self.history = self.ffi.gc(self.ffi.new("es_history *"), self.lib.es_history_free)
        self.params = self.ffi.new("es_params *")
        self.alive = []
        self.set(**{"repetition_reach": -1, "counting_reach": -1, "dry_penalty_last_n": -1} | params)
        self.marks = self.ffi.new("es_marks *", {"vocab_size": VOCAB})
        self.marked = np.zeros(VOCAB, np.int32)
        self.marks.mark = self.pointer("int32_t *", self.marked)
        self.found, self.lengths = np.empty(VOCAB, np.int32), np.empty(VOCAB, np.int32)
        self.marks.ids = self.pointer("int32_t *", self.found)
        self.marks.lengths = self.pointer("int32_t *", self.lengths)
        self.tokens, self.notes = list(prompt), [np.nan] * len(prompt)
        self.prompt_length, self.epoch = len(prompt), 1

    def pointer(self, kind, array):
        self.alive.append(array)
        return self.ffi.cast(kind, self.ffi.from_buffer(array))

    def set(self, **params):
        for name, value in params.items():
            setattr(self.params, name, value)

    def set_sequences(self, name, sequences):
        field = getattr(self.params, name)
        field.tokens = self.pointer("int64_t *", np.array([t for s in sequences for t in s], np.int64))
        field.ends = self.pointer("int64_t *", np.cumsum([len(s) for s in sequences], dtype=np.int64))
        field.n = len(sequences)

    def set_breakers(self, breakers: Breakers):
        self.set_sequences("breakers", np.split(breakers.tokens, breakers.ends[:-1]))
        heads = breakers.heads.astype(np.uint8) | 2 * breakers.single.astype(np.uint8)
        self.params.breaker_heads = self.pointer("uint8_t *", heads)

    def accept(self, tokens, notes=None):
        self.tokens += tokens
        self.notes += [np.nan] * len(tokens) if notes is None else notes

    def rollback(self, n):
        del self.tokens[len(self.tokens) - n :], self.notes[len(self.notes) - n :]
        self.epoch += 1

    def sync(self, *needs):
        """Uses a new span each time, so that stale references to an old one would show."""
        self.now = np.array(self.tokens, np.int64), np.array(self.notes, np.float64)
        self.span = self.ffi.new("es_span *")
        self.span.tokens = self.ffi.cast("int64_t *", self.ffi.from_buffer(self.now[0]))
        self.span.notes = self.ffi.cast("double *", self.ffi.from_buffer(self.now[1]))
        self.span.length, self.span.prompt_length = len(self.tokens), self.prompt_length
        bits = sum(getattr(self.lib, f"ES_NEED_{need.upper()}") for need in needs)
        assert self.lib.es_history_sync(self.history, self.epoch, self.span, self.params, bits) == 0
        return self

    def begin_as(self, other):
        """Take over what holds for both; the tokens are this one's own."""
        self.epoch += 1
        now = np.array(self.tokens, np.int64)
        span = self.ffi.new("es_span *", {"length": len(now), "prompt_length": self.prompt_length})
        span.tokens = self.ffi.cast("int64_t *", self.ffi.from_buffer(now))
        known = self.ffi.new(
            "es_known_history *", {"history": other.history, "span": other.span[0], "params": other.params}
        )
        self.lib.es_history_begin_as(self.history, self.epoch, span, self.params, known)

    def window(self, name):
        """{id: (how often, index of the newest occurrence)}, in the order of the table."""
        window = getattr(self.lib, f"es_history_{name}")(self.history)
        places = range(window.n)
        return {window.ids[i]: (window.counts[i], window.last[i]) for i in places}

    def dry(self):
        n = self.lib.es_dry_tokens(self.history, self.span, self.params, self.marks)
        return self.result(n), self.lengths[:n].tolist()

    def ngram(self):
        return self.result(self.lib.es_ngram_tokens(self.history, self.span, self.params, self.marks))

    def bad_words(self):
        return self.result(self.lib.es_bad_word_tokens(self.span, self.params, self.marks))

    def result(self, n):
        assert not self.marked.any()
        return self.found[:n].tolist()


def expected_dry(tokens, base, allowed, last_n, breakers):
    history = np.array(tokens, np.int64)
    window = history if last_n < 0 else history[-last_n:]
    limit = min(breakers.unbroken(window), _longest_useful(base, allowed))
    ids, lengths = _extending(window, allowed, limit)
    kept = ~breakers.single[ids]
    return ids[kept].tolist(), lengths[kept].tolist()


tokens = st.integers(0, 3) | st.sampled_from([7, 256, 299])
prompts = st.lists(tokens, max_size=50)
chunks = st.lists(st.lists(tokens, min_size=1, max_size=3) | st.lists(tokens, max_size=80), max_size=12)


# --- windows -------------------------------------------------------------------------------------


def newest(tokens, start, reach):
    """{id: (how often, index of the newest occurrence)} of the newest `reach` tokens from `start` on."""
    begin = start if reach < 0 else max(start, len(tokens) - reach)
    inside = tokens[begin:]
    return {t: (inside.count(t), len(tokens) - 1 - tokens[::-1].index(t)) for t in sorted(set(inside))}


@settings(max_examples=example_count(150), derandomize=True, deadline=None)
@given(prompts, chunks, st.sampled_from(["default", "all", "output"]), st.sampled_from([-1, 0, 1, 5, 40]),
       st.sampled_from([None, -1, 1, 3]))  # fmt: skip
def test_windows_hold_what_the_penalties_see(prompt, parts, scope, last_n, own_range):
    params = SamplingParams(
        repetition_penalty=2.0, presence_penalty=1.0, penalty_scope=scope, penalty_last_n=last_n,
        repetition_penalty_range=own_range,
    )  # fmt: skip
    acting = _Settings.of(params)
    native = Native(
        prompt,
        repetition_reach=acting.repetition_reach,
        repetition_output_only=scope == "output",
        counting_reach=acting.reach,
        counting_output_only=scope != "all",
    )
    state = Penalties().new_state(params, np.array(prompt, np.int64))
    for part in [[], *parts]:
        native.accept(part)
        native.sync("repeated", "counted")
        Penalties().accept(state, part)
        for name, window in (("repeated", state.repeated), ("counted", state.counted)):
            counted = {token: count for token, (count, _) in native.window(name).items()}
            assert counted == dict(zip(window.ids.tolist(), window.counts.tolist(), strict=True))
            assert list(counted) == window.ids.tolist()
        start = len(prompt) if scope == "output" else 0
        if acting.repetition_reach:
            assert native.window("repeated") == newest(native.tokens, start, acting.repetition_reach)


def test_a_full_window_drops_its_oldest_token():
    native = Native([5, 6], repetition_reach=2)
    native.sync("repeated")
    native.accept([6])
    assert native.sync("repeated").window("repeated") == {6: (2, 2)}


def test_a_window_of_the_output_is_empty_after_the_prompt():
    native = Native([1] * 100, counting_output_only=True)
    assert native.sync("counted").window("counted") == {}
    native.accept([9])
    assert native.sync("counted").window("counted") == {9: (1, 100)}


# --- siblings ------------------------------------------------------------------------------------

ALL_TABLES = "repeated", "counted", "dry", "index"
reaches = st.fixed_dictionaries(
    {
        "repetition_reach": st.sampled_from([-1, 0, 3, 40]),
        "counting_reach": st.sampled_from([-1, 5]),
        "repetition_output_only": st.booleans(),
        "counting_output_only": st.booleans(),
    }
)


@settings(max_examples=example_count(200), derandomize=True, deadline=None)
@given(prompts, reaches, st.none() | reaches, st.lists(tokens, max_size=5), chunks, st.booleans())
def test_a_history_that_begins_as_another_is_that_of_its_own_tokens(
    prompt, params, others, output, parts, is_sibling
):
    """Also if the other has other parameters, another prompt, or an output of its own."""
    params = {"dry_allowed_length": 1, "no_repeat_ngram_size": 2, **params}
    other = Native(prompt if is_sibling else [*prompt, 3], **{**params, **(others or {})})
    other.accept(output)
    other.sync(*ALL_TABLES)
    copied, right = Native(prompt, **params), Native(prompt, **params)
    for native in (copied, right, other):
        native.set_breakers(NO_BREAKERS)
    copied.accept([9, 9])
    copied.sync(*ALL_TABLES)
    copied.rollback(2)
    for i, part in enumerate(parts):
        for native in (copied, right):
            native.accept(part)
        if i == 0:
            copied.begin_as(other)
        for native in (copied, right):
            native.sync(*ALL_TABLES)
        for read in (
            Native.dry,
            Native.ngram,
            lambda n: n.window("repeated"),
            lambda n: n.window("counted"),
        ):
            assert read(copied) == read(right)
    other.accept([1])
    other.sync(*ALL_TABLES)


# --- dry -----------------------------------------------------------------------------------------

sequences = st.lists(st.lists(tokens, min_size=1, max_size=4).map(tuple), max_size=4)


@settings(max_examples=example_count(250), derandomize=True, deadline=None)
@given(prompts, chunks, sequences, st.sampled_from([1.0, 1.75, 1e30]), st.integers(0, 4),
       st.sampled_from([-1, 1, 2, 8, 30]))  # fmt: skip
def test_dry_lowers_the_tokens_that_the_sampler_lowers(prompt, parts, entries, base, allowed, last_n):
    breakers = _breakers(tuple(entries), None, VOCAB)
    native = Native(prompt, dry_base=base, dry_allowed_length=allowed, dry_penalty_last_n=last_n)
    if entries:
        native.set_breakers(breakers)
    for part in [[], *parts]:
        native.accept(part)
        result = native.sync("dry").dry()
        assert result == expected_dry(native.tokens, base, allowed, last_n, breakers)


def test_one_token_at_a_time_equals_from_scratch():
    random = np.random.default_rng(1)
    entries = ((7,), (0, 1, 0), (0, 1), (2, 2, 1, 0), (1, 0, 1, 0, 1))
    cases = ((2, -1, ()), (3, 37, entries), (3, -1, entries), (8, -1, ()), (2, 20, ((0, 0, 0),)))
    for size, last_n, used in cases:
        breakers = _breakers(used, None, VOCAB)
        params = {"dry_base": 1.2, "dry_allowed_length": 1, "dry_penalty_last_n": last_n}
        slow, text = Native(**params), random.integers(0, size, 400).tolist()
        text[200:260] = text[120:180]
        slow.set_breakers(breakers)
        for token in text:
            slow.accept([token])
            grown = slow.sync("dry").dry()
            fresh = Native(slow.tokens, **params)
            fresh.set_breakers(breakers)
            assert grown == fresh.sync("dry").dry()
            assert grown == expected_dry(slow.tokens, 1.2, 1, last_n, breakers)


def test_a_repeat_stops_at_the_windows_first_token():
    text = [1, 2, 3] * 4
    native = Native(dry_base=2.0, dry_allowed_length=1, dry_penalty_last_n=5)
    for token in text:
        native.accept([token])
        native.sync("dry")
    assert native.dry() == ([1], [2])


def test_no_repeat_extends_across_a_breaker():
    native = Native([0, 1, 2, 3, 0, 1, 2], dry_base=2.0, dry_allowed_length=1)
    assert native.sync("dry").dry() == ([3], [3])
    native.epoch += 1
    native.set_breakers(_breakers(((1,),), None, VOCAB))
    assert native.sync("dry").dry() == ([3], [1])


def test_a_longer_breaker_at_the_same_position_counts_once_it_is_complete():
    native = Native([4, 5, 6, 4], dry_base=2.0, dry_allowed_length=0)
    native.set_breakers(_breakers(((4,), (4, 5, 6)), None, VOCAB))
    for token in (5, 6, 5):
        native.accept([token])
        breakers = _breakers(((4,), (4, 5, 6)), None, VOCAB)
        assert native.sync("dry").dry() == expected_dry(native.tokens, 2.0, 0, -1, breakers)


def test_a_repeat_is_counted_no_further_than_its_penalty_grows():
    native = Native([0] * 400, dry_base=2.0, dry_allowed_length=2)
    assert native.sync("dry").dry() == ([0], [_longest_useful(2.0, 2)])
    native.set(dry_base=1.0 + 2**-52)
    assert native.dry() == ([0], [399])


def test_a_long_prompt_of_equal_tokens_is_read_in_linear_time():
    native = Native([0] * 20_000, dry_base=1.0001, dry_allowed_length=1)
    begun = time.thread_time()
    native.sync("dry", "repeated")
    assert native.dry() == ([0], [19_999])
    assert time.thread_time() - begun < 0.1


# --- n-grams and bad words -----------------------------------------------------------------------


@settings(max_examples=example_count(150), derandomize=True, deadline=None)
@given(prompts, chunks, st.integers(0, 6) | st.integers(30, 60))
def test_ngrams_are_completed_by_the_tokens_that_the_sampler_removes(prompt, parts, size):
    native = Native(prompt, no_repeat_ngram_size=size)
    for part in [[], *parts]:
        native.accept(part)
        history = np.array(native.tokens, np.int64)
        expected = np.unique(history[completions(history, size)]).tolist() if size else []
        assert native.sync("index").ngram() == expected


@pytest.mark.parametrize("size", [20, 34, 100])
def test_long_ngrams_are_completed_by_the_same_tokens_after_every_token(size):
    text = [1, 2, 2] * 40 + [1, 2, 3, 1, 2, 2] * 8 + [1] * 110 + [2]
    native = Native(text[:50], no_repeat_ngram_size=size)
    for token in text[50:]:
        native.accept([token])
        history = np.array(native.tokens, np.int64)
        grams = np.lib.stride_tricks.sliding_window_view(history, min(size - 1, len(history)))
        alike = (grams[:-1] == grams[-1]).all(axis=1)
        expected = np.unique(history[size - 1 :][alike[: max(0, len(history) - size + 1)]]).tolist()
        assert native.sync("index").ngram() == expected


def test_a_long_ngram_is_looked_up_in_a_table_that_each_token_enters_once():
    short, long = (Native([7] * 500, no_repeat_ngram_size=size) for size in (33, 400))
    assert short.sync("index").ngram() == long.sync("index").ngram() == [7]
    assert long.history.grams.end == 500
    long.accept([7])
    long.sync("index")
    assert [long.history.grams.run[i] for i in (0, 1, 499)] == [1, 2, 500]


@settings(max_examples=example_count(150), derandomize=True, deadline=None)
@given(st.lists(tokens, max_size=12), st.lists(st.lists(tokens, min_size=1, max_size=4), max_size=60))
def test_bad_words_are_finished_by_the_tokens_that_the_sampler_removes(prompt, words):
    words = [*words, [*prompt, 7], [8, *prompt, 9]]  # which begin with the whole history, and before it
    tables = BadWords().resolve(SamplingParams(bad_words=words), Vocabulary(VOCAB))
    row = np.zeros(VOCAB)
    for starts, last in tables:
        begin = len(prompt) - starts.shape[1]
        if begin >= 0:
            row[last[(starts == np.array(prompt, np.int64)[begin:]).all(axis=1)]] = 1
    native = Native(prompt)
    native.set_sequences("bad_words", words)
    assert native.sync().bad_words() == np.flatnonzero(row).tolist()


# --- notes ---------------------------------------------------------------------------------------

shares = st.floats(0, 1)
notes = st.none() | st.floats(0, 60)
noted = st.lists(st.lists(st.tuples(tokens, notes), max_size=5), max_size=12)


@settings(max_examples=example_count(150), derandomize=True, deadline=None)
@given(st.lists(tokens, max_size=3), noted, st.floats(0, 9), shares, shares, st.floats(0, 0.99))
def test_mu_and_the_average_follow_the_notes(prompt, parts, tau, eta, target, decay):
    native = Native(prompt, mirostat_tau=tau, mirostat_eta=eta, adaptive_target=target, adaptive_decay=decay)
    params = SamplingParams(mirostat_tau=tau, mirostat_eta=eta, adaptive_target=target, adaptive_decay=decay)
    mu, average = (selector.new_state(params, np.array(prompt)) for selector in (Mirostat(), AdaptiveP()))
    for part in [[], *parts]:
        ids, notes = [token for token, _ in part], [note for _, note in part]
        native.accept(ids, [np.nan if note is None else note for note in notes])
        native.sync("mu", "average")
        Mirostat().accept(mu, ids, notes)
        AdaptiveP().accept(average, ids, notes)
        assert native.lib.es_history_mu(native.history) == mu.now
        assert native.lib.es_history_average(native.history) == average.now


# --- all of them ---------------------------------------------------------------------------------


def everything(native):
    native.sync("repeated", "counted", "dry", "mu", "average", "index")
    lib = native.lib
    numbers = lib.es_history_mu(native.history), lib.es_history_average(native.history)
    return native.window("repeated"), native.window("counted"), native.dry(), native.ngram(), numbers


def settled(prompt):
    params = {
        "dry_base": 1.5, "dry_allowed_length": 1, "dry_penalty_last_n": 60, "repetition_reach": 20,
        "counting_output_only": True, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "adaptive_target": 0.3,
        "adaptive_decay": 0.9, "no_repeat_ngram_size": 3,
    }  # fmt: skip
    native = Native(prompt, **params)
    native.set_breakers(_breakers(((3,), (2, 2)), None, VOCAB))
    return native


@settings(max_examples=example_count(60), derandomize=True, deadline=None)
@given(prompts, st.lists(noted | st.integers(1, 30), max_size=8))
def test_a_new_epoch_starts_from_scratch(prompt, steps):
    native = settled(prompt)
    for step in steps:
        if isinstance(step, int):
            native.rollback(min(step, len(native.tokens) - len(prompt)))
        else:
            pairs = [pair for part in step for pair in part]
            native.accept([t for t, _ in pairs], [np.nan if note is None else note for _, note in pairs])
        fresh = settled(prompt)
        fresh.tokens, fresh.notes = native.tokens, native.notes
        assert everything(native) == everything(fresh)


def test_a_table_that_is_needed_late_is_built_from_all_tokens():
    native, whole = settled([1, 2, 3, 1]), settled([1, 2, 3, 1])
    for token in [2, 3, 1, 2] * 30:
        for each in (native, whole):
            each.accept([token], [1.25])
        native.sync("counted")
        expected = everything(whole)
    assert everything(native) == expected


def test_a_freed_history_can_be_reused():
    native = settled([1, 2, 1, 2, 1])
    before = everything(native)
    native.lib.es_history_free(native.history)
    assert everything(native) == before


@pytest.mark.parametrize("needs", [("dry",), ("repeated",), ("index",)])
def test_many_different_tokens_are_all_found(needs):
    text = np.random.default_rng(2).permutation(VOCAB).tolist()
    native = Native(no_repeat_ngram_size=1)
    for token in text:
        native.accept([token])
        native.sync(*needs)
    assert list(native.sync("repeated").window("repeated")) == sorted(text)
    assert native.sync("index").ngram() == sorted(text)
    assert expected_dry(text, 1.75, 2, -1, NO_BREAKERS) == ([], [])
