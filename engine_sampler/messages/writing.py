"""JSON that is written piece by piece."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def escaped_json(text: str) -> str:
    """A text as it stands within the quotes of a JSON string."""
    return encode_basestring(text)[1:-1]


def quoted_json(text: str) -> str:
    """A text as a JSON string."""
    return encode_basestring(text)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def json_value(text: str) -> Any:
    """The value of JSON text. Raises ValueError for anything else, NaN and too deep nesting among it."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
