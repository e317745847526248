"""llama.cpp's lazy grammars: text without constraint, until a trigger occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import quoted
from ...contract import ParameterError
from ...params.bodies import mapping

LAZY_KEYS = ("grammar_lazy", "grammar_triggers")
"""The keys that `take_lazy_grammar` reads, besides the grammar itself."""

_TOKEN, _WORD, _PATTERN, _WHOLE_PATTERN = range(4)
_KINDS = {"token": _TOKEN, "word": _WORD, "pattern": _PATTERN, "pattern_full": _WHOLE_PATTERN}
_MAX_TRIGGERS = 256


def take_lazy_grammar(body: dict[str, Any]) -> dict[str, Any]:
    """The structural tag of a lazy grammar: any text in which no trigger occurs, then, if one does, a text of
    `grammar` or `json_schema`, which begins with it. {} if `grammar_lazy` is not on; removes the keys.

    `grammar_triggers` are words, or objects of the type word or token (1 or 0 as in llama.cpp's server) with
    a `value`; patterns are refused. Raises `ParameterError`.
    """
    is_lazy, triggers = body.pop("grammar_lazy", None), body.pop("grammar_triggers", None)
    if is_lazy is not None and not isinstance(is_lazy, bool):
        raise ParameterError(f"grammar_lazy={quoted(is_lazy)} is not allowed: true or false")
    if not is_lazy:
        return {}
    if not isinstance(triggers, list | tuple) or not 0 < len(triggers) <= _MAX_TRIGGERS:
        allowed = f"a list of 1 to {_MAX_TRIGGERS} words, as grammar_lazy is true"
        raise ParameterError(f"grammar_triggers={quoted(triggers)} is not allowed: {allowed}")
    words = list(dict.fromkeys(map(_word, triggers)))
    given = [name for name in ("grammar", "json_schema") if body.get(name)]
    if len(given) != 1 or body.get("structural_tag") is not None:
        raise ParameterError("grammar_lazy=True is not allowed: it needs one grammar or json_schema")
    content = {"type": given[0], given[0]: body.pop(given[0])}
    before = {"type": "any_text", "excludes": words}
    lazy = {"type": "sequence", "elements": [before, {"type": "optional", "content": content}]}
    return {"structural_tag": {"type": "structural_tag", "format": lazy}}


def _word(trigger: Any) -> str:
    value = trigger
    if isinstance(trigger, Mapping):
        entry = mapping("grammar_triggers", trigger)
        kind = entry.get("type")
        kind = _KINDS.get(kind.lower(), kind) if isinstance(kind, str) else kind
        if isinstance(kind, bool) or kind not in (_TOKEN, _WORD):
            allowed = "the type word or token; patterns are not supported"
            raise ParameterError(f"grammar_triggers has {quoted(trigger)}, which is not allowed: {allowed}")
        value = entry.get("value")
    if not isinstance(value, str) or not value:
        raise ParameterError(f"grammar_triggers has {quoted(trigger)}, which is not allowed: a word")
    return value
