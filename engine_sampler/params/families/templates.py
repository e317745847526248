"""Which family a model speaks: by name, or by the marks in its chat template (`family_of`)."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...base.arguments import not_allowed
from ...base.errors import quoted
from ...contract import ParameterError
from . import TOOL_FAMILIES
from .family import PLACES, THINK, Family

logger = logging.getLogger("engine_sampler")

_BARE = r"｜\w+｜"
_MARKS = re.compile(rf"\]<\]\w+\[>\[|{_BARE}(?!>)|<(?!/?{_BARE}[^>])[^\s<>=\"']+>|\[/?[A-Z_]+\]")
"""What looks like the name of a special token: without all of these a template is not that of a family."""
_WORDS = re.compile(r'"\w+":|\w+[>=.]|`+\w+|[^\s{}\[\]"\',:<>]{4,}(?=\[)')
"""What else tells a family from others: members of JSON, and names beside marks."""
_ESCAPES = re.compile(r"\\(.)")
_SPACE = re.compile(r"\s+")
_MOST_MARKS = 12
"""The most marks of a template that an error names."""


def family_named(argument: str, family: Any, chat_template: Any = None) -> str:
    """The name in `TOOL_FAMILIES` that an argument gives, or, with "auto", that of `chat_template`.

    Raises `ParameterError`, which names the argument.
    """
    is_auto = isinstance(family, str) and family == "auto"
    if is_auto and chat_template is not None:
        return family_of(chat_template)
    if not isinstance(family, str) or family not in TOOL_FAMILIES:
        auto = "; 'auto' needs a chat_template, of which family_of finds the name" if is_auto else ""
        raise ParameterError(
            f"{argument}={quoted(family)} is not allowed: one of {', '.join(TOOL_FAMILIES)}{auto}"
        )
    return family


def family_of(template: Any) -> str:
    """The name in `TOOL_FAMILIES` of the family whose way to write thoughts and calls a chat template has.

    template  the text of the template, or a tokenizer with one (transformers': `chat_template`); of several,
              the one for tools

    The marks of the family's calls must all be in the template; of several such families it is the one of
    which the template has most: of its calls, of these with their white space, and of its thoughts. Where
    the calls of several look the same but for white space, it is the first of them. The logger
    `engine_sampler` says which it is, once for each template. Raises `ParameterError`, which quotes the
    template, with its marks if there is none, or with the candidates if several are left.
    """
    text = getattr(template, "chat_template", template)
    if isinstance(text, Mapping):
        text = text.get("tool_use", text.get("default"))
    if not isinstance(text, str):
        raise not_allowed("template", template, "the text of a chat template, or a tokenizer that has one")
    return _family_in(text)


@functools.lru_cache(maxsize=16)
def _family_in(text: str) -> str:
    text = _ESCAPES.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), text)
    dense = _SPACE.sub("", text)
    scores = {name: _score(entry, text, dense) for name, entry in TOOL_FAMILIES.items()}
    best = max((score for score in scores.values() if score is not None), default=None)
    if best is None:
        raise ParameterError(
            f"the chat template {quoted(text)} has the marks of no family that is known, but "
            f"{_marks_in(text)}: give one of {', '.join(TOOL_FAMILIES)}, or none"
        )
    names = [name for name, score in scores.items() if score == best]
    shown = {_shown(TOOL_FAMILIES[name]) for name in names}
    if len(shown) > 1:
        raise ParameterError(
            f"the chat template {quoted(text)} may be that of several families: give one of "
            f"{', '.join(names)}"
        )
    logger.info("the chat template is that of the family %s", names[0])
    return names[0]


def _marks_in(text: str) -> str:
    """The marks of a template, for an error."""
    marks = list(dict.fromkeys(_MARKS.findall(text)))
    more = f" and {len(marks) - _MOST_MARKS} more" if len(marks) > _MOST_MARKS else ""
    return (", ".join(marks[:_MOST_MARKS]) or "none at all") + more


def _score(family: Family, text: str, dense: str) -> tuple[int, int, int] | None:
    """How much of a family a template has: characters of its calls less those of what is not there,
    characters with white space, and the same of thoughts; None if it is not of the family.

    dense  the text without white space
    """
    pieces = list(_pieces(family))
    around = [_SPACE.sub("", piece) for piece in pieces]
    marks = {mark for piece in around for mark in _MARKS.findall(piece)}
    words = {word for piece in around for word in _WORDS.findall(_MARKS.sub(" ", piece))}
    needed = marks or words
    if marks:
        needed = needed.union(*(_MARKS.findall(one) or [one] for one in set(family.excludes) - set(THINK)))
    if not needed or not all(_SPACE.sub("", one) in dense for one in needed):
        return None
    calls = sum(len(one) if one in dense else -len(one) for one in marks | words)
    after = (family.thinking[1] + family.after_thinking,) if family.thinking and family.after_thinking else ()
    exact = sum(len(piece) for piece in (*pieces, *after) if piece in text)
    thinks = all(_SPACE.sub("", mark) in dense for mark in family.thinking or THINK)
    length = sum(map(len, family.thinking or THINK))
    thoughts = length if thinks and family.thinking is not None else -length
    return calls, exact, thoughts if thinks or family.thinking is not None else 0


def _shown(family: Family) -> tuple[Any, ...]:
    """What a template can show of a family's calls."""
    return _SPACE.sub("", "".join(_pieces(family))), family.style, family.layout


def _pieces(family: Family) -> Iterator[str]:
    """The texts that stand around the names, ids and arguments of calls."""
    for text in (*(family.section or ()), family.begin, family.end):
        yield from (piece for piece in PLACES.split(text) if piece.strip())
