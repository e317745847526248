"""Sets of characters, and their bytes."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program import unicode
from engine_sampler.grammar.program.expression import CLASS, CONCAT, LITERAL, Expression

CODES = st.one_of(st.integers(0, 0x2FF), st.integers(0xD7F0, 0xE010), st.integers(0, unicode.LAST))
PAIRS = st.lists(st.tuples(CODES, CODES).map(lambda pair: (min(pair), max(pair))), max_size=6)


def reads(part: Expression, data: bytes) -> list[bytes]:
    """The possible rests of `data` after reading one character; the expression has no loops or operators."""
    if part[0] == LITERAL:
        return [data[len(part[1]) :]] if data.startswith(part[1]) else []
    if part[0] == CLASS:
        return [data[1:]] if data and part[1] >> data[0] & 1 else []
    if part[0] == CONCAT:
        left = [data]
        for piece in part[1]:
            left = [after for before in left for after in reads(piece, before)]
        return left
    return [after for piece in part[1] for after in reads(piece, data)]


def members(of: unicode.Ranges) -> set[int]:
    return {code for first, last in of for code in range(first, last + 1)}


@given(PAIRS, st.lists(CODES, max_size=20))
def test_a_character_reads_the_utf8_of_its_set_and_nothing_else(pairs, others):
    of = unicode.ranges(pairs)
    part = unicode.characters(of)
    for code in {*others, *(code for pair in of for code in pair)}:
        surrogate = 0xD800 <= code <= 0xDFFF
        data = chr(code).encode("utf-8", "surrogatepass")
        inside = any(first <= code <= last for first, last in of)
        assert reads(part, data + b"x") == ([b"x"] if inside and not surrogate else [])


@given(PAIRS)
def test_ranges_are_sorted_with_gaps_and_inverting_them_twice_gives_the_same(pairs):
    of = unicode.ranges(pairs)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(of))
    assert unicode.invert(unicode.invert(of)) == of
    assert not unicode.overlap(of, unicode.invert(of))


@given(PAIRS, PAIRS)
def test_sets_overlap_if_they_share_a_member(a, b):
    shared = any(x[0] <= y[1] and y[0] <= x[1] for x in a for y in b)
    assert unicode.overlap(unicode.ranges(a), unicode.ranges(b)) == shared


@pytest.mark.parametrize("data", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\x80"])
def test_no_character_is_read_from_bytes_that_are_not_utf8(data):
    assert reads(unicode.ANY_CHARACTER, data) == []


@pytest.mark.parametrize("letter", "wds")
@pytest.mark.parametrize("flags", [0, re.ASCII])
def test_classes_are_those_of_re(letter, flags):
    found = {"w": unicode.word, "d": unicode.digit, "s": unicode.space}[letter](bool(flags))
    pattern = re.compile("\\" + letter, flags)
    assert members(found) == {code for code in range(0x3000) if pattern.match(chr(code))} | (
        {code for code in members(found) if code >= 0x3000 and pattern.match(chr(code))}
    )


def test_white_space_of_ecmascript_holds_the_byte_order_mark_and_all_space_separators():
    spaces = members(unicode.ECMA_SPACE)
    assert spaces >= {0xFEFF, *members(unicode.category("Zs"))}
    assert 0x85 not in spaces
    assert 0x1C not in spaces


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("L", "L"),
        ("Letter", "L"),
        ("Lu", "Lu"),
        ("gc=Nd", "Nd"),
        ("General_Category=Letter", "L"),
        ("Sc", "Sc"),
    ],
)
def test_a_property_is_a_general_category_of_unicodedata(name, prefix):
    of = members(unicode.named_property(name))
    assert all((code in of) == unicodedata.category(chr(code)).startswith(prefix) for code in range(0x3000))


def test_cased_letters_any_ascii_and_assigned_are_properties():
    assert unicode.named_property("Any") == unicode.EVERY
    assert unicode.named_property("ASCII") == ((0, 127),)
    assert members(unicode.named_property("LC")) == members(
        unicode.ranges((*unicode.category("Lu"), *unicode.category("Ll"), *unicode.category("Lt")))
    )
    assert unicode.invert(unicode.named_property("Assigned")) == unicode.category("Cn")


@pytest.mark.parametrize("name", ["Greek", "Script=Latin", "", "Lx", "x" * 1000])
def test_a_script_is_refused(name):
    with pytest.raises(GrammarError, match="only general categories") as error:
        unicode.named_property(name)
    assert len(str(error.value)) < 200


def test_case_is_folded_as_re_folds_it():
    cased = [
        code for code in range(0x20000) if chr(code).lower() != chr(code) or chr(code).upper() != chr(code)
    ]
    text = "".join(map(chr, cased))
    for code in cased:
        partners = {ord(c) for c in re.findall(re.escape(chr(code)), text, re.IGNORECASE)}
        assert members(unicode.fold(((code, code),))) == partners | {code}


@given(PAIRS, st.lists(CODES, min_size=1, max_size=20))
def test_a_folded_set_holds_what_re_matches_with_it(pairs, others):
    pairs = [pair for pair in pairs if pair[1] - pair[0] < 500]
    if not pairs:
        return
    text = "[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in pairs) + "]"
    codes = {*others, *(ord(c) for a, b in pairs for c in chr(a).swapcase() + chr(b).swapcase())}
    for flags in (re.IGNORECASE, re.IGNORECASE | re.ASCII):
        of = members(unicode.fold(unicode.ranges(pairs), bool(flags & re.ASCII)))
        pattern = re.compile(text, flags)
        assert {code for code in codes if pattern.match(chr(code))} == codes & of


def test_an_automaton_over_characters_reads_their_bytes():
    pieces = ((0x61, 0x7A, 1), (0xE0, 0xFF, 0), (0x4E00, 0x10FFFF, 1))
    states = unicode.byte_automaton([(False, pieces), (True, ())])
    for text, accepted in {
        "a": True,
        "é": False,
        "éa": True,
        "éé漢": True,
        "A": False,
        "\U00010000": True,
    }.items():
        state = 0
        for byte in text.encode():
            state = next((to for low, high, to in states[state][1] if low <= byte <= high), -1)
            if state < 0:
                break
        assert (state >= 0 and states[state][0]) == accepted


def test_an_automaton_that_grows_too_large_over_bytes_is_refused():
    word = unicode.word()
    with pytest.raises(GrammarLimitError, match="16384 states"):
        unicode.byte_automaton([(True, tuple((a, b, i) for a, b in word)) for i in range(100)])


@pytest.mark.parametrize(("name", "before"), [("XID_Start", ""), ("XID_Continue", "a")])
def test_identifiers_are_those_of_python(name: str, before: str) -> None:
    found = {code for low, high in unicode.named_property(name) for code in range(low, high + 1)}
    expected = {code for code in range(unicode.LAST + 1) if (before + chr(code)).isidentifier()}
    assert found == expected - (set() if before else {ord("_")})
