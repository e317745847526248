r"""Patterns as people write them, rewritten to the form that `parsing` reads, which is Python's.

ECMAScript's syntax is rewritten; so is `\p{..}` in both dialects. A set that Python's syntax cannot express
is written as a lone surrogate, which no text contains; `Source.sets` maps it to the set.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from ..errors import GrammarError
from ..program import unicode
from ..program.unicode import Ranges
from ..work import spend, spend_on_each

_FIRST_STAND_IN = 0xDC00
_MAX_STAND_INS = 0x400


@dataclass
class Source:
    """A pattern as it is rewritten for the parser: the text so far, and where its pieces come from."""

    pattern: str
    sets: dict[int, Ranges] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    _codes: dict[Ranges, int] = field(default_factory=dict)
    _length: int = 0
    _origins: list[tuple[int, int]] = field(default_factory=list)

    def add(self, text: str, origin: int) -> None:
        """Append `text`, which replaces the piece of the pattern at `origin`."""
        self._origins.append((self._length, origin))
        self._length += len(text)
        self.pieces.append(text)

    @property
    def text(self) -> str:
        """The text for the parser."""
        return "".join(self.pieces)

    def stand_in(self, ranges: Ranges) -> str:
        """A character that stands for the set."""
        code = self._codes.get(ranges)
        if code is None:
            if len(self._codes) == _MAX_STAND_INS:
                raise GrammarError(f"a pattern has more than {_MAX_STAND_INS} distinct classes")
            code = self._codes[ranges] = _FIRST_STAND_IN + len(self._codes)
            self.sets[code] = ranges
        return chr(code)

    def error(self, text: str, origin: int) -> GrammarError:
        """An error at a position in the pattern."""
        line = self.pattern.count("\n", 0, origin) + 1
        return GrammarError(text, line, origin - self.pattern.rfind("\n", 0, origin))

    def error_at(self, text: str, position: int) -> GrammarError:
        """An error at a position in the text that the parser read."""
        text = re.sub("[\udc00-\udfff]", "a class", text)
        found = bisect_right(self._origins, (position, len(self.pattern))) - 1
        start, origin = self._origins[found] if found >= 0 else (0, 0)
        last = self._origins[found + 1][1] - 1 if found + 1 < len(self._origins) else len(self.pattern)
        return self.error(text, min(origin + position - start, max(last, origin)))

    def property(self, letter: str, name: str, origin: int) -> str:
        r"""The stand-in for `\p{name}` or `\P{name}`."""
        try:
            ranges = unicode.named_property(name)
        except GrammarError as error:
            raise self.error(str(error), origin) from None
        return self.stand_in(unicode.invert(ranges) if letter == "P" else ranges)


def rewritten(pattern: str, ecma: bool) -> Source:
    """The pattern for `parsing`. Raises GrammarError for a pattern that cannot be rewritten."""
    source = Source(pattern)
    if any("\ud800" <= c <= "\udfff" for c in pattern):
        raise GrammarError("a pattern contains half of a surrogate pair")
    if ecma:
        _EcmaRewriter(source).rewrite()
    else:
        _rewrite_python(source)
    return source


_PROPERTY = re.compile(r"\\(?:([pP])\{([^{}]*)\}|.)", re.DOTALL)
_SURROGATE = re.compile(r"\\(?:u|U0000)[dD][89a-fA-F]")


def _rewrite_python(source: Source) -> None:
    pattern = source.pattern
    end = 0
    if "\\p{" in pattern or "\\P{" in pattern:
        if _SURROGATE.search(pattern):
            raise GrammarError("a pattern has both half of a surrogate pair and a class such as \\p{L}")
        for found in spend_on_each(_PROPERTY.finditer(pattern)):
            if found[1]:
                source.add(pattern[end : found.start()], end)
                source.add(source.property(found[1], found[2], found.start()), found.start())
                end = found.end()
    source.add(pattern[end:], end)


_ESCAPE = re.compile(
    r"""\\(?:
        u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
      | (?:u\{(?P<long>0*[0-9a-fA-F]{1,6})\} | u(?P<four>[0-9a-fA-F]{4}) | x(?P<two>[0-9a-fA-F]{2}))
      | c(?P<control>[A-Za-z])
      | (?P<property>[pP])\{(?P<name>[^{}]*)\}
      | (?P<class>[dDwWsS])
      | (?P<zero>0)(?![0-9])
      | (?P<plain>[fnrtv] | [^0-9A-Za-z])
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_GROUP_NAME = re.compile(r"\(\?<[^=!>(][^>(]*>")
_CLASSES = {"d": unicode.ASCII_DIGITS, "w": unicode.ASCII_WORD, "s": unicode.ECMA_SPACE}
_ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "Z": r"\Z", "z": r"\Z"}
_CLASS_ESCAPE = re.compile(r"\\(?:[dDwWsS]|[pP]\{)")


class _EcmaRewriter:
    """Rewrites ECMAScript's syntax leniently: constructs that only Python's `re` has are allowed as well."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pattern = source.pattern
        self.at = 0

    def rewrite(self) -> None:
        while self.at < len(self.pattern):
            spend()
            start, c = self.at, self.pattern[self.at]
            if c == "\\":
                self.source.add(self._escape(in_class=False), start)
            elif c == "[":
                self._class()
            elif c == "{":
                count = _COUNT.match(self.pattern, start)
                self._take(count[0] if count else r"\{", len(count[0]) if count else 1)
            elif c == "(" and (name := _GROUP_NAME.match(self.pattern, start)):
                self._take("(", len(name[0]))
            else:
                self._take(c, 1)

    def _take(self, text: str, length: int) -> None:
        self.source.add(text, self.at)
        self.at += length

    def _class(self) -> None:
        start = self.at
        negative = self.pattern.startswith("[^", start)
        body = start + 1 + negative
        if self.pattern.startswith("]", body):  # [] is nothing, [^] is anything
            ranges = unicode.EVERY if negative else ()
            self._take(self.source.stand_in(ranges), body + 1 - start)
            return
        self._take("[^" if negative else "[", body - start)
        after_class = True  # whether a hyphen here cannot be in the middle of a range
        while (c := self.pattern[self.at : self.at + 1]) != "]":
            spend()
            if not c:
                raise self.source.error("unterminated character set", start)
            here = self.at
            if c == "\\":
                after_class = bool(_CLASS_ESCAPE.match(self.pattern, here))
                self.source.add(self._escape(in_class=True), here)
                continue
            if c == "-" and (after_class or _CLASS_ESCAPE.match(self.pattern, here + 1)):
                c = r"\-"
            after_class = False
            self._take("\\" + c if c in "[&|~" else c, 1)
        self._take("]", 1)

    def _escape(self, in_class: bool) -> str:
        start = self.at
        escape = _ESCAPE.match(self.pattern, start)
        if escape is None:
            raise self.source.error("bad escape (end of pattern)", start)
        self.at = escape.end()
        if escape["high"]:
            return _code(0x10000 + (int(escape["high"], 16) - 0xD800 << 10) + int(escape["low"], 16) - 0xDC00)
        if digits := escape["long"] or escape["four"] or escape["two"]:
            code = int(digits, 16)
            if code > unicode.LAST:
                raise self.source.error("there is no such code point", start)
            return self.source.stand_in(()) if 0xD800 <= code <= 0xDFFF else _code(code)
        if escape["control"]:
            return _code(ord(escape["control"]) & 31)
        if escape["property"]:
            return self.source.property(escape["property"], escape["name"], start)
        if letter := escape["class"]:
            ranges = _CLASSES[letter.lower()]
            return self.source.stand_in(ranges if letter.islower() else unicode.invert(ranges))
        if escape["zero"]:
            return r"\x00"
        if escape["plain"]:
            return escape[0]
        return self._other(escape["other"], in_class, start)

    def _other(self, letter: str, in_class: bool, start: int) -> str:
        if in_class and letter == "b":
            return r"\x08"
        if not in_class and letter in _ANCHORS:
            return _ANCHORS[letter]
        if not in_class and letter in "k123456789":
            raise self.source.error("a backreference cannot be matched token by token", start)
        raise self.source.error(f"bad escape \\{letter}", start)


def _code(code: int) -> str:
    return f"\\U{code:08x}"
