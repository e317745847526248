"""Arrays whose items must differ, and pieces of their texts, for the tests of both their matchers."""

from __future__ import annotations

from typing import Any


def items(schema: Any, **others: Any) -> dict[str, Any]:
    """The schema of an array whose items must differ."""
    return {"type": "array", "items": schema, "uniqueItems": True, **others}


STRINGS = items({"type": "string"})
MIXED = items({"type": ["string", "number", "boolean"]})
PIECES = [
    *(
        b'"a',
        b'a"',
        b'","',
        b'", "',
        b'"]',
        b'["',
        b'["a","a"',
        b"\\u0061",
        b'","a',
        b'a","',
        b'a","a"',
        b"\\",
    ),
    *(b"12", b"2,", b"1,1", b",1", b"1]", b" 1", b"0,", b'1,"a', b'",1,1', b"true", b",true", b"1.0", b"0e0"),
    *("é".encode(), "é".encode()[:1], "é".encode()[1:], b'ab"', b'"ab', b'":["', b"[1,", b"\xff", b"[\xff"),
]
"""Tokens in which items end and begin."""
