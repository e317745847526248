"""Conversions for parameters that hold token ids or texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence, Set
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import ParameterError, quoted
from ..base.giving_way import in_slices, unhurried

Phrase: TypeAlias = "str | tuple[int, ...]"
"""A text, or the ids of one token sequence."""

_DIGITS = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)

_IDS = "a list of token ids, integers of at least 0"
_PHRASES = "a list whose entries are texts, token ids or lists of token ids, none of them empty"


def token_id(value: Any) -> int:
    """`value` as a token id; raises TypeError if it is not one."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise TypeError("a token id, an integer of at least 0")


def id_of_digits(parameter: str, text: str) -> int:
    """The token id that a key of a JSON object spells: its digits, without a leading zero, so that every id
    has one spelling. Raises `ParameterError`, which names `parameter`, for other texts."""
    if _DIGITS.fullmatch(text):
        return int(text)
    raise ParameterError(f"{parameter} names {quoted(text)}, which is not a token id in decimal digits")


def token_ids(value: Any) -> tuple[int, ...]:
    """`value`, a collection of token ids, as a tuple; raises TypeError if it is not one."""
    if not _is_collection(value):
        raise TypeError(_IDS)
    ids: list[int] = []
    try:
        for some in in_slices(value):
            plain = set(map(type, some)) == {int} and min(some) >= 0
            ids += some if plain else map(token_id, some)
    except TypeError:
        raise TypeError(_IDS) from None
    return tuple(ids)


def unique_token_ids(value: Any) -> tuple[int, ...]:
    """`token_ids(value)` without duplicates."""
    return tuple(dict.fromkeys(token_ids(value)))


def phrases(value: Any) -> tuple[Phrase, ...]:
    """`value`, a collection of texts, ids and id lists, without duplicates; a single id becomes (id,)."""
    if not _is_collection(value):
        raise TypeError(_PHRASES)
    try:
        return tuple(dict.fromkeys(_phrase(entry) for entry in unhurried(value)))
    except TypeError:
        raise TypeError(_PHRASES) from None


def phrase_token_ids(entries: Iterable[Phrase]) -> Iterable[int]:
    """Every token id in the phrases that are given as ids."""
    return (token for entry in entries if not isinstance(entry, str) for token in entry)


def _phrase(value: Any) -> Phrase:
    if isinstance(value, str):
        value.encode()  # refuses lone surrogates, which have no UTF-8 encoding
        phrase: Phrase = value
    else:
        phrase = token_ids(value if _is_collection(value) else (value,))
    if not phrase:
        raise ValueError(_PHRASES)
    return phrase


def _is_collection(value: Any) -> bool:
    return isinstance(value, (Sequence, Set, np.ndarray)) and not isinstance(value, (str, bytes))


MAX_TEXT_BYTES = 32768
"""The limit on all texts of one parameter together: they come from clients."""


_TEXTS = f"a text or a list of texts, none of them empty, with at most {MAX_TEXT_BYTES} bytes in all"


def stop_texts(value: Any) -> tuple[str, ...]:
    """One text or several as a tuple without duplicates; raises TypeError or ValueError."""
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, Collection) or isinstance(entries, (bytes, dict)):
        raise TypeError(_TEXTS)
    size = 0
    for entry in unhurried(entries):
        if not isinstance(entry, str):
            raise TypeError(_TEXTS)
        if not entry:
            raise ValueError(_TEXTS)
        size += len(entry.encode())  # refuses lone surrogates as well
    if size > MAX_TEXT_BYTES:
        raise ValueError(_TEXTS)
    return tuple(dict.fromkeys(entries))
