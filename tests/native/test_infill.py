import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.arithmetic import descending, distances, weights
from engine_sampler.samplers.infill import _kept, _Text
from engine_sampler.tokenizer import Tokenizer
from tests.conftest import example_count
from tests.native.building import load


class Native:
    """The native rule over one vocabulary; the scratch memory is reused from call to call."""

    def __init__(self, tokenizer, ends):
        self.ffi, self.lib = load("tables/infill.c", headers=("tables/infill.h",))
        texts = [tokenizer.text_bytes(t) for t in range(len(tokenizer))]
        self.bytes = np.frombuffer(b"".join(texts) + b"\0", np.uint8)
        self.text_ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        self.ends = np.array(ends, np.int64)
        self.params = self.ffi.new("es_params *")
        self.params.text = self.pointer("uint8_t *", self.bytes)
        self.params.text_ends = self.pointer("int64_t *", self.text_ends)
        self.params.text_end_token_ids.ids = self.pointer("int64_t *", self.ends)
        self.params.text_end_token_ids.n = len(self.ends)
        self.scratch = self.ffi.gc(self.ffi.new("es_infill_scratch *"), self.lib.es_infill_free)

    def pointer(self, kind, array):
        return self.ffi.cast(kind, self.ffi.from_buffer(array))

    def kept(self, ids, mass):
        ids = ids.astype(np.int32)
        keep = np.full(len(ids), 7, np.uint8)
        code = self.lib.es_infill_keep(
            self.params, len(ids), self.pointer("int32_t *", ids), self.pointer("int64_t *", mass),
            self.pointer("uint8_t *", keep), self.scratch,
        )  # fmt: skip
        assert code == 0
        return keep


def both(native, tokenizer, ends, ids, logits):
    """(native, NumPy) for the tokens `ids`, ascending, with their logits."""
    order = descending(logits[None])[0]
    ids, logits = ids[order], logits[order]
    expected = _kept(logits, ids, _Text(tokenizer, np.array(ends, np.int64)))
    return native.kept(ids, weights(distances(logits[None]))[0]), expected.astype(np.uint8)


pieces = st.text("ab", max_size=4) | st.sampled_from(["", "a\0", "\0", "abababab", "ababababa", "ababababb"])


@settings(max_examples=example_count(500), derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(pieces, st.integers(-12, 3), st.booleans()), min_size=1, max_size=24),
    st.sets(st.integers(0, 5), max_size=2),
    st.sampled_from([0.05, 0.5, 2.0]),
)
def test_keeps_what_the_sampler_keeps(entries, ends, width):
    ends = sorted(end for end in ends if end < len(entries))
    tokenizer = Tokenizer([piece.encode() for piece, _, _ in entries], special_token_ids=ends)
    logits = np.array([width * rank for _, rank, _ in entries], np.float32)
    ids = np.flatnonzero([alive or i == 0 for i, (_, _, alive) in enumerate(entries)])
    native = Native(tokenizer, ends)
    for _ in range(2):
        kept, expected = both(native, tokenizer, ends, ids, logits[ids])
        np.testing.assert_array_equal(kept, expected)


def test_keeps_what_the_sampler_keeps_in_wide_rows():
    random = np.random.default_rng(1)
    texts = [bytes(random.choice(list(b"abc"), random.integers(0, 12)).tolist()) for _ in range(3000)]
    tokenizer = Tokenizer(texts, special_token_ids=[3, 4])
    native = Native(tokenizer, [3, 4])
    results = set()
    for n in (1, 2, 40, 3000, 700):
        for spread in (0.01, 1.0, 4.0):
            for end in (-30, -9, 0):
                ids = np.sort(random.permutation(len(texts))[:n])
                logits = random.normal(0, spread, n).astype(np.float32)
                logits[np.isin(ids, [3, 4])] += np.float32(end)
                kept, expected = both(native, tokenizer, [3, 4], ids, logits)
                np.testing.assert_array_equal(kept, expected)
                results.add(int(expected.sum()))
    assert len(results) >= 4


def test_special_tokens_have_no_text_to_merge():
    tokenizer = Tokenizer([b"a", b"ab", b"</s>"], special_token_ids=[1, 2])
    kept, expected = both(Native(tokenizer, [2]), tokenizer, [2], np.arange(3), np.float32([1, 1, -20]))
    assert kept.tolist() == expected.tolist() == [1, 1, 1]


def test_a_token_without_weight_can_be_merged_and_is_not_kept():
    tokenizer = Tokenizer([b"a", b"ab", b"c", b"</s>"], special_token_ids=[3])
    logits = np.float32([-40, 1, -50, -60])
    kept, expected = both(Native(tokenizer, [3]), tokenizer, [3], np.arange(4), logits)
    assert kept.tolist() == expected.tolist() == [1, 0, 0, 1]


def test_a_whole_vocabulary_does_not_take_quadratic_time():
    n = 131_072
    shared = [b"x" * 30] * (n // 2)
    texts = [b"x" * 31, *shared, *(b"%d" % i for i in range(n - 1 - len(shared)))]
    tokenizer = Tokenizer(texts)
    native = Native(tokenizer, [n - 1])
    mass = np.full(n, 1 << 20, np.int64)
    mass[0], mass[-1] = 1 << 30, 0
    begun = time.thread_time()
    kept = native.kept(np.arange(n), mass)
    assert time.thread_time() - begun < 1
    assert np.flatnonzero(kept).tolist() == [0, n - 1]
