"""Lark's errors as this package's, with line and column, and with the names that the user wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from lark import Token
from lark.exceptions import LarkError, UnexpectedToken, VisitError

from ...base.errors import close_matches, quoted
from ..errors import GrammarError, GrammarLimitError
from .library import library_definitions
from .statements import Lines, Statement

_LOCATION = re.compile(r",? at line (\d+),? col(?:umn)? (\d+)[^\n]*")
_SYMBOL = re.compile(r"(?:Non)?Terminal\('(\w+)'\)")
_RANGE = "a range needs one character on each side"
_QUOTED = re.compile(r"'([A-Za-z_][A-Za-z_0-9]*)'")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_LONG_NAME = re.compile(r"(\w{80})\w+")
_DEFINITION = re.compile(r"^[ \t]{0,40}[?!]{0,9}(%ignore\b|[A-Za-z_][^:\n]{0,200}(?=:))", re.MULTILINE)
"""What begins a definition in Lark's language or in GBNF, and what it defines."""
_NOT_IN_NAMES = re.compile(r"[^\w.%-]")
_MAX_SEARCHED = 50_000
"""The most characters of a grammar in which a definition is searched."""
_IGNORED = re.compile(r"__IGNORE_(\d+)")
"""The names of terminals that lark gives to what is ignored."""
_MARKS = {
    "'": 'a text stands between double quotes: "a"',
    "=": 'a colon defines a rule: start: "a"',
    ";": "a definition ends with its line, without a semicolon",
}
_CLASS = re.compile(r"\[[^\]\s\"/-]{0,20}-[^\]\s\"/-]{1,20}\][*+?]?")
_LONGEST_CLASS = 50
_MAX_COMPARED = 500
"""The most names that one that is not defined is compared with."""
_MISSING = re.compile(r"Rule '(\w+)' used but not defined")
_RULE_IN_TERMINAL = re.compile(r"Rules aren't allowed inside terminals \((\w+) in (\w+)\)")
_DEFINED = re.compile(r"^[?!]{0,2}([A-Za-z_]\w{0,80})(?=[^:\n]{0,200}:)", re.MULTILINE)
_IMPORTED = re.compile(
    r"%import[ \t]+([\w.]{1,200})\.(\w{1,80})|%import[ \t]+([\w.]{1,200})[ \t]*\(([^)\n]{1,2000})\)"
)
_NAMED = ("the rule ", "the terminal ")
_LARK_WORDS = frozenset("rule rules terminal terminals template in used but not defined for with a".split())


class Messages:
    """Creates errors about a grammar, located in its text.

    written     the text that the user wrote for each name that the rewritten text introduces
    statements  those of the text, by whose words names are found
    defined     the positions of further definitions by name
    """

    def __init__(
        self,
        text: Lines,
        written: Mapping[str, str],
        statements: Sequence[Statement] = (),
        defined: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._text = text
        self._written = dict(written)
        self._statements = statements
        self._defined = defined

    def placing(self) -> AbstractContextManager[None]:
        """Give errors about lines that are moved their places."""
        return self._text.placing()

    def show_as(self, name: str, written: str) -> None:
        """Write `written` instead of `name` in errors from now on."""
        self._written[name] = written

    def location(self, position: int) -> tuple[int, int]:
        """The line and column of the character at `position`."""
        return self._text.location(position)

    def error(self, text: str, position: int) -> GrammarError:
        """An error about the text at `position`."""
        return self._text.error(text, position)

    def about_terminal(self, reason: object, name: str, token: Any) -> GrammarError:
        """An error about the terminal `name`; `token` is its literal if a rule contains it, else None."""
        kind = GrammarLimitError if isinstance(reason, GrammarLimitError) else GrammarError
        location = (token.line, token.column) if token is not None else self._definition(name)
        text = reason.text if isinstance(reason, GrammarError) else str(reason)
        shown = "of %ignore" if _IGNORED.fullmatch(name) else self._written.get(name, name)
        return kind(f"the terminal {shown}: {text}", *location)

    @contextmanager
    def within_rule(self, name: Callable[[], str]) -> Iterator[None]:
        """Name the rule in a GrammarLimitError of the block that has no location, and locate it."""
        try:
            yield
        except GrammarLimitError as error:
            if error.line is not None:
                raise
            text = f"the rule {self._written.get(name(), name())}: {error.text}"
            raise GrammarLimitError(text, *self._definition(name())) from error

    def about_name(self, text: str, name: str) -> GrammarError:
        """An error at the first occurrence of `name`."""
        return GrammarError(text, *self._first_use(name))

    def no_start(self, start: str, rules: Iterable[str]) -> GrammarError:
        """An error about a grammar without the rule `start`, at the first of its `rules`."""
        text = f"there is no rule {quoted(start)} to start with"
        for name in rules:
            line, column = self._definition(name)
            if line is not None:
                hint = f"{text}: the first one is {self._written.get(name, name)}, which start= may name"
                return GrammarError(hint, line, column)
        return GrammarError(text, *self._text.location(0))

    @contextmanager
    def translated(self, token: Any = None, terminal: str = "") -> Iterator[None]:
        """Turn any error that lark raises within into a GrammarError, at `token` if no location is known.

        terminal   what GrammarErrors within are about; "": they stay as they are
        """
        try:
            yield
        except RecursionError:
            raise
        except GrammarError as error:
            if not terminal:
                raise
            raise self.about_terminal(error, terminal, token) from None
        except OSError as error:
            name = str(error.filename or error).removesuffix(".lark")
            raise GrammarError(f"there is no grammar {quoted(name)} to import", *self._import(name)) from None
        except Exception as error:  # lark does not catch errors of literals and of its own checks
            raise self._translation(error, token) from error

    def _translation(self, error: Exception, token: Any) -> GrammarError:
        if isinstance(error, VisitError):
            token = token or next(iter(getattr(error.obj, "children", [])), None)
            text = _RANGE if error.rule == "range" else _message_of(error.orig_exc)
        else:
            text = _message_of(error)
        text = _NAME.sub(lambda match: self._written.get(match[0], match[0]), text)
        line, column = getattr(error, "line", -1), getattr(error, "column", -1)
        if isinstance(line, int) and line > 0:
            return GrammarError(_shortened(text), line, column)
        if location := _LOCATION.search(text):
            text = _LOCATION.sub("", text).rstrip(": ")
            return GrammarError(_shortened(text), int(location[1]), int(location[2]))
        if isinstance(token, Token):
            return GrammarError(_shortened(text), token.line, token.column)
        return GrammarError(_shortened(text), *self._mentioned(text))

    def _mentioned(self, text: str) -> tuple[int | None, int | None]:
        """The location of a name that `text` mentions."""
        others = [name for name in reversed(_NAME.findall(text)) if name.lower() not in _LARK_WORDS]
        for name in _QUOTED.findall(text) + others:
            location = self._definition(name) if "defined more" in text else self._first_use(name)
            if location[0] is not None:
                return location
        return None, None

    def _definition(self, name: str) -> tuple[int | None, int | None]:
        """The location of the last definition of `name`."""
        if name in self._defined:
            return self._text.location(self._defined[name])
        if found := _IGNORED.fullmatch(name):
            ignored = [one for one in self._statements if one.kind == "%ignore"]
            return self._text.location(ignored[int(found[1])].words[0].start) if ignored else (None, None)
        for statement in reversed(self._statements):
            if statement.defines == name:
                return self._text.location(statement.words[statement.name].start)
        return None, None

    def _first_use(self, name: str) -> tuple[int | None, int | None]:
        """The location of the first occurrence of `name`."""
        for statement in self._statements:
            for word in statement.words:
                if word.text == name:
                    return self._text.location(word.start)
        return None, None

    def _import(self, name: str) -> tuple[int | None, int | None]:
        last = re.split(r"\W", name)[-1]
        for statement in self._statements:
            if statement.kind == "%import" and any(word.text == last for word in statement.words):
                return self._text.location(statement.words[0].start)
        return None, None


@contextmanager
def hinting(text: str) -> Iterator[None]:
    """Say in a GrammarError of the block about the grammar `text` what may be meant, if that is known."""
    try:
        yield
    except GrammarError as error:
        if error.line is not None and error.column is not None:
            lines = text.split("\n", error.line)
            line = lines[error.line - 1] if error.line <= len(lines) else ""
            _hint(error, text[:_MAX_SEARCHED], line, error.column - 1)
        raise


def _hint(error: GrammarError, text: str, line: str, at: int) -> None:
    before = max(at - 2, 0)
    written = _CLASS.search(line, before, at + 1 + _LONGEST_CLASS)
    missing = _MISSING.match(error.text)
    if written and (missing or error.text.startswith("Unmatched")):
        error.text += f"; a class of characters stands between slashes: /{written[0]}/"
    elif missing:
        error.text += _meant(missing[1], text)
    elif error.text.startswith("Unexpected input") and line[at : at + 1] in _MARKS:
        error.text += f": {_MARKS[line[at]]}"
    elif found := _RULE_IN_TERMINAL.match(error.text):
        rule, terminal = found.groups()
        user = "%ignore" if terminal.startswith("__IGNORE_") else f"the terminal {terminal}"
        error.text = (
            f"{user} takes terminals, and {rule} is a rule: terminals have names of capitals, {rule.upper()}"
        )


def _meant(name: str, text: str) -> str:
    """Which of the names that are defined, or may be imported, a name that is not may be meant for."""
    for path, one, other, several in _IMPORTED.findall(text):
        if name in (one, *re.findall(r"\w+", several)):
            near = close_matches(name, library_definitions(path or other))
            return f"; {path or other} has no {name}: is {near[0]} meant?" if near else ""
    near = close_matches(name, _DEFINED.findall(text)[:_MAX_COMPARED])
    return f"; is {near[0]} meant?" if near else ""


@contextmanager
def limits_named(text: str) -> Iterator[None]:
    """Add to a GrammarLimitError of the block that names no rule, terminal or place the largest definition of
    the grammar `text`, and where it is: what to make smaller first."""
    try:
        yield
    except GrammarLimitError as error:
        if error.line is None and error.pointer is None and not error.text.startswith(_NAMED):
            _name_largest(error, text)
        raise


def _name_largest(error: GrammarLimitError, text: str) -> None:
    text = text[:_MAX_SEARCHED]
    found = list(_DEFINITION.finditer(text))
    starts = [*(one.start(1) for one in found), len(text)]
    sizes = [(end - start, -number) for number, (start, end) in enumerate(pairwise(starts))]
    if sizes:
        largest = found[-max(sizes)[1]]
        name = _NOT_IN_NAMES.split(largest[1], maxsplit=1)[0]
        error.text += f"; its largest definition is that of {_shortened(name)}"
        error.line, error.column = Lines(text).location(largest.start(1))


def _shortened(text: str) -> str:
    """A message of lark, in which a name may be as long as the grammar."""
    return _LONG_NAME.sub(r"\1…", text)


def _message_of(error: Exception) -> str:
    """The message of one of lark's exceptions, without the lines that repeat the text."""
    if isinstance(error, UnexpectedToken):
        if error.token.type == "_NL":
            return "unexpected end of line"
        return f"unexpected {quoted(str(error.token))}"
    if isinstance(error, AssertionError):
        return str(error) or "a declared terminal cannot be part of another one"
    if isinstance(error, AttributeError) and error.name == "template_usage":
        return "a terminal cannot use a template"
    inner = error.args[-1] if error.args else None
    if isinstance(inner, SyntaxError):
        return f"the escapes of a literal cannot be read: {str(inner.msg).split(' (')[0]}"
    text = _SYMBOL.sub(r"\1", str(error).strip().split("\n")[0])
    return text if isinstance(error, LarkError) else f"lark cannot read this: {text or type(error).__name__}"
