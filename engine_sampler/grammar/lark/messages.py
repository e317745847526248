"""Errors of lark's as this package's, with line and column, in the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lark import Token
from lark.exceptions import LarkError, UnexpectedToken, VisitError

from ..errors import GrammarError, GrammarLimitError
from .lexer import Scan

_PLACE = re.compile(r",? at line (\d+),? col(?:umn)? (\d+)[^\n]*")
_PLACE_IN_PATTERN = re.compile(r" \(line \d+, column \d+\)$")
_SYMBOL = re.compile(r"(?:Non)?Terminal\('(\w+)'\)")
_RANGE = "a range needs one character on each side"
_QUOTED = re.compile(r"'([A-Za-z_][A-Za-z_0-9]*)'")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_LARK_WORDS = frozenset("rule rules terminal terminals template in used but not defined for with a".split())


class Messages:
    """Knows where the names of `scan` stand, and what the user wrote for the names put in by us."""

    def __init__(self, scan: Scan, written: Mapping[str, str]) -> None:
        self._scan = scan
        self._written = dict(written)

    def call(self, name: str, written: str) -> None:
        """From now on say `written` instead of `name`."""
        self._written[name] = written

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of the character at `position`."""
        return self._scan.place(position)

    def error(self, text: str, position: int) -> GrammarError:
        """An error about what stands at `position`."""
        return self._scan.error(text, position)

    def about_terminal(self, reason: object, name: str, token: Any) -> GrammarError:
        """An error of the terminal `name`: `token` is its place if it stands in a rule, else None."""
        kind = GrammarLimitError if isinstance(reason, GrammarLimitError) else GrammarError
        place = (token.line, token.column) if token is not None else self._defined(name)
        text = _PLACE_IN_PATTERN.sub("", str(reason))
        return kind(f"the terminal {self._written.get(name, name)}: {text}", *place)

    def about_name(self, text: str, name: str) -> GrammarError:
        """An error at the first place where `name` stands."""
        return GrammarError(text, *self._used(name))

    @contextmanager
    def translated(self, token: Any = None) -> Iterator[None]:
        """Turn whatever lark raises within into a GrammarError, about `token` if no place is known."""
        try:
            yield
        except (GrammarError, RecursionError):
            raise
        except OSError as error:
            name = str(error.filename or error).removesuffix(".lark")
            raise GrammarError(f"there is no grammar {name!r} to import", *self._import(name)) from None
        except Exception as error:  # lark lets errors of `re`, of literals and of its own checks through
            raise self._translation(error, token) from error

    def _translation(self, error: Exception, token: Any) -> GrammarError:
        if isinstance(error, VisitError):
            token = token or next(iter(getattr(error.obj, "children", [])), None)
            text = _RANGE if error.rule == "range" else _words_of(error.orig_exc)
        else:
            text = _words_of(error)
        for name, written in self._written.items():
            text = re.sub(rf"\b{name}\b", written.replace("\\", r"\\"), text)
        line, column = getattr(error, "line", -1), getattr(error, "column", -1)
        if isinstance(line, int) and line > 0:
            return GrammarError(text, line, column)
        if found := _PLACE.search(text):
            return GrammarError(_PLACE.sub("", text).rstrip(": "), int(found[1]), int(found[2]))
        if isinstance(token, Token):
            return GrammarError(text, token.line, token.column)
        return GrammarError(text, *self._mentioned(text))

    def _mentioned(self, text: str) -> tuple[int | None, int | None]:
        """Where a name stands that `text` speaks of."""
        others = [name for name in reversed(_NAME.findall(text)) if name.lower() not in _LARK_WORDS]
        for name in _QUOTED.findall(text) + others:
            place = self._defined(name) if "defined more" in text else self._used(name)
            if place[0] is not None:
                return place
        return None, None

    def _defined(self, name: str) -> tuple[int | None, int | None]:
        """Where `name` is defined, the last time."""
        for statement in reversed(self._scan.statements):
            if statement.defines == name:
                return self._scan.place(statement.words[statement.name].start)
        return None, None

    def _used(self, name: str) -> tuple[int | None, int | None]:
        """Where `name` stands for the first time."""
        for statement in self._scan.statements:
            for word in statement.words:
                if word.text == name:
                    return self._scan.place(word.start)
        return None, None

    def _import(self, name: str) -> tuple[int | None, int | None]:
        last = re.split(r"\W", name)[-1]
        for statement in self._scan.statements:
            if statement.kind == "%import" and any(word.text == last for word in statement.words):
                return self._scan.place(statement.words[0].start)
        return None, None


def _words_of(error: Exception) -> str:
    """What an exception of lark's says, without the lines that show the text once more."""
    if isinstance(error, UnexpectedToken):
        return "unexpected end of line" if error.token.type == "_NL" else f"unexpected {str(error.token)!r}"
    if isinstance(error, AssertionError):
        return str(error) or "a declared terminal cannot be part of another one"
    inner = error.args[-1] if error.args else None
    if isinstance(inner, SyntaxError):
        return f"the escapes of a literal cannot be read: {str(inner.msg).split(' (')[0]}"
    text = _SYMBOL.sub(r"\1", str(error).strip().split("\n")[0])
    return text if isinstance(error, LarkError) else f"lark cannot read this: {text or type(error).__name__}"
