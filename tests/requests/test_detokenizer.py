"""Streamed text: whatever the tokens, the deltas join to their text."""

from __future__ import annotations

import codecs
import contextlib
import re
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine_sampler.contract import TextMatcher
from engine_sampler.grammar.plugin.patterns import PatternMatcher
from engine_sampler.requests import detokenizer
from engine_sampler.requests.detokenizer import Detokenizer
from engine_sampler.stopping._strings import StringMatcher
from engine_sampler.tokenizer import Tokenizer

from ..conftest import example_count

CAT = "🐈".encode()
FAMILY = "👨‍👩‍👧".encode()


def bytes_tokenizer() -> Tokenizer:
    """Every byte, pieces of emoji, a special token and EOS."""
    pieces = [bytes([b]) for b in range(256)]
    pieces += [
        CAT,
        CAT[:1],
        CAT[:3],
        CAT[1:],
        FAMILY[:6],
        FAMILY[6:],
        b"\xff\xc3",
        "é".encode() + b"\xe2",
        b"",
    ]
    return Tokenizer([*pieces, b"<tool>", b"</s>"], [len(pieces) + 1], [len(pieces)])


TOKENIZER = bytes_tokenizer()
SPECIAL, EOS = len(TOKENIZER) - 2, len(TOKENIZER) - 1
ANY_TOKENS = st.lists(st.integers(0, EOS), max_size=40)


def push(stream: Detokenizer, tokens: Iterable[int]) -> str:
    """The text that becomes certain with `tokens`."""
    before = len(stream.text)
    for token in tokens:
        stream.push(token)
    return stream.text[before:]


def closed(stream: Detokenizer) -> str:
    stream.close()
    return stream.text


# --- deltas join to the text ----------------------------------------------------------------------


@given(ANY_TOKENS, st.booleans())
def test_any_tokens_join_to_their_decoded_text(tokens: list[int], skip: bool) -> None:
    stream = Detokenizer(TOKENIZER, skip)
    push(stream, tokens)
    assert closed(stream) == TOKENIZER.decode(tokens, skip_special_tokens=skip)
    assert len(stream.deltas) == len(tokens) + 1


@settings(max_examples=example_count(300))
@given(st.binary(max_size=30), st.lists(st.integers(1, 4), min_size=30, max_size=30))
def test_any_bytes_cut_anywhere_join_to_their_text(data: bytes, widths: list[int]) -> None:
    pieces = []
    for width in widths:
        pieces.append(data[:width])
        data = data[width:]
    stream = Detokenizer(Tokenizer(pieces))
    push(stream, range(len(pieces)))
    assert closed(stream) == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text(max_size=6), st.integers(0, 24), st.integers(1, 3))
def test_a_character_that_the_prompt_ends_within_is_continued(text: str, at: int, width: int) -> None:
    data = text.encode()
    tokens = [data[i : i + width] for i in range(0, len(data), width)]
    prompt = min(at, len(tokens))
    before = b"".join(tokens[:prompt]).decode(errors="ignore")
    stream = Detokenizer(Tokenizer(tokens))
    stream.begin(range(prompt))
    for token_id in range(prompt, len(tokens)):
        stream.push(token_id)
    stream.close()
    assert before + stream.text == text


@example(b"\xc3" + "ß".encode(), 1, 1)
@given(
    st.lists(st.sampled_from("aéß中🐈".encode()), max_size=8).map(bytes), st.integers(0, 8), st.integers(1, 3)
)
def test_nothing_of_a_prompt_is_in_the_text_but_a_character_that_the_output_completes(
    data: bytes, at: int, width: int
) -> None:
    tokens = [data[i : i + width] for i in range(0, len(data), width)]
    prompt = min(at, len(tokens))
    before, after = b"".join(tokens[:prompt]), b"".join(tokens[prompt:])
    stream = Detokenizer(Tokenizer(tokens))
    stream.begin(range(prompt))
    for token_id in range(prompt, len(tokens)):
        stream.push(token_id)
    stream.close()
    begun = [before[-n:] for n in (1, 2, 3) if n <= len(before) and _first_character(before[-n:] + after) > n]
    assert stream.text == (b"".join(begun) + after).decode(errors="replace")


def _first_character(data: bytes) -> int:
    """How many bytes the character has that these begin with; 0 for none."""
    for size in range(1, 5):
        with contextlib.suppress(UnicodeDecodeError):
            return size if len(data[:size].decode()) == 1 else 0
    return 0


def test_a_special_token_ends_a_character_that_a_prompt_has_begun() -> None:
    parts = "中".encode()[:2], b"<answer>", "中".encode()[2:]
    stream = Detokenizer(Tokenizer(parts, special_token_ids=[1]))
    stream.begin([0, 1])
    stream.push(2)
    assert stream.text == "\ufffd"


@given(st.text(max_size=12))
def test_text_is_never_broken_at_a_character(text: str) -> None:
    stream = Detokenizer(TOKENIZER)
    for byte in text.encode():
        stream.push(byte)
        assert text.startswith(stream.text)
    assert stream.text == closed(stream) == text


# --- what is held back ----------------------------------------------------------------------------


def test_an_emoji_over_several_tokens_comes_out_whole() -> None:
    stream = Detokenizer(TOKENIZER)
    assert [push(stream, [byte]) for byte in CAT] == ["", "", "", "🐈"]
    assert push(stream, [257]) == ""
    assert push(stream, [259]) == "🐈"
    assert closed(stream) == "🐈🐈"


def test_bytes_that_cannot_be_a_character_come_out_at_once() -> None:
    stream = Detokenizer(TOKENIZER)
    assert push(stream, [0xFF]) == "�"
    assert push(stream, [CAT[0], ord("a")]) == "�a"


def test_the_end_releases_what_was_held_back() -> None:
    stream = Detokenizer(TOKENIZER)
    assert push(stream, [ord("a"), CAT[0], CAT[1]]) == "a"
    assert closed(stream) == "a�"


def test_an_empty_stream_has_no_text() -> None:
    assert closed(Detokenizer(TOKENIZER)) == ""


# --- stop strings ---------------------------------------------------------------------------------

STRINGS = st.lists(st.text("abé🐈", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)
LETTERS = [bytes([byte]) for byte in sorted({*"abé🐈".encode()})] + [
    b"ab",
    b"ba",
    "é".encode(),
    b"aab",
    b"\xff",
]


def first_end(data: bytes, strings: list[str]) -> tuple[int, str] | None:
    """(end, string) of the string that is complete first, the first listed of those that end there."""
    for end in range(len(data) + 1):
        for string in strings:
            if data[:end].endswith(string.encode()):
                return end, string
    return None


def longest_beginning(data: bytes, strings: list[str]) -> int:
    """The length of the longest end of `data` that begins a string."""
    beginnings = {string.encode()[:k] for string in strings for k in range(len(string.encode()))}
    return max(k for k in range(len(data) + 1) if data[len(data) - k :] in beginnings)


@settings(max_examples=example_count(400))
@given(STRINGS, st.lists(st.integers(0, len(LETTERS) - 1), max_size=25), st.booleans())
def test_a_stop_string_is_found_where_it_is_first_complete(
    strings: list[str], tokens: list[int], include: bool
) -> None:
    stream = Detokenizer(Tokenizer(LETTERS), True, [StringMatcher(strings, include)])
    data = b""
    for token in tokens:
        matches = stream.push(token)
        data += LETTERS[token]
        expected = first_end(data, strings)
        assert bool(matches) == (expected is not None)
        if expected is None:
            ready = data if include else data[: len(data) - longest_beginning(data, strings)]
            assert stream.text == codecs.utf_8_decode(ready, "replace", len(ready) < len(data))[0]
            continue
        end, string = expected
        [(number, verdict)] = matches
        assert (number, verdict.reason) == (0, string)
        stream.close(verdict.cut)
        text = data[:end] if include else data[: end - len(string.encode())]
        assert stream.text == text.decode("utf-8", "replace")
        return
    assert closed(stream) == data.decode("utf-8", "replace")


@settings(max_examples=example_count(300))
@given(
    st.lists(
        st.sampled_from(["ab", "a+b", "[ab]b", "(a|ba){2}", "é.", "b{2,3}a", "[^b]a"]),
        min_size=1,
        unique=True,
    ),
    st.lists(st.integers(0, len(LETTERS) - 2), max_size=20),
    st.booleans(),
)
def test_a_stop_pattern_is_found_where_any_match_is_first_complete(
    patterns: list[str], tokens: list[int], include: bool
) -> None:
    stream = Detokenizer(Tokenizer(LETTERS), True, [PatternMatcher(patterns, include)])
    data = b""
    for token in tokens:
        matches = stream.push(token)
        data += LETTERS[token]
        expected = first_pattern_end(data, patterns)
        assert bool(matches) == (expected is not None)
        if expected is None:
            assert data.decode("utf-8", "replace").startswith(stream.text.rstrip("�"))
            continue
        begin, end, pattern = expected
        assert matches[0][1].reason == pattern
        stream.close(matches[0][1].cut)
        assert stream.text == data[: end if include else begin].decode("utf-8", "replace")
        return
    assert closed(stream) == data.decode("utf-8", "replace")


def first_pattern_end(data: bytes, patterns: list[str]) -> tuple[int, int, str] | None:
    """(begin, end, pattern) of the first match that is complete: of the first pattern, the longest."""
    for end in range(len(data) + 1):
        for pattern in patterns:
            for begin in range(end):
                try:
                    text = data[begin:end].decode()
                except UnicodeDecodeError:
                    continue
                if re.fullmatch(pattern, text):
                    return begin, end, pattern
    return None


def test_only_a_possible_beginning_of_a_match_is_held_back() -> None:
    stream = Detokenizer(TOKENIZER, True, [PatternMatcher([r"\d+px", "x{3}y"])])
    assert [push(stream, token.encode()) for token in ("a1", "2p", "3", "pz", "xxxx", "z")] == [
        "a",
        "",
        "12p",
        "3pz",
        "x",
        "xxxz",
    ]


def test_the_earliest_of_several_matchers_comes_first() -> None:
    strings, patterns = StringMatcher(["cd"]), PatternMatcher(["b."])
    stream = Detokenizer(Tokenizer([b"abcd", b"acdb", b"bcd"]), True, [strings, patterns])
    assert [verdict.reason for _, verdict in stream.push(0)] == ["b.", "cd"]
    assert [verdict.reason for _, verdict in Detokenizer(Tokenizer([b"acdb"]), True, [strings]).push(0)] == [
        "cd"
    ]


def test_states_that_hold_back_much_are_not_cached() -> None:
    stream = Detokenizer(TOKENIZER, True, [PatternMatcher(["a[^b]*b"])])
    assert push(stream, [ord("a")] + [ord("x")] * 2000) == ""
    assert len(stream.held) == 2001
    assert not stream.state.transitions
    assert stream.push(ord("b"))


def bytes_stored(stream: Detokenizer) -> int:
    """The bytes of text that the states of a stream keep for it alone."""
    states = {id(state): state for state in (*stream._states, stream.state)}
    held = [len(s.held) for s in states.values() if isinstance(s, detokenizer.State)]
    return len(stream._log) + sum(n for n in held if n > detokenizer.MAX_REMEMBERED_BYTES)


def test_text_that_is_held_back_is_stored_once() -> None:
    stream = Detokenizer(TOKENIZER, True, [PatternMatcher([r"(.|\n)*~~"])])
    tracemalloc.start()
    try:
        assert push(stream, b"a line of text\n" * 1000) == ""
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bytes_stored(stream) == len(stream.held) == 15_000
    assert allocated < 15_000 * 1000  # for states, not for 15,000 prefixes of the text: 112 MB
    assert stream.push(ord("~")) == ()
    assert [verdict.cut for _, verdict in stream.push(ord("~"))] == [15_002]


def test_text_that_is_held_back_time_and_again_is_stored_a_few_times_at_most() -> None:
    stream = Detokenizer(TOKENIZER, True, [PatternMatcher(["a.{256,300}b"])])
    push(stream, (b"a" + b"x" * 310) * 20 + (b"a" + b"x" * 99) * 30)
    assert bytes_stored(stream) <= 3 * (311 * 20 + 100 * 30)


def test_beyond_the_bound_the_oldest_text_is_out_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detokenizer, "MAX_HELD_BYTES", 1000)
    text = "".join(f"«{n}» " for n in range(1000))
    stream = Detokenizer(TOKENIZER, True, [PatternMatcher([r"(.|\n)*~~"])])
    for end, byte in enumerate(text.encode(), 1):
        stream.push(byte)
        assert end - 1003 <= len(stream.text.encode()) <= max(0, end - 1000)
        assert text.startswith(stream.text)
    out = stream.text
    stream.push(ord("~"))
    [(_, verdict)] = stream.push(ord("~"))
    assert verdict.cut == len(text.encode()) + 2
    stream.close(verdict.cut)
    assert text.startswith(stream.text)
    assert len(out) <= len(stream.text) <= len(out) + 1


def test_broken_characters_at_the_bound_come_out_as_they_would_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detokenizer, "MAX_HELD_BYTES", 300)
    data = bytes(np.random.default_rng(0).choice([*b"a\x80\xbf\xf0\x9f\x90\x88\xe2"], 5000).tolist())
    stream = Detokenizer(TOKENIZER, True, [HoldsAll()])
    push(stream, data)
    assert len(stream.held) <= 303
    assert closed(stream) == data.decode("utf-8", "replace")


class HoldsAll(TextMatcher):
    """A matcher that may still cut off the whole text; its state is the length of the text."""

    start = 0

    def advance(self, state: int, data: bytes) -> tuple[int, None]:
        return state + len(data), None

    def held(self, state: int) -> int:
        return state


LONG = st.lists(
    st.one_of(st.integers(0, EOS), st.sampled_from([b"ab" * 90, b"~", b"a" * 200, CAT * 60, b"\n"])),
    max_size=12,
)


def long_stream(tokens: Iterable[int | bytes], stream: Detokenizer) -> None:
    for token in tokens:
        push(stream, [token] if isinstance(token, int) else token)


@settings(max_examples=example_count(80))
@given(LONG, LONG, LONG, LONG)
def test_rollback_and_forks_of_long_texts_are_exact(
    kept: list[int | bytes], undone: list[int | bytes], after: list[int | bytes], others: list[int | bytes]
) -> None:
    def new() -> Detokenizer:
        return Detokenizer(TOKENIZER, True, [PatternMatcher(["a[^~]*~", r"\n(.|\n)*🐈🐈\n"])])

    stream = new()
    long_stream(kept, stream)
    before, held, state, count = stream.text, stream.held, stream.state, len(stream.deltas)
    long_stream(undone, stream)
    child = stream.fork()
    for forked in (child, stream):
        forked.rollback(count)
        assert (forked.text, forked.held) == (before, held)
        assert forked.state.matcher_states == state.matcher_states
    long_stream(after, stream)
    long_stream(others, child)
    for forked, tokens in ((stream, kept + after), (child, kept + others)):
        plain = new()
        long_stream(tokens, plain)
        assert (forked.text, forked.held) == (plain.text, plain.held)
        assert closed(forked) == closed(plain)


def test_the_number_of_cached_transitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detokenizer, "MAX_TRANSITIONS", 10)
    stream = Detokenizer(Tokenizer(LETTERS), True, [StringMatcher(["abba"])])
    random = np.random.default_rng(0)
    tokens = random.integers(0, len(LETTERS), 200).tolist()
    data = b""
    for token in tokens:
        stream.push(token)
        data += LETTERS[token]
        assert len(stream.state.transitions) <= 10
    assert closed(stream) == data.decode("utf-8", "replace")


def test_a_cut_removes_only_text_that_is_not_out_yet() -> None:
    stream = Detokenizer(TOKENIZER, True, [StringMatcher(["aaaz"])])
    assert push(stream, b"xaaa") == "x"
    stream.close(2)
    assert stream.text == "xa"
    stream = Detokenizer(TOKENIZER)
    push(stream, b"xy")
    stream.close(9)
    assert stream.text == "x"


# --- special tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(("skip", "text"), [(True, "ab"), (False, "a<tool>b")])
def test_special_tokens_have_text_only_on_request_and_eos_never(skip: bool, text: str) -> None:
    stream = Detokenizer(TOKENIZER, skip)
    assert push(stream, [ord("a"), SPECIAL, ord("b"), EOS]) == text


def test_a_skipped_token_does_not_split_a_character() -> None:
    stream = Detokenizer(TOKENIZER)
    assert push(stream, [0xC3, SPECIAL, 0xA9]) == "é"


def test_a_skipped_token_does_not_split_a_stop_string() -> None:
    stream = Detokenizer(TOKENIZER, True, [StringMatcher(["ab"])])
    assert push(stream, [ord("a"), SPECIAL]) == ""
    assert stream.push(ord("b"))


def test_ids_beyond_the_tokenizer_have_no_text() -> None:
    assert push(Detokenizer(TOKENIZER), [ord("a"), EOS + 5, ord("b")]) == "ab"


# --- rollback and fork ----------------------------------------------------------------------------


@given(ANY_TOKENS, ANY_TOKENS, ANY_TOKENS)
def test_rollback_undoes_pushed_tokens(kept: list[int], undone: list[int], after: list[int]) -> None:
    stream = Detokenizer(TOKENIZER, True, [StringMatcher(["no such text", "aa"])])
    push(stream, kept)
    before, held, state = stream.text, stream.held, stream.state
    push(stream, undone)
    stream.rollback(len(kept))
    assert stream.text == before
    assert (stream.held, stream.state.matcher_states) == (held, state.matcher_states)
    push(stream, after)
    assert closed(stream) == TOKENIZER.decode(kept + after)


@given(ANY_TOKENS, ANY_TOKENS, ANY_TOKENS)
def test_a_fork_continues_independently(shared: list[int], mine: list[int], others: list[int]) -> None:
    parent = Detokenizer(TOKENIZER, skip_special_tokens=False)
    push(parent, shared)
    child = parent.fork()
    push(child, others)
    push(parent, mine)
    child.rollback(len(child.deltas) - len(others) // 2)
    for stream, tokens in ((parent, shared + mine), (child, (shared + others)[: len(child.deltas)])):
        assert closed(stream) == TOKENIZER.decode(tokens, skip_special_tokens=False)
