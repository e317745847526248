"""The parts of request bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import quoted
from ..contract import ParameterError


def mapping(key: str, value: Any) -> Mapping[str, Any]:
    """`value` of `key` as an object, without entries that are None."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: an object of parameters")
    for name in value:
        if not isinstance(name, str):
            raise ParameterError(f"{key} has the key {quoted(name)}, which is not a text")
    return {k: v for k, v in value.items() if v is not None}
