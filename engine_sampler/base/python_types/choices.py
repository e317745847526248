"""The texts of an enumeration."""

from __future__ import annotations

import enum
import typing
from typing import Any


def choice_texts(choices: Any) -> Any:
    """The values of an `Enum` or a `Literal` as a list of texts, integers in decimal digits; anything else as
    it is. Raises ValueError for values that are neither."""
    if isinstance(choices, type) and issubclass(choices, enum.Enum):
        values: list[Any] = [member.value for member in choices]
    elif typing.get_origin(choices) is typing.Literal:
        values = [_value(one) for one in typing.get_args(choices)]
    else:
        return choices
    for value in values:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"an enumeration of texts or integers; {value!r} is neither")
    return list(map(str, values))


def _value(member: Any) -> Any:
    return member.value if isinstance(member, enum.Enum) else member
