"""A vocabulary of a large model's size: all bytes, words, numbers, and the punctuation of JSON."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from engine_sampler import Tokenizer

LARGE = 131_072
"""The number of tokens that large models have."""

_STARTS = ("", *"bcdfghklmnprstvwz", "st", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ou", "ea", "é")
_ENDS = ("", "n", "r", "s", "t", "l", "ng", "ck")
_SIGNS = ['{"', '":', '": "', '", "', '"},', '"}', "[{", "}]", "://", "==", "->", "();", "  ", "\n\n", "\r\n"]


@functools.cache
def tokenizer(size: int = LARGE) -> Tokenizer:
    """A tokenizer of `size` ≥ 512 tokens, the last of which is EOS."""
    pieces = [*(bytes((byte,)) for byte in range(256)), *(sign.encode() for sign in _SIGNS)]
    words = (piece for piece in _words() if len(piece) > 1)
    pieces += itertools.islice(words, size - len(pieces) - 1)
    return Tokenizer([*pieces, b"</s>"], [size - 1], [size - 1])


def _words() -> Iterator[bytes]:
    """Numbers and words of one or two syllables, each bare, after a space, and capitalised."""
    yield from (str(number).encode() for number in range(10, 1000))
    syllables = ["".join(parts) for parts in itertools.product(_STARTS, _VOWELS, _ENDS)]
    pairs = ("".join(pair) for pair in itertools.product(syllables, syllables))
    for word in dict.fromkeys(itertools.chain(syllables, pairs)):
        yield f" {word}".encode()
        yield word.encode()
        yield word.capitalize().encode()
