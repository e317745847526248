"""Markers in histories, against a search in the whole text."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.contract import Vocabulary
from engine_sampler.requests.phases.markers import Markers, resolve_marker
from engine_sampler.requests.phases.symbols import SPECIAL, SymbolTable, is_unfinished

from .world import END, EOS, OTHER, START, TOKENIZER, VOCAB, ids

WORLD = Vocabulary(VOCAB, (EOS,), TOKENIZER)
TABLE = SymbolTable.of(TOKENIZER)
SPECIALS = (START, END, OTHER, EOS)


def markers_of(*phrases: str | tuple[int, ...], prefers_token: bool = False) -> Markers:
    found = [m for i, p in enumerate(phrases) for m in resolve_marker("thinking", i, p, WORLD, prefers_token)]
    return Markers(found, WORLD)


def text_of(tokens: list[int]) -> str:
    """The symbols of tokens, one after the other."""
    return "".join(
        chr(SPECIAL + t) if t in SPECIALS else TOKENIZER.token_bytes[t].decode("latin-1") for t in tokens
    )


@pytest.mark.parametrize("text", ["en", "d>\n", "e", "n<think>d", "</end>", "<other>>\n"])
def test_a_text_is_found_exactly_where_it_ends(text: str) -> None:
    markers, symbols = markers_of(text), TABLE.parse(text)
    matches = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        likely = [*ids(b"e", b"n", b"en", b"d>", b"d", b">", b">\n", b"\n", b"</"), START, OTHER]
        tokens = random.choice(likely, 14).tolist()
        begin = int(random.integers(4))
        for length in range(begin + 1, len(tokens) + 1):
            before, now = text_of(tokens[begin : length - 1]), text_of(tokens[begin:length])
            ends_now = now.find(symbols, max(0, len(before) - len(symbols) + 1)) >= 0
            match = markers.match(np.array(tokens[:length]), begin)
            assert (match is not None) == ends_now
            if match is not None:
                matches += 1
                assert text_of(tokens[match.start : length]).find(symbols) >= 0
                assert match.is_aligned == (text_of(tokens[match.start : length]) == symbols)
    assert matches > 2


def test_a_text_that_is_one_token_is_that_token_if_that_is_preferred() -> None:
    in_pieces, whole = np.array(ids(b"e", b"n")), np.array(ids(b"en"))
    for prefers_token, matches in ((False, 2), (True, 1)):
        markers = markers_of("en", prefers_token=prefers_token)
        assert sum(markers.match(tokens, 0) is not None for tokens in (in_pieces, whole)) == matches


def test_the_latest_marker_of_a_prompt_is_found() -> None:
    markers = markers_of("end>", (START,), tuple(ids(b"a", b"b")))
    for seed in range(200):
        random = np.random.default_rng(seed)
        tokens = random.choice([*ids(b"e", b"en", b"n", b"d>", b"a", b"b"), START], 12)
        ends = [n for n in range(1, 13) if markers.match(tokens[:n], 0) is not None]
        assert markers.latest(tokens) == (ends[-1] if ends else 0)


def test_the_beginning_of_a_marker_is_found_at_the_end() -> None:
    markers = markers_of("</end>", tuple(ids(b"1", b"2", b"1")))
    cases = {
        (b"a", b"</"): 2, (b"</", b"en"): 4, (b"</", b"e", b"n", b"d>"): 0, (b"1", b"2"): 2, (b"2", b"1"): 1,
        (b"<",): 1, (b"a",): 0,
    }  # fmt: skip
    for pieces, count in cases.items():
        found = markers.beginning(np.array(ids(*pieces)), 0)
        assert (0 if found is None else found[1]) == count, pieces


def test_special_tokens_are_no_text() -> None:
    assert TABLE.parse("a<think>b") == "a" + chr(SPECIAL + START) + "b"
    assert TABLE.encode("thinking", TABLE.parse("en<think>ab</think>")) == (
        *ids(b"en"),
        START,
        *ids(b"ab"),
        END,
    )
    assert TABLE.single("<think>") == (START,)
    assert TABLE.single("ab") == tuple(ids(b"ab"))


@pytest.mark.parametrize("text", ["é", "€", "😀", "a", "aé"])
def test_a_character_is_unfinished_until_its_last_byte(text: str) -> None:
    data = text.encode().decode("latin-1")
    last = len(text[-1].encode())
    for cut in range(1, len(data)):
        assert is_unfinished(data[:cut]) is (cut > len(data) - last)
    assert not is_unfinished(data)
    assert not is_unfinished("")
    assert not is_unfinished("\xc3" + chr(SPECIAL))
