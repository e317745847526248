"""Reads arguments whole and in pieces."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from engine_sampler.messages.alphabet import MarkerAlphabet
from engine_sampler.messages.arguments import reader_maker
from engine_sampler.messages.schemas import view_of

M3 = "]<]minimax[>["
END = {"pythonic": ")", "gemma": "", **dict.fromkeys(("minimax_m3_xml",), f"{M3}</invoke>")}
"""What follows arguments."""


def arguments_of(style: str, text: str, schema: Any = True) -> Any:
    """The value of arguments, which must be the same however the text is cut. Raises DeviationError."""
    whole = _json(style, [text + END.get(style, "</function>")], schema)
    random = Random(text)
    for _ in range(3):
        assert _json(style, _pieces(text + END.get(style, "</function>"), random), schema) == whole
    return json.loads(whole)


def properties(**schemas: Any) -> dict[str, Any]:
    """The schema of an object with these members."""
    return {"type": "object", "properties": schemas}


def _pieces(text: str, random: Random) -> list[str]:
    most, pieces = random.choice((1, 1, 5)), []
    while text:
        size = random.randint(1, most)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _json(style: str, pieces: list[str], schema: Any) -> str:
    reader = reader_maker(style, MarkerAlphabet())(view_of(schema))
    out: list[str] = []
    rest = ""
    for piece in pieces:
        rest += piece
        if not reader.is_done:
            copy = reader.copy()
            assert copy.key() == reader.key()
            rest = rest[reader.read(rest, 0, out) :]
    assert reader.is_done, (rest, out)
    return "".join(out)
