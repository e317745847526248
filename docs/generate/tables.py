"""Tables and values as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine_sampler.contract import Param


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a column without text is left out."""
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    kept = [i for i in range(len(headings)) if any(row[i] for row in body)]
    lines = [[headings[i] for i in kept], ["---"] * len(kept), *([row[i] for i in kept] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(value: Any) -> str:
    """A value as inline code."""
    return f"`{source(value)}`"


def source(value: Any) -> str:
    """A value as Python code, floats as people write them."""
    if isinstance(value, float):
        return f'float("{value}")' if math.isinf(value) else f"{value:.6g}"
    if isinstance(value, dict):
        entries = (f"{k if isinstance(k, tuple) else source(k)}: {source(v)}" for k, v in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(source, value))}]"
    if isinstance(value, str) and not {'"', "'"} & set(value):
        return f'"{repr(value)[1:-1]}"'
    return repr(value)


def keywords(settings: Mapping[str, Any]) -> str:
    """Settings as keyword arguments."""
    return ", ".join(f"{name}={source(value)}" for name, value in settings.items())


KINDS = {
    "allowed_token_ids": "list",
    "answer": "dict",
    "bad_words": "list",
    "begin_suppress_tokens": "list",
    "choice": "list",
    "drafter": "str or list",
    "dry_sequence_breakers": "list",
    "early_stopping": "bool or str",
    "forced_bos_token_id": "int or list",
    "forced_eos_token_id": "int or list",
    "json_schema": "dict or str",
    "logit_bias": "dict",
    "logprob_token_ids": "list",
    "logprobs_mode": "str or list",
    "no_repeat_ngram_whitelist_ids": "list",
    "order": "str or list",
    "phases": "list",
    "prompt_logprob_token_ids": "list of lists",
    "seed": "int",
    "sequence_bias": "list or dict",
    "structural_tag": "dict or str",
    "suppress_tokens": "list",
    "temperature_schedule": "list",
    "top_p_reset_ids": "int or list",
    "xtc_protected_ids": "list",
    "resources": "dict or str",
    "thinking": "dict or str",
    "whitespace": "str or int",
    "numbers": "str or int",
}
"""What parameters take that convert their values themselves."""


def kind_of(param: Param) -> str:
    """The type of a parameter."""
    name = KINDS[param.name] if param.type is object else param.type.__name__
    return f"`{'list' if name == 'tuple' else name}`"


def range_of(param: Param) -> str:
    """The values that a parameter allows."""
    if param.choices is not None:
        return ", ".join(map(code, param.choices))
    if param.type not in (int, float) or (param.low is None and param.high is None):
        return ""
    if param.high is None:
        return f"{'> ' if param.low_open else '≥ '}{number(param.low)}"
    return f"{number(param.low)} to {number(param.high)}"


def number(value: float | None) -> str:
    """A bound: large powers of two and of ten by their exponent."""
    if value is None:
        return "−∞"
    if value >= 2**31 - 1:
        return f"2<sup>{31 if value == 2**31 - 1 else 63}</sup> − 1"
    return f"{value:,.6g}".replace("-", "−") if abs(value) < 1e6 else f"{value:,.0f}".replace("-", "−")
