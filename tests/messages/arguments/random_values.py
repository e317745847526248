"""Random schemas of parameters, and random texts that a mask admits under them."""

from __future__ import annotations

from random import Random
from typing import Any

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.structural_tag.elements import NOTATIONS, Notation
from engine_sampler.grammar.structural_tag.parameters import STYLES, Style

BYTES = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])
NAMES = ("a", "b_1", "item")
TEXTS = (
    "C",
    "F",
    "5",
    "null",
    "None",
    "True",
    " x",
    "x\n",
    "\ny",
    '"',
    "'",
    "it's",
    "{",
    "[1",
    "a<b",
    "é",
    "",
)
_WORDS = [*TEXTS, *NAMES, *'\n:={}[]()<>,"/\\-|]', ", ", '"a"', "'a'", "false", "False", "true", "-1.5", "7"]
_SCALARS = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": ["string", "integer"]},
    {"type": ["integer", "null"]},
    {"type": "string", "pattern": "^[a-c ]{1,3}$"},
    {"type": "string", "maxLength": 3},
    {"type": ["string", "null"], "minLength": 2},
    {"type": ["string", "integer"], "minLength": 2},
    {"anyOf": [{"type": "string", "pattern": "^x"}, {"type": "number"}]},
    {"anyOf": [{"const": "5"}, {"type": "integer"}]},
    {"type": "number", "minimum": 2},
    {"enum": ["C", "F", None, 5, True]},
    {},
)


def random_schema(random: Random) -> dict[str, Any]:
    """A schema of parameters."""
    names = random.sample(NAMES, random.randrange(1, 4))
    schema = {"type": "object", "properties": {name: _schema(random, 2) for name in names}, "required": names}
    others = random.choice(({}, {"additionalProperties": False}, {"additionalProperties": _leaf(random)}))
    if random.random() < 0.25:  # of one more name, which the schema requires without describing it
        left = random.choice([name for name in (*NAMES, "c") if name not in names])
        others["patternProperties"] = {f"^{left[0]}": _leaf(random)}
        schema["required"] = [*names, left]
    return schema | others


def _leaf(random: Random) -> dict[str, Any]:
    if random.random() < 0.3:
        return {"type": "string", "enum": random.sample(TEXTS, random.randrange(1, 5))}
    return random.choice(_SCALARS)


def _schema(random: Random, depth: int) -> dict[str, Any]:
    kind = random.randrange(10)
    if not depth or kind < 7:
        return _leaf(random)
    if kind == 7:
        return {"type": "array", "items": _schema(random, depth - 1), "maxItems": 3}
    inside = {name: _schema(random, depth - 1) for name in random.sample(NAMES, 2)}
    return {
        "type": "object",
        "properties": inside,
        "required": list(inside),
        "additionalProperties": kind == 8,
    }


def marks_of(style: str) -> tuple[list[str], list[str]]:
    """The marks of a style, with names in their places, and what ends its values."""
    written: Any = STYLES.get(style) or NOTATIONS.get(style)
    if written is None:
        return [f"{name}=" for name in NAMES], []
    if isinstance(written, Style):
        types = sorted(set(written.types.values())) or [""]
        opening = [f"{written.before}{{name}}{written.after}{kind}{written.value}" for kind in types]
        parts, ends = [written.after, *types, written.value], [written.closing]
    else:
        opening, parts, ends = (
            [written.member, written.item],
            ["]<]minimax[>[", ">", written.quote],
            [written.member_end, written.item_end],
        )
    kinds = sorted(set(written.kinds.values())) if isinstance(written, Notation) else []
    whole = [_named(text, name, kind) for text in opening for name in NAMES for kind in kinds or [""]]
    return [*whole, *filter(None, parts)], [_named(end, name, "") for end in ends for name in NAMES if end]


def _named(mark: str, name: str, kind: str) -> str:
    return mark.replace("{name}", name).replace("{kind}", kind)


def admitted_text(style: str, schema: dict[str, Any], random: Random) -> str | None:
    """A text of arguments that a mask admits, so far as a random walk comes to an end."""
    form = {"type": "json_schema", "json_schema": schema, "style": style}
    matcher = Grammar.from_structural_tag({"type": "structural_tag", "format": form}).compile(BYTES).matcher()
    marks, ends = marks_of(style)
    halves = [mark[: len(mark) // 2] for mark in (*marks, *ends)]
    pieces = [piece.encode() for piece in {*_WORDS, *marks, *ends, *halves} if piece]
    late = [piece.encode() for piece in {*marks, *ends, *'{}[]"', "'", "5", "null", "true", '"a"'}]
    text = bytearray()
    for step in range(300):
        is_late = step > 20
        if matcher.is_accepting() and (is_late or random.random() < 0.3):
            return text.decode()
        some = late if is_late else random.sample(pieces, 12)
        chosen = [piece for piece in sorted(some) if matcher.validate(list(piece)) == len(piece)]
        if not chosen or (is_late and random.random() < 0.1):
            chosen = [bytes([one]) for one in matcher.next_bytes()]
        if not chosen:
            return None
        piece = random.choice(chosen)
        for byte in piece:
            assert matcher.accept(byte)
        text += piece
    return None
