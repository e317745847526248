"""The text that is read, as units: its bytes, and the special tokens between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ....tokenizer import Tokenizer
from ...errors import GrammarError


class Units(NamedTuple):
    """A text of tokens, or of bytes alone.

    units    each a byte, or -1 - the id of a special token
    offsets  [units + 1] how many bytes are before each unit, and in all
    tokens   [units + 1] the index of the token of each unit, and of the one behind all; None for bytes alone
    named    for each unit with which an ordinary token begins that the grammar names: the unit behind that
             token, and its id
    """

    units: list[int]
    offsets: list[int]
    tokens: list[int] | None
    named: dict[int, tuple[int, int]]

    def data(self) -> bytes:
        """The bytes."""
        return bytes(unit for unit in self.units if unit >= 0)


def units_of_bytes(data: bytes) -> Units:
    """The units of a text."""
    return Units(list(data), list(range(len(data) + 1)), None, {})


def units_of_tokens(
    token_ids: Sequence[int], begin: int, tokenizer: Tokenizer, named: Collection[int]
) -> Units:
    """The units of tokens from index `begin` on, up to the first EOS.

    named  the ids that the grammar names

    Raises GrammarError for an id that the tokenizer lacks.
    """
    for token_id in token_ids:
        if not 0 <= token_id < len(tokenizer):
            raise GrammarError(f"token_ids: {token_id} is not allowed: 0 to {len(tokenizer) - 1}")
    special, ends = tokenizer.special_token_ids, tokenizer.eos_token_ids
    texts = [b"" if token_id in special else tokenizer.token_bytes[token_id] for token_id in token_ids]
    units: list[int] = []
    offsets, tokens = [sum(map(len, texts[:begin]))], list[int]()
    jumps: dict[int, tuple[int, int]] = {}
    index = begin
    for index in range(begin, len(token_ids)):
        token_id, data = token_ids[index], texts[index]
        if token_id in ends:
            break
        if token_id in special:
            units.append(-1 - token_id)
            offsets.append(offsets[-1])
        else:
            if token_id in named and data:
                jumps[len(units)] = len(units) + len(data), token_id
            units += data
            offsets += range(offsets[-1] + 1, offsets[-1] + len(data) + 1)
        tokens += [index] * (len(units) - len(tokens))
    else:
        index = max(begin, len(token_ids))
    return Units(units, offsets, [*tokens, index], jumps)
