"""The work of masks within arrays whose items must differ: a few steps for each, whatever the items are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import Work, allocate_bitmask
from engine_sampler.grammar import Grammar

from .item_arrays import PIECES, STRINGS, items

MORE = [b'",', b'": "', b"{\n", b'"},', b"},", b"\\u00", b"e9", b"User ", b"name", b"age", b"    ", b" "]
TOKENS = [
    *(bytes((byte,)) for byte in range(256) if byte != 0xFF),
    *dict.fromkeys((*PIECES, *MORE)),
    b"<end>",
]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
CLOSED = {**PERSON, "additionalProperties": False}
NAMES = [f"d\u00e9lta {n}" for n in range(60)]
PEOPLE = [{"name": f"User {n}", "age": 20 + n} for n in range(20)]

TEXTS: dict[str, tuple[Any, str]] = {
    "strings": (STRINGS, json.dumps(NAMES, ensure_ascii=False)),
    "escapes": (STRINGS, json.dumps(NAMES)),
    "short strings": (items({"type": "string", "maxLength": 20}), json.dumps(NAMES)),
    "anything": (items({}), json.dumps(NAMES)),
    "numbers": (items({"type": "integer"}), json.dumps(list(range(0, 400, 3)))),
    "objects": (items(CLOSED), json.dumps(PEOPLE, indent=2)),
    "open objects": (items(PERSON), json.dumps(PEOPLE, indent=2)),
    "constants": (items({"enum": [f"v{n}" for n in range(200)]}), json.dumps([f"v{n}" for n in range(200)])),
}

MOST, ON_AVERAGE = 50_000, 10_000
"""The steps of a mask: 50 to a microsecond."""

LAST_CONSTANTS = 1_000_000, 50_000
"""The same where it is searched for the last few constants that an array does not have."""


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("name", TEXTS)
def test_no_mask_takes_long(name: str) -> None:
    schema, text = TEXTS[name]
    matcher = Grammar.from_json_schema(schema).compile(TOKENIZER).matcher()
    if not matcher.bounded:
        pytest.skip("only the engine in C counts its work")
    bitmask, data, steps = allocate_bitmask(1, len(TOKENS)), text.encode(), []
    longest = max(map(len, TOKENS))
    ids = {token: token_id for token_id, token in enumerate(TOKENS[:-1])}
    at = 0
    while at < len(data):
        work = Work(10**12, 10**12)
        matcher.matcher.fill_bitmask(bitmask, work=work)
        engine, work = 10**12 - work.left, Work(10**12, 10**12)
        matcher.fill_bitmask(bitmask, work=work)
        steps.append(10**12 - work.left - engine)
        token = next(data[at : at + n] for n in range(longest, 0, -1) if data[at : at + n] in ids)
        assert bitmask[0, ids[token] >> 5] >> (ids[token] & 31) & 1, data[:at]
        assert matcher.accept(ids[token])
        at += len(token)
    assert matcher.is_accepting()
    most, on_average = LAST_CONSTANTS if name == "constants" else (MOST, ON_AVERAGE)
    assert max(steps) < most
    assert sum(steps) / len(steps) < on_average
