"""A language that is told byte by byte has exact masks, found in bounded time and kept in bounded memory."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import BytewiseLanguage, UnfinishedError, Work, bytewise
from engine_sampler.testing import GrammarContract

PIECES = [
    *(bytes([byte]) for byte in b"0123456789-"),
    b"12",
    b"-7",
    b"99-",
    b"1234",
    b"",
    b"\xff",
    b"\xff\xff1",
]
TOKENIZER = Tokenizer(
    [*PIECES, b"<end>", b"<stop>", b"<pad>"], [len(PIECES), len(PIECES) + 1], [len(PIECES) + 2]
)


class Sums(BytewiseLanguage):
    """Eight digits whose sum is a multiple of ten; other bytes do not count."""

    start: Any = (0, 0)

    def read(self, state: Any, byte: int) -> Any:
        digits, total = state
        if not ord("0") <= byte <= ord("9"):
            return state
        digits, total = digits + 1, (total + byte - ord("0")) % 10
        return None if digits > 8 or (digits == 8 and total) else (digits, total)

    def may_end(self, state: Any) -> bool:
        return bool(state[0] == 8)


class Codes(Sums):
    """The same, four and four."""

    def within(self, tokenizer: Tokenizer) -> Any:
        return Grammar.from_lark("start: /[0-9]{4}-[0-9]{4}/").compile(tokenizer)


class Anything(BytewiseLanguage):
    """All texts. It counts the bytes that it reads."""

    start = "any"

    def __init__(self) -> None:
        self.reads = 0

    def read(self, state: Any, byte: int) -> Any:
        self.reads += 1
        return state

    def may_end(self, state: Any) -> bool:
        return True


class TestSums(GrammarContract):
    grammar = Sums()
    tokenizer = TOKENIZER
    texts = ["12341234", "9999-1003"]
    other_texts = ["1234", "12341235", "123412340"]


class TestCodes(GrammarContract):
    grammar = Codes()
    tokenizer = TOKENIZER
    texts = ["1234-1234", "9999-1003"]
    other_texts = ["12341234", "1234-1235", "1234-"]


def mask_of(matcher: Any, tokenizer: Tokenizer, work: Work | None = None) -> np.ndarray:
    bitmask = np.full((1, (len(tokenizer) + 31) // 32), -1, np.int32)
    matcher.fill_bitmask(bitmask, work=work)
    return bitmask


WORDS = Tokenizer([*(b"%05d" % number for number in range(3000)), b"<end>"], [3000])


def test_a_mask_that_takes_long_is_found_in_parts_without_reading_anything_twice() -> None:
    language = Anything()
    at_once = mask_of(language.compile(WORDS).matcher(), WORDS)
    reads, language.reads = language.reads, 0
    matcher = Anything.compile(language, Tokenizer(WORDS.token_bytes, [3000])).matcher()
    calls = 0
    while True:
        calls += 1
        try:
            in_parts = mask_of(matcher, WORDS, Work(10_000, 10_000))
            break
        except UnfinishedError:
            assert calls < 1000
    assert calls > 5
    assert language.reads == reads
    np.testing.assert_array_equal(in_parts, at_once)


def test_common_beginnings_are_read_once_and_refused_ones_not_at_all() -> None:
    class Zeros(Anything):
        """Texts of zeros."""

        def read(self, state: Any, byte: int) -> Any:
            super().read(state, byte)
            return state if byte == ord("0") else None

    tree = {word[:n] for word in WORDS.token_bytes[:3000] for n in range(1, 6)}
    everything, zeros = Anything(), Zeros()
    for language in (everything, zeros):
        mask_of(language.compile(WORDS).matcher(), WORDS)
    assert everything.reads == len(tree)
    assert zeros.reads == sum(not word[:-1].strip(b"0") for word in tree)


def test_a_state_is_looked_at_once_for_all_requests_of_a_tokenizer() -> None:
    language = Anything()
    scheduler = Scheduler(len(WORDS), WORDS, backend="numpy")
    for seed in range(3):
        scheduler.add(SamplingParams(seed=seed), grammar=language)
    for _ in range(2):
        scheduler.step(np.zeros((3, len(WORDS)), np.float32))
    tokens = sum(len(scheduler.record(request_id).token_ids) for request_id in scheduler.request_ids)
    tree = {word[:n] for word in WORDS.token_bytes[:3000] for n in range(1, 6)}
    assert language.reads <= len(tree) + 5 * tokens


def test_few_masks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytewise, "MASK_BYTES", 0)
    compiled = Sums().compile(TOKENIZER)
    for digits in range(8):
        for total in range(10):
            compiled.mask((digits, total))
    assert len(compiled._masks) == bytewise.FEWEST_MASKS


def test_a_language_that_has_been_used_can_be_pickled() -> None:
    language = Sums()
    language.compile(TOKENIZER)
    copied = pickle.loads(pickle.dumps(language))
    assert copied.compile(TOKENIZER).matcher().accept_bytes(b"12341234")


def test_more_accepts_than_there_were_cannot_be_undone() -> None:
    matcher = Sums().compile(TOKENIZER).matcher()
    matcher.accept(3)
    with pytest.raises(ValueError, match="n=2 is not allowed: 1 accepts can be undone"):
        matcher.rollback(2)


def test_the_only_token_is_forced() -> None:
    matcher = Codes().compile(TOKENIZER).matcher()
    matcher.accept_bytes(b"1234")
    assert matcher.forced_tokens() == [PIECES.index(b"-")] or PIECES.index(b"-7") in mask_tokens(matcher)
    matcher.accept_bytes(b"-123")
    assert matcher.forced_tokens() == [PIECES.index(b"4")]


def mask_tokens(matcher: Any) -> set[int]:
    bits = np.unpackbits(mask_of(matcher, TOKENIZER).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())
