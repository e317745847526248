"""Streamed text: whatever the tokens, the deltas join to the text of all of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.text import TextStream
from engine_sampler.tokenizer import Tokenizer

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


def flushed(stream: TextStream, pieces: list[str]) -> str:
    return "".join(pieces) + stream.flush()


# --- deltas join to the text ----------------------------------------------------------------------


@given(ANY_TOKENS, st.booleans())
def test_any_tokens_join_to_their_decoded_text(tokens: list[int], skip: bool) -> None:
    stream = TextStream(TOKENIZER, skip)
    text = flushed(stream, [stream.push([token]) for token in tokens])
    assert text == TOKENIZER.decode(tokens, skip_special_tokens=skip) == stream.text


@settings(max_examples=300)
@given(st.binary(max_size=30), st.lists(st.integers(1, 4), min_size=30, max_size=30))
def test_any_bytes_cut_anywhere_join_to_their_text(data: bytes, widths: list[int]) -> None:
    pieces = []
    for width in widths:
        pieces.append(data[:width])
        data = data[width:]
    stream = TextStream(Tokenizer(pieces))
    text = flushed(stream, [stream.push([i]) for i in range(len(pieces))])
    assert text == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text(max_size=12), st.data())
def test_text_is_never_broken_at_a_character(text: str, data: st.DataObject) -> None:
    stream = TextStream(TOKENIZER)
    streamed = ""
    for byte in text.encode():
        streamed += stream.push([byte])
        assert text.startswith(streamed)
    assert streamed == text
    assert stream.flush() == ""


@given(ANY_TOKENS, ANY_TOKENS)
def test_tokens_may_be_pushed_together(first: list[int], second: list[int]) -> None:
    together, singly = TextStream(TOKENIZER), TextStream(TOKENIZER)
    assert together.push(first) + together.push(second) == "".join(singly.push([t]) for t in first + second)
    assert together.pieces == singly.pieces


# --- what is held back ----------------------------------------------------------------------------


def test_an_emoji_over_several_tokens_comes_out_whole() -> None:
    stream = TextStream(TOKENIZER)
    assert [stream.push([byte]) for byte in CAT] == ["", "", "", "🐈"]
    assert stream.push([257]) == ""
    assert stream.push([259]) == "🐈"
    assert stream.flush() == ""


def test_bytes_that_can_be_no_character_come_out_at_once() -> None:
    stream = TextStream(TOKENIZER)
    assert stream.push([0xFF]) == "�"
    assert stream.push([CAT[0], ord("a")]) == "�a"


def test_a_flush_gives_what_was_held_back() -> None:
    stream = TextStream(TOKENIZER)
    assert stream.push([ord("a"), CAT[0], CAT[1]]) == "a"
    assert stream.flush() == "�"
    assert stream.text == "a�"
    assert stream.flush() == ""


def test_an_empty_stream_has_nothing_to_flush() -> None:
    stream = TextStream(TOKENIZER)
    assert stream.flush() == stream.text == ""


# --- special tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(("skip", "text"), [(True, "ab"), (False, "a<tool>b")])
def test_special_tokens_have_text_only_if_asked_for_and_eos_never(skip: bool, text: str) -> None:
    stream = TextStream(TOKENIZER, skip)
    assert stream.push([ord("a"), SPECIAL, ord("b"), EOS]) == text


def test_a_skipped_token_does_not_part_a_character() -> None:
    stream = TextStream(TOKENIZER)
    assert stream.push([0xC3, SPECIAL, 0xA9]) == "é"


def test_ids_beyond_the_tokenizer_have_no_text() -> None:
    assert TextStream(TOKENIZER).push([ord("a"), EOS + 5, ord("b")]) == "ab"


# --- rollback and fork ----------------------------------------------------------------------------


@given(ANY_TOKENS, ANY_TOKENS, ANY_TOKENS, st.booleans())
def test_rollback_undoes_pushed_tokens(
    kept: list[int], undone: list[int], after: list[int], flush: bool
) -> None:
    stream = TextStream(TOKENIZER)
    stream.push(kept)
    before = stream.text
    stream.push(undone)
    if flush and undone:
        stream.flush()
    stream.rollback(len(undone))
    assert stream.text == before
    stream.push(after)
    stream.flush()
    assert stream.text == TOKENIZER.decode(kept + after)


@given(ANY_TOKENS, ANY_TOKENS, ANY_TOKENS)
def test_a_fork_goes_its_own_way(shared: list[int], mine: list[int], others: list[int]) -> None:
    parent = TextStream(TOKENIZER, skip_special_tokens=False)
    parent.push(shared)
    child = parent.fork()
    child.push(others)
    parent.push(mine)
    child.rollback(len(others) // 2)
    for stream, tokens in ((parent, shared + mine), (child, (shared + others)[: len(child.pieces)])):
        stream.flush()
        assert stream.text == TOKENIZER.decode(tokens, skip_special_tokens=False)
