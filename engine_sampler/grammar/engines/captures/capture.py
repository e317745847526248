"""What a rule of a grammar has matched in a text."""

from __future__ import annotations

from typing import NamedTuple


class Capture(NamedTuple):
    """What a rule has matched.

    data    its bytes; special tokens are none of them
    start   how many bytes of the text are before it, special tokens left out
    end     `start` plus its length
    tokens  its first token, and the one behind its last one, as indices: tokens that it shares with what
            comes before or behind are among them. Where it is empty, twice the index of the token behind it,
            or around it. None where a text was given without tokens
    """

    data: bytes
    start: int
    end: int
    tokens: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """`data` as text; bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode(errors="replace")


Captures = dict[str, list[Capture]]
"""The captures of each name of a grammar, in the order in which they begin, longer ones first."""
