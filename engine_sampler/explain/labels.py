"""Tokens, shares and settings as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tokenizer import Tokenizer


def token_text(tokenizer: Tokenizer | None, token_id: int) -> str:
    """A token on one line: its text, spaces as ␣, control characters escaped; its number if it has no
    text."""
    if tokenizer is None or token_id >= len(tokenizer) or not tokenizer.token_bytes[token_id]:
        return f"#{token_id}"
    text = tokenizer.token_bytes[token_id].decode("utf-8", errors="backslashreplace").replace(" ", "␣")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def percent(share: float) -> str:
    """A share of 1 as "15.9 %"."""
    return f"{hundredths(share)} %"


def hundredths(share: float) -> str:
    """A share of 1 as "15.9", "<0.1" if it is small but not zero."""
    if 0 < share < 0.0005:
        return "<0.1"
    return "100" if share >= 0.9995 else f"{100 * share:.1f}"


def shortened(text: str, length: int) -> str:
    """`text`, cut with an ellipsis if it is longer than `length`."""
    return text if len(text) <= length else text[: length - 1] + "…"


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = (text or "").strip().partition("\n\n")[0]
    sentence, _, rest = " ".join(paragraph.split()).partition(". ")
    return f"{sentence}." if rest else sentence


def settings_text(settings: Mapping[str, Any], owner: str = "") -> str:
    """Parameters as "name=value"; only the value if the name is the owner's own."""
    return " ".join(
        _value_text(value) if name == owner else f"{name}={_value_text(value)}"
        for name, value in settings.items()
    )


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value_text, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
