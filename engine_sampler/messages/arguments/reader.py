"""What all readers of arguments have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ..alphabet import SURROGATES
from ..events import DeviationError
from ..schemas import SchemaView, type_of, view_of
from ..writing import NUMBER, json_value, quoted_json

if TYPE_CHECKING:
    from typing_extensions import Self

SPACE = re.compile(r"[ \t\r\n]*")
NOT_PLAIN = r"\"\\\\\x00-\x1f" + SURROGATES
"""What does not stand in a JSON string as it is, in patterns."""
MAX_DEPTH = 256
"""Maximum depth to which values are nested: JSON that is nested deeper is refused by most readers."""

MAX_HELD = 16_384
"""Maximum number of characters of a number, or of another value whose type its end decides."""


class ArgumentsReader:
    """Reads arguments from a growing text.

    is_done  whether the arguments are complete

    Its attributes are values that never change in place, or other readers.
    """

    def __init__(self) -> None:
        self.is_done = False

    def read(self, text: str, at: int, out: list[str]) -> int:
        """Takes what is certain from `at` on, and appends it to `out` as JSON; returns where that ends. What
        follows it must be given again, with more text. Raises DeviationError, after what is right before."""
        raise NotImplementedError

    def finish(self, text: str, out: list[str]) -> None:
        """Take the rest of a text that ends: some arguments are complete then."""

    @property
    def held(self) -> str:
        """What was taken and is not in `out` yet: it depends on what follows."""
        return ""

    @property
    def special(self) -> Callable[[str], object] | None:
        """Finds in a text what does not just go on with a string: a text without any is JSON as it stands.
        None if the text is not within a string."""
        return None

    def copy(self) -> Self:
        """A reader in the same state, which goes on independently."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def key(self) -> Hashable:
        """The state as a value: readers with equal ones go on alike."""
        return type(self), *self.__dict__.values()


class ReaderInStates(ArgumentsReader):
    """A reader of marks and values, which reads on as its state says.

    readers  by state: (reader, text, at, out) → where it ends.
    """

    readers: ClassVar[Mapping[str, Callable[..., int]]]

    def __init__(self) -> None:
        super().__init__()
        self._state = "start"
        self._held = ""
        self._inner: ArgumentsReader | None = None
        """What reads an object or a list."""

    @property
    def held(self) -> str:
        return self._held

    def copy(self) -> Self:
        new = super().copy()
        new._inner = new._inner and new._inner.copy()
        return new

    def key(self) -> Hashable:
        inner = self._inner
        if inner is None:
            return super().key()
        values = (value for value in self.__dict__.values() if value is not inner)
        return type(self), *values, inner.key()

    def read(self, text: str, at: int, out: list[str]) -> int:
        if self._state == "start":
            out.append("{")
            self._state = "between"
        before: tuple[int, str] | None = None
        while before != (at, self._state) and not self.is_done:
            before = at, self._state
            at = self.readers[self._state](self, text, at, out)
        return at

    def _read_json(self, text: str, at: int, out: list[str]) -> int:
        assert self._inner is not None
        at = self._inner.read(text, at, out)
        if self._inner.is_done:
            self._state, self._inner = "closing", None
        return at

    def _hold(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        """Hold back a value up to `closing`: where what is read ends, and whether the value has ended."""
        closing_at = text.find(closing, at)
        end = held_from(text, at, closing) if closing_at < 0 else closing_at
        if end > at:
            if len(self._held) + end - at > MAX_HELD:
                text = f"a value that is not simply text has more than {MAX_HELD} characters"
                raise DeviationError(at, text)
            self._held += text[at:end]
        return (end, False) if closing_at < 0 else (closing_at + len(closing), True)

    def _put_held(self, out: list[str], json: str) -> None:
        """Give the value that was held back, as JSON."""
        out.append(json)
        self._held, self._state = "", "between"

    def _read_mark(self, text: str, at: int, mark: str, what: str) -> int:
        """Read the mark behind a value of `what`."""
        at = skip_space(text, at)
        if text.startswith(mark, at):
            self._state = "between"
            return at + len(mark)
        if not begins_with_rest(mark, text, at):
            raise DeviationError(at, f"{what} does not end after its value")
        return at


UNTYPED = view_of({"type": ["number", "boolean", "null", "object", "array"]})
"""Of values whose marks say that they are not strings."""

ReaderMaker: TypeAlias = Callable[[SchemaView], ArgumentsReader]


def skip_space(text: str, at: int) -> int:
    """Where the white space at a position ends."""
    return SPACE.match(text, at).end()  # type: ignore[union-attr]


def begins_with_rest(mark: str, text: str, at: int) -> bool:
    """Whether a text ends, after a position, within the beginning of `mark`."""
    return len(text) - at < len(mark) and mark.startswith(text[at:])


def held_from(text: str, at: int, stop: str) -> int:
    """From where on the end of a text may be the beginning of `stop`, which does not occur from `at` on."""
    first = max(at, len(text) - len(stop) + 1)
    while first < len(text) and not stop.startswith(text[first:]):
        first += 1
    return first


def typed_json(text: str, view: SchemaView) -> str:
    """The JSON of a value that is written as its text is, where its schema tells strings from others. What is
    neither one of its strings nor JSON is a string."""
    trimmed = text.strip(" \t\r\n")
    strings = view.strings
    if strings is None:
        return quoted_json(text)
    for one in (text, trimmed):
        if one in strings:
            return quoted_json(one)
    try:  # Python cannot represent all numbers
        kind = "number" if NUMBER.fullmatch(trimmed) else type_of(json_value(trimmed))
    except ValueError:
        return quoted_json(text)
    return trimmed if kind in view.types or not strings else quoted_json(text)


def check_depth(depth: int, at: int) -> None:
    """Raise DeviationError for values that are nested too deep."""
    if depth >= MAX_DEPTH:
        raise DeviationError(at, f"a value is nested more than {MAX_DEPTH} levels deep")
