"""The parameters that divide a request into phases: thoughts and an answer, or any others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..base.giving_way import unhurried
from ..contract import Param
from ..contract.values import Phrase, phrases

MAX_PHASES = 16
"""The most phases of a request."""

MAX_MARKERS = 16
"""The most markers that end a phase in one way."""

MAX_MARKER = 128
"""The most bytes, or token ids, of a marker."""

MAX_FORCED = 1024
"""The most bytes, or token ids, of a text that is forced."""

MAX_DEPTH = 8
"""How deeply the values of parameters for a phase may be nested."""

Fields = tuple[tuple[str, Any], ...]
"""An object in its immutable form: (key, value) pairs, ascending by key."""

_THINKING = "a name of a family of models, or an object with some of family, start, end, starts_inside, "
_THINKING += "message, eos, tool_call, scope and grammar"
_MARKERS = f"one or at most {MAX_MARKERS} markers, each a text or a list of token ids, of 1 to {MAX_MARKER}"
_FORCED = f"a text or a list of token ids, of at most {MAX_FORCED}"
_CHANGES = f"an object of parameters, nested at most {MAX_DEPTH} deep"
_PHASES = f"a list of 1 to {MAX_PHASES} objects with some of name, until, tokens, force, then and params"


def _markers(value: Any) -> tuple[Phrase, ...]:
    is_one = isinstance(value, str) or _are_ids(value)
    try:
        markers = phrases([value] if is_one else value)
    except (TypeError, ValueError):
        raise ValueError(_MARKERS) from None
    if not 1 <= len(markers) <= MAX_MARKERS or any(_size(marker) > MAX_MARKER for marker in markers):
        raise ValueError(_MARKERS)
    return markers


def _calls(value: Any) -> tuple[Phrase, ...] | bool:
    return value if isinstance(value, bool) else _markers(value)


def _are_ids(value: Any) -> bool:
    """Whether `value` is one token sequence, and no list of several markers."""
    listed = isinstance(value, (list, tuple)) and len(value) > 0
    return listed and all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value)


def _forced(value: Any) -> Phrase:
    try:
        (phrase,) = phrases([value]) if len(value) else ((),)
    except (TypeError, ValueError):
        raise ValueError(_FORCED) from None
    if _size(phrase) > MAX_FORCED:
        raise ValueError(_FORCED)
    return phrase


def _size(phrase: Phrase) -> int:
    return len(phrase.encode()) if isinstance(phrase, str) else len(phrase)


def _one_of(*allowed: Any) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        for choice in allowed:
            if type(value) is type(choice) and value == choice:
                return choice
        raise ValueError("one of " + ", ".join(map(repr, allowed)))

    return check


def _text(value: Any) -> str:
    if isinstance(value, str) and 1 <= len(value) <= MAX_MARKER:
        return value
    raise ValueError(f"a text of 1 to {MAX_MARKER} characters")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    raise ValueError("an integer from 0 to 2147483647")


def _number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_PHASES:
        return value
    raise ValueError("the number of a phase, from 0")


def _changes(value: Any) -> Fields:
    """Parameters by name, in an immutable form."""
    return tuple(sorted((name, _frozen(entry, 1)) for name, entry in _pairs(value, _CHANGES)))


def _frozen(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(_CHANGES)
    if isinstance(value, Mapping):
        return tuple((_frozen(k, depth + 1), _frozen(v, depth + 1)) for k, v in unhurried(value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(_frozen(entry, depth + 1) for entry in unhurried(value))
    hash(value)
    return value


def _pairs(value: Any, allowed: str) -> Iterable[tuple[str, Any]]:
    """The entries of an object, or of its immutable form."""
    try:
        pairs = dict(value.items() if isinstance(value, Mapping) else value)
    except (TypeError, ValueError):
        raise ValueError(allowed) from None
    if not all(isinstance(name, str) for name in pairs):
        raise ValueError(allowed)
    return pairs.items()


def _object(value: Any, fields: Mapping[str, Callable[[Any], Any]], allowed: str) -> Fields:
    """An object with these fields, without those that are None."""
    checked = {}
    for name, entry in _pairs(value, allowed):
        if name not in fields:
            raise ValueError(allowed)
        if entry is not None:
            try:
                checked[name] = fields[name](entry)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name} must be {error}") from None
    return tuple(sorted(checked.items()))


_THINKING_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "family": _text,
    "start": _markers,
    "end": _markers,
    "starts_inside": _one_of("auto", True, False),
    "message": _forced,
    "eos": _one_of("stop", "close", "mask"),
    "tool_call": _calls,
    "scope": _one_of("answer", "all"),
    "grammar": _one_of("answer", "all"),
}

_PHASE_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "until": _markers,
    "tokens": _count,
    "force": _forced,
    "then": _number,
    "params": _changes,
}


def _thinking(value: Any) -> Fields:
    given = {"family": value} if isinstance(value, str) else value
    return _object(given, _THINKING_FIELDS, _THINKING)


def _phases(value: Any) -> tuple[Fields, ...]:
    if not isinstance(value, (list, tuple)) or not len(value) <= MAX_PHASES:
        raise ValueError(_PHASES)
    return tuple(_object(entry, _PHASE_FIELDS, _PHASES) for entry in value)


PHASE_PARAMS = (
    Param("thinking", object, None, convert=_thinking, limit=8192,
          doc="how the model marks its thoughts: a family, or markers"),
    Param("thinking_token_budget", int, None, low=-1, high=2**31 - 1,
          doc="end the thoughts after this many tokens; None or -1: no limit"),
    Param("answer", object, (), convert=_changes, limit=8192,
          doc="parameters that hold from the end of the thoughts on"),
    Param("phases", object, (), convert=_phases, limit=8192,
          doc="parameters until a marker or for a number of tokens, then others"),
)  # fmt: skip
"""`thinking` with its budget and `answer`, which are a case of `phases`."""
