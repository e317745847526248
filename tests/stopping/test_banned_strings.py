"""Banned strings are found in any case of letters."""

from __future__ import annotations

import pytest

from engine_sampler.stopping.banned_strings import AnyCaseMatcher, lower


@pytest.mark.parametrize(
    ("ban", "text", "begin"),
    [
        ("ab", "xAbc", 1),
        ("É", "caféx", 3),
        ("é", "CAFÉ", 3),
        ("Straße", "die STRAßE", 4),
        ("ЖДИ", "не жди", 5),
        ("k", "\u212a", None),  # the Kelvin sign, whose lower case is shorter
        ("i", "İ", None),
        ("ab", "a b", None),
    ],
)
def test_letters_are_equal_to_their_lower_case_of_the_same_length(
    ban: str, text: str, begin: int | None
) -> None:
    data = text.encode()
    matcher = AnyCaseMatcher([ban])
    for cut in range(len(data) + 1):
        state, first = matcher.advance(matcher.start, data[:cut])
        _, second = matcher.advance(state, data[cut:])
        found = first.text_end if first else cut + second.text_end if second else None
        assert found == begin


def test_bytes_that_are_no_character_stay_and_divide() -> None:
    assert lower(b"A\xc3B\xffC\xe2\x82") == b"a\xc3b\xffc\xe2\x82"
    matcher = AnyCaseMatcher(["ab"])
    state, match = matcher.advance(matcher.start, b"A\xc3")
    assert (match, matcher.held(state)) == (None, 2)
    assert matcher.advance(state, b"B")[1] is None
