"""Vocabularies of bytes, pieces of text, and markers that are tokens."""

from __future__ import annotations

import re
from functools import lru_cache
from random import Random
from typing import TypeAlias

from engine_sampler import Tokenizer
from engine_sampler.grammar import TOOL_FAMILIES

EOS = 256
_PIECES = [
    b"get",
    b"_weather",
    b" the",
    b"\n\n",
    b'": "',
    b'", "',
    b'"}',
    b"</",
    b"para",
    b"meter",
    b"ool_c",
    b"all",
]
_PIECES += ["é".encode(), "東".encode(), "東京".encode()[1:], "🙂".encode()[:2], b"Paris", b"<", b"|>"]


def markers() -> list[str]:
    """What in the definitions of all families looks like the name of a token."""
    look = (
        r"｜DSML｜|<\|[^<>]*\|>|</?[a-z:_]+>|<[^<>= ]*\|>|<\|[^<>= ]*>|<｜(?!D)[^<>]*>"
        r"|\[/?[A-Z_]+\]|\]<\]minimax\[>\["
    )
    texts = [
        text
        for family in TOOL_FAMILIES.values()
        for text in (
            family.begin,
            family.end,
            *(family.section or ()),
            *(family.thinking or ()),
            *(family.content or ()),
            '<|"|>',
            "<|open|>",
        )
    ]
    texts += ["<|channel|>", "<|start|>", "<|message|>", "<|end|>", "<|constrain|>", "<|close|>", "<|sep|>"]
    return sorted({mark for text in texts for mark in re.findall(look, text)})


MARKERS = markers()


def vocabulary(special: bool) -> Tokenizer:
    """A vocabulary in which markers are special tokens, or added ones."""
    ordinary = [*(bytes([i]) for i in range(256)), b"<eos>", *_PIECES]
    ids = range(len(ordinary), len(ordinary) + len(MARKERS))
    names = [mark.encode() for mark in MARKERS]
    if special:
        return Tokenizer([*ordinary, *names], [EOS], ids)
    return Tokenizer([*ordinary, *names], [EOS], added_token_ids=ids)


SPECIAL, ADDED = vocabulary(True), vocabulary(False)
_FIND = re.compile("|".join(map(re.escape, sorted(MARKERS, key=len, reverse=True))))
_BY_FIRST: dict[int, list[tuple[int, bytes]]] = {}
for _number, _piece in enumerate(_PIECES):
    _BY_FIRST.setdefault(_piece[0], []).append((257 + _number, _piece))

_Choices: TypeAlias = list[tuple[int, int]]
"""Tokens that are more than one byte, each with its length."""


@lru_cache(maxsize=16)
def _spellings(text: str) -> tuple[bytes, list[tuple[int, _Choices, bool]]]:
    """A text as bytes; and each place where tokens longer than a byte may stand: where it is, which tokens
    these are, and whether one of them, a marker, must."""
    places: list[tuple[int, _Choices, bool]] = []
    data, at = b"", 0
    for match in [*_FIND.finditer(text), None]:
        begin = len(data)
        plain = text[at : match.start() if match else None].encode()
        for start, first in enumerate(plain):
            fitting = [one for one in _BY_FIRST.get(first, ()) if plain.startswith(one[1], start)]
            if fitting:
                places.append((begin + start, [(token, len(piece)) for token, piece in fitting], False))
        data += plain
        if match:
            mark, token = match.group(), 257 + len(_PIECES) + MARKERS.index(match.group())
            places.append((len(data), [(token, len(mark.encode()))], True))
            data += mark.encode()
            at = match.end()
    return data, places


def random_ids(text: str, random: Random) -> list[int]:
    """One of the ways to write a text in the tokens of these vocabularies; markers are tokens."""
    data, places = _spellings(text)
    ids: list[int] = []
    at = 0
    for start, choices, must in places:
        if start >= at and (must or random.random() < 0.7):
            ids += data[at:start]
            token, length = choices[0] if len(choices) == 1 else random.choice(choices)
            ids.append(token)
            at = start + length
    ids += data[at:]
    return ids


def random_cuts(text: str, random: Random) -> list[str]:
    """A text in pieces of any length."""
    pieces = []
    at = 0
    longest = random.choice([1, 3, 30, len(text) or 1])
    while at < len(text):
        length = random.randint(1, longest)
        pieces.append(text[at : at + length])
        at += length
    return pieces
