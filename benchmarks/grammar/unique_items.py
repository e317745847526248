"""What `uniqueItems` adds to masks: the same texts with it and without.

python -m benchmarks.grammar.unique_items

Processor time of the thread, of the second of two passes, over 131,072 tokens. Prints a Markdown table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from time import thread_time_ns
from typing import Any

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar import Grammar

VOCABULARY = 131_072
JOINED = [
    b'",',
    b'", "',
    b'":',
    b'": "',
    b'"]',
    b'"}',
    b'"},',
    b'{"',
    b"},",
    b"},\n",
    b",\n",
    b"\n    ",
    b"\\u00",
    b"e9",
]

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
COMPONENT = {
    "type": "object",
    "properties": {
        "type": {"enum": ["application", "library"]},
        "name": {"type": "string"},
        "version": {"type": "string"},
        "purl": {"type": "string"},
    },
    "required": ["type", "name", "version"],
}
NAMES = [f"d\u00e9lta {n}" for n in range(120)]
PEOPLE = [{"name": f"User {n}", "age": 20 + n} for n in range(60)]
COMPONENTS = [
    {"type": "library", "name": f"lib{n}", "version": f"1.{n}", "purl": f"pkg:a/lib{n}"} for n in range(60)
]
CONSTANTS = [f"value {n}" for n in range(1000)]

CASES: dict[str, tuple[Any, str]] = {
    "60 strings": ({"type": "string"}, json.dumps(NAMES[:60], ensure_ascii=False)),
    "60 strings with escapes": ({"type": "string"}, json.dumps(NAMES[:60])),
    "60 strings of up to 20 characters": ({"type": "string", "maxLength": 20}, json.dumps(NAMES[:60])),
    "120 strings among any values": ({}, json.dumps(NAMES)),
    "200 integers": ({"type": "integer"}, json.dumps(list(range(0, 600, 3)))),
    "20 objects, indented": (PERSON, json.dumps(PEOPLE[:20], indent=2)),
    "60 objects, indented": (PERSON, json.dumps(PEOPLE, indent=2)),
    "60 open objects of four members": (COMPONENT, json.dumps(COMPONENTS, indent=2)),
    "300 of 1,000 constants": ({"enum": CONSTANTS}, json.dumps(CONSTANTS[:300])),
}


def vocabulary() -> Tokenizer:
    """Single bytes, what often stands together in JSON, numbers, and short words up to the size."""
    pieces = dict.fromkeys([*(bytes((byte,)) for byte in range(256)), *JOINED])
    pieces |= dict.fromkeys(str(number).encode() for number in range(1000))
    words = (
        "".join(letters)
        for size in (2, 3, 4)
        for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=size)
    )
    for word in words:
        if len(pieces) >= VOCABULARY - 1:
            break
        pieces |= dict.fromkeys((word.encode(), b" " + word.encode()))
    return Tokenizer([*list(pieces)[: VOCABULARY - 1], b"<eos>"], [VOCABULARY - 1])


def tokens_of(text: bytes, ids: dict[bytes, int]) -> Iterator[int]:
    """The longest tokens of a text, one after the other."""
    at = 0
    while at < len(text):
        size = next(size for size in range(8, 0, -1) if text[at : at + size] in ids)
        yield ids[text[at : at + size]]
        at += size


def times(schema: Any, token_ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Nanoseconds of each mask of a text, at the second time."""
    grammar, durations = Grammar.from_json_schema(schema).compile(tokenizer), []
    bitmask = allocate_bitmask(1, len(tokenizer))
    for _ in range(2):
        matcher, durations = grammar.matcher(), []
        for token_id in token_ids:
            begin = thread_time_ns()
            matcher.fill_bitmask(bitmask)
            durations.append(thread_time_ns() - begin)
            if not matcher.accept(token_id):
                raise AssertionError(f"{schema} refuses its text")
    return durations


def main() -> None:
    """Print the table."""
    tokenizer = vocabulary()
    ids = {token: token_id for token_id, token in enumerate(tokenizer.token_bytes[:-1])}
    print("| items | tokens | mean without, µs | mean, µs | maximum, ms |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (schema, text) in CASES.items():
        token_ids = list(tokens_of(text.encode(), ids))
        array = {"type": "array", "items": schema}
        plain = times(array, token_ids, tokenizer)
        unique = times({**array, "uniqueItems": True}, token_ids, tokenizer)
        means = [sum(one) / len(one) / 1e3 for one in (plain, unique)]
        print(f"| {name} | {len(token_ids)} | {means[0]:.1f} | {means[1]:.0f} | {max(unique) / 1e6:.1f} |")


if __name__ == "__main__":
    main()
