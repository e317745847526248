"""Characters as bytes: sets of code points, and expressions and automata that read them as UTF-8.

A set of code points is a tuple of ranges (first, last), sorted, disjoint, with gaps between them
(`Ranges`). The members of character classes come from Python's own tables (`re`, `str`, `unicodedata`);
they are computed on first use and cached. Every expression built here matches valid UTF-8 only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np

from ...base.giving_way import in_slices, unhurried
from ..errors import GrammarError, GrammarLimitError
from ..work import spend
from .expression import Expression, byte_class, concat, repeat, union

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
Pieces: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""Ranges with targets: (first, last, target), sorted and disjoint."""

LAST = 0x10FFFF
EVERY: Ranges = ((0, LAST),)
NEWLINE: Ranges = ((10, 10),)
ASCII_DIGITS: Ranges = ((0x30, 0x39),)
ASCII_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
ASCII_SPACE: Ranges = ((9, 13), (32, 32))
ECMA_SPACE: Ranges = ((9, 13), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A))
ECMA_SPACE += ((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF))
ECMA_LINE_END: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))


def ranges(pieces: Iterable[tuple[int, int]]) -> Ranges:
    """The set of all code points in `pieces`, which may overlap and be in any order."""
    merged: list[tuple[int, int]] = []
    in_order = sorted(pieces)
    spend(len(in_order) // 8)
    for first, last in in_order:
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = merged[-1][0], last
        else:
            merged.append((first, last))
    return tuple(merged)


def invert(of: Ranges) -> Ranges:
    """All code points that are not in the set."""
    spend(len(of) // 8)
    gaps = []
    begin = 0
    for first, last in of:
        if first > begin:
            gaps.append((begin, first - 1))
        begin = last + 1
    if begin <= LAST:
        gaps.append((begin, LAST))
    return tuple(gaps)


def overlap(a: Ranges, b: Ranges) -> bool:
    """Whether the sets have a code point in common."""
    spend((len(a) + len(b)) // 8)
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


# Classes of characters.


_END_OF_TEXT = 0x40000
"""No character from here on is a letter, a digit or white space."""

_BEYOND: tuple[tuple[int, str | None], ...] = (
    (0x40000, "Cn"),
    (0xE0000, None),
    (0xE1000, "Cn"),
    (0xF0000, "Co"),
    (0xFFFFE, "Cn"),
    (0x100000, "Co"),
    (0x10FFFE, "Cn"),
    (LAST + 1, None),
)
"""Where the categories of the planes after that begin; None: each character has its own."""


@lru_cache(maxsize=1)
def _text_characters() -> str:
    return np.arange(_END_OF_TEXT, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=8)
def _matched(pattern: str) -> Ranges:
    found = re.finditer(pattern, _text_characters())  # which may search long for each
    return tuple((m.start(), m.end() - 1) for m in unhurried(found, at_a_time=1))


def word(ascii_only: bool = False) -> Ranges:
    r"""The characters that `\w` matches in Python's `re`."""
    return ASCII_WORD if ascii_only else _matched(r"\w+")


def digit(ascii_only: bool = False) -> Ranges:
    r"""The characters that `\d` matches in Python's `re`."""
    return ASCII_DIGITS if ascii_only else _matched(r"\d+")


def space(ascii_only: bool = False) -> Ranges:
    r"""The characters that `\s` matches in Python's `re`."""
    return ASCII_SPACE if ascii_only else _whitespace()


@lru_cache(maxsize=1)
def _whitespace() -> Ranges:
    r"""What `str.split` splits at, which is what `\s` matches; a search takes twice the time."""
    runs = [(ord(run[0]), ord(run[-1])) for run in _text_characters().split()]
    return invert((*runs, (_END_OF_TEXT, LAST)))


_CATEGORIES = dict(
    pair.split(":")
    for pair in (
        "letter:L cased_letter:LC uppercase_letter:Lu lowercase_letter:Ll titlecase_letter:Lt "
        "modifier_letter:Lm other_letter:Lo mark:M combining_mark:M nonspacing_mark:Mn "
        "spacing_mark:Mc enclosing_mark:Me number:N decimal_number:Nd digit:Nd letter_number:Nl "
        "other_number:No punctuation:P punct:P connector_punctuation:Pc dash_punctuation:Pd "
        "open_punctuation:Ps close_punctuation:Pe initial_punctuation:Pi final_punctuation:Pf "
        "other_punctuation:Po symbol:S math_symbol:Sm currency_symbol:Sc modifier_symbol:Sk "
        "other_symbol:So separator:Z space_separator:Zs line_separator:Zl paragraph_separator:Zp "
        "other:C control:Cc cntrl:Cc format:Cf surrogate:Cs private_use:Co unassigned:Cn"
    ).split()
)
_CATEGORIES.update({short.lower(): short for short in list(_CATEGORIES.values())})


@lru_cache(maxsize=1)
def _by_category() -> dict[str, list[tuple[int, int]]]:
    ranges_of: dict[str, list[tuple[int, int]]] = {}

    def read(begin: int, characters: Iterable[str]) -> None:
        for name, group in groupby(map(unicodedata.category, characters)):
            end = begin + sum(map(len, in_slices(group)))
            ranges_of.setdefault(name, []).append((begin, end - 1))
            begin = end

    read(0, _text_characters())
    for (first, category_of_all), (end, _) in pairwise(_BEYOND):
        if category_of_all is None:
            read(first, map(chr, range(first, end)))
        else:
            ranges_of.setdefault(category_of_all, []).append((first, end - 1))
    return ranges_of


@lru_cache(maxsize=64)
def category(short: str) -> Ranges:
    """The code points of a general category: "Lu", "L" (all that begin with L), "LC" (cased letters)."""
    prefixes = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    return ranges(piece for name, of in _by_category().items() if name.startswith(prefixes) for piece in of)


def named_property(name: str) -> Ranges:
    r"""The characters that `\p{name}` matches: a general category, short or long, or ASCII, Any, Assigned.

    Raises GrammarError for a script or any other property: the standard library has no table of them.
    """
    key, _, value = name.partition("=")
    property_name = value if key in ("gc", "General_Category") and value else name
    normalised = property_name.strip().replace(" ", "_").replace("-", "_").lower()
    if normalised in _CATEGORIES:
        return category(_CATEGORIES[normalised])
    if normalised == "any":
        return EVERY
    if normalised == "ascii":
        return ((0, 0x7F),)
    if normalised == "assigned":
        return invert(category("Cn"))
    if normalised in ("xid_start", "xid_continue", "xids", "xidc"):
        return _identifier(normalised in ("xid_start", "xids"))
    raise GrammarError(
        rf"\p{{{name[:40]}}} is not supported: only general categories (such as L, Lu, Nd) and ASCII, Any, "
        "Assigned, XID_Start, XID_Continue are, no scripts"
    )


@lru_cache(maxsize=2)
def _identifier(start: bool) -> Ranges:
    """The characters that may begin, or continue, an identifier; Python's may begin with `_` as well."""
    before, others = ("", "_") if start else ("a", "")
    codes = (*range(0x40000), *range(0xE0000, 0xE1000))  # the planes that have any
    return ranges(
        (code, code) for code in codes if chr(code) not in others and (before + chr(code)).isidentifier()
    )


# Case.


@lru_cache(maxsize=1)
def _case_orbits() -> dict[int, tuple[int, ...]]:
    """For each code point that has another case: all code points that differ from it in case only."""
    text = "\n".join(_text_characters()[:0x20000].replace("\n", ""))  # one per line: no context for sigma
    partners: dict[str, set[str]] = {}
    folded = zip(text.split("\n"), text.lower().split("\n"), text.upper().split("\n"), strict=True)
    for c, low, up in folded:
        if c == low == up:
            continue
        group = {c, low[0] if c == "\u0130" else low, up}  # re's lower case of U+0130 is a plain i
        for one in tuple(group):
            group |= partners.get(one, set())
        for one in group:
            partners[one] = group
    single = {c: tuple(ord(one) for one in group if len(one) == 1) for c, group in partners.items()}
    return {ord(c): group for c, group in single.items() if len(c) == 1 and len(group) > 1}


_ASCII_PARTNERS = ((0x49, (0x130, 0x131)), (0x4B, (0x212A,)), (0x53, (0x17F,)))
"""Code points beyond ASCII that differ from I, K and S in case only."""


def fold(of: Ranges, ascii_only: bool = False) -> Ranges:
    """The set and all code points that differ from a member in case only, as `re.IGNORECASE` defines it."""
    folded = list(of)
    for first, last, shift in (0x41, 0x5A, 32), (0x61, 0x7A, -32):
        for a, b in of:
            if a <= last and b >= first:
                folded.append((max(a, first) + shift, min(b, last) + shift))
    if ascii_only:
        return ranges(folded)
    if not of or of[-1][1] < 0x80:  # the table is not needed
        for capital, others in _ASCII_PARTNERS:
            if any(a <= capital <= b for a, b in folded):
                folded += ((c, c) for c in others)
        return ranges(folded)
    orbits = _case_orbits()
    for first, last in of:
        if last - first < len(orbits):
            inside: Iterable[int] = (c for c in range(first, last + 1) if c in orbits)
        else:
            inside = (c for c in orbits if first <= c <= last)
        folded += [(other, other) for c in inside for other in orbits[c]]
    return ranges(folded)


# UTF-8.

_LENGTHS = (
    (0, 0x7F, 0, 0),
    (0x80, 0x7FF, 6, 0xC0),
    (0x800, 0xD7FF, 12, 0xE0),
    (0xE000, 0xFFFF, 12, 0xE0),
    (0x10000, LAST, 18, 0xF0),
)
"""For each encoded length: first and last code point, bits after the first byte, marker in that byte."""


def _clipped(pieces: Pieces, first: int, last: int) -> Pieces:
    return tuple((max(a, first), min(b, last), to) for a, b, to in pieces if a <= last and b >= first)


def _children(pieces: Pieces, bits: int) -> dict[Pieces, int]:
    """Pieces over the last `bits` bits, each with a mask of the values of the preceding bits they follow."""
    spend(15 + len(pieces))
    top = (1 << bits) - 1
    children: dict[Pieces, int] = {}
    partial: dict[int, list[tuple[int, int, int]]] = {}
    for first, last, to in pieces:
        low, high = first >> bits, last >> bits
        begin, end = first & top, last & top
        if begin or (low == high and end != top):
            partial.setdefault(low, []).append((begin, end if low == high else top, to))
            low += 1
        if low <= high and end != top:
            partial.setdefault(high, []).append((0, end, to))
            high -= 1
        if low <= high:
            key = ((0, top, to),)
            children[key] = children.get(key, 0) | (1 << high + 1) - (1 << low)
    for leading, rest in partial.items():
        children[tuple(rest)] = children.get(tuple(rest), 0) | 1 << leading
    return children


def _first_bytes(pieces: Pieces) -> list[tuple[Pieces, int, int]]:
    """The continuations of first bytes: (rest, bits of the rest, mask of first bytes)."""
    found: dict[tuple[Pieces, int], int] = {}
    for first, last, bits, mark in _LENGTHS:
        for rest, mask in _children(_clipped(pieces, first, last), bits).items():
            found[rest, bits] = found.get((rest, bits), 0) | mask << mark
    return [(*key, mask) for key, mask in found.items()]


def _tail(pieces: Pieces, bits: int, tails: dict[tuple[Pieces, int], Expression]) -> Expression:
    if bits == 0:
        return concat()
    key = pieces, bits
    if key not in tails:
        tails[key] = union(
            *(
                concat(byte_class(mask << 0x80), _tail(rest, bits - 6, tails))
                for rest, mask in _children(pieces, bits - 6).items()
            )
        )
    return tails[key]


@lru_cache(maxsize=1024)
def characters(of: Ranges) -> Expression:
    """One character of the set in UTF-8; surrogates, which have no UTF-8, are left out."""
    tails: dict[tuple[Pieces, int], Expression] = {}
    firsts = _first_bytes(tuple((first, last, 0) for first, last in of))
    return union(*(concat(byte_class(mask), _tail(rest, bits, tails)) for rest, bits, mask in firsts))


ANY_CHARACTER: Expression = characters(EVERY)
TEXT: Expression = repeat(ANY_CHARACTER)
"""Any valid UTF-8."""

ByteState: TypeAlias = "tuple[bool, tuple[tuple[int, int, int], ...]]"


MAX_BYTE_STATES = 16384
"""The maximum number of states of an automaton over bytes."""


@lru_cache(maxsize=4096)
def either_case(character: str) -> Expression:
    """A character, and those that differ from it in case only."""
    return characters(fold(((ord(character), ord(character)),)))


def byte_automaton(states: Collection[tuple[bool, Pieces]]) -> tuple[ByteState, ...]:
    """A deterministic automaton over characters, as one over bytes.

    states  for each state whether it accepts, and its transitions over characters: (first, last, target)
    Returns the states in the form that `expression.automaton` takes; the given ones come first. Raises
    GrammarLimitError.
    """
    byte_states: list[ByteState] = [(False, ())] * len(states)
    inner: dict[tuple[Pieces, int], int] = {}

    def target(pieces: Pieces, bits: int) -> int:
        if bits == 0:
            return pieces[0][2]
        key = pieces, bits
        if key not in inner:
            inner[key] = len(byte_states)
            if len(byte_states) >= MAX_BYTE_STATES:
                raise GrammarLimitError(f"a pattern needs an automaton of over {MAX_BYTE_STATES} states")
            byte_states.append((False, ()))
            children = _children(pieces, bits - 6).items()
            edges = _edges((mask << 0x80, target(tail, bits - 6)) for tail, mask in children)
            byte_states[inner[key]] = False, edges
        return inner[key]

    for number, (accepts, pieces) in enumerate(states):
        spend(5 * len(pieces))
        edges = _edges((mask, target(rest, bits)) for rest, bits, mask in _first_bytes(pieces))
        byte_states[number] = accepts, edges
    return tuple(byte_states)


def _edges(transitions: Iterable[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Transitions (mask of bytes, target) as ranges of bytes, sorted."""
    edges = []
    for mask, to in transitions:
        while mask:
            low = (mask & -mask).bit_length() - 1
            run = (~(mask >> low) & -~(mask >> low)).bit_length() - 1
            edges.append((low, low + run - 1, to))
            mask &= -1 << (low + run)
    return tuple(sorted(edges))
