"""What all readers of arguments have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..alphabet import SURROGATES
from ..events import DeviationError
from ..schemas import SchemaView

if TYPE_CHECKING:
    from typing_extensions import Self

SPACE = re.compile(r"[ \t\r\n]*")
NOT_PLAIN = r"\"\\\\\x00-\x1f" + SURROGATES
"""What does not stand in a JSON string as it is, in patterns."""
MAX_DEPTH = 256
"""Maximum depth to which values are nested: JSON that is nested deeper is refused by most readers."""

MAX_HELD = 16_384
"""Maximum number of characters that are held back of a value whose type its end decides: a longer one is a
string."""


class ArgumentsReader:
    """Reads arguments from a growing text.

    is_done  whether the arguments are complete

    Its attributes are values that never change in place, but for `_inner`, which reads what is within.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._inner: Any = None

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
        new._inner = self._inner and self._inner.copy()
        return new

    def key(self) -> Hashable:
        """The state as a value: readers with equal ones go on alike."""
        inner = self._inner
        if inner is None:
            return type(self), *self.__dict__.values()
        values = (value for value in self.__dict__.values() if value is not inner)
        return type(self), *values, inner.key()


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


def check_depth(depth: int, at: int) -> None:
    """Raise DeviationError for values that are nested too deep."""
    if depth >= MAX_DEPTH:
        raise DeviationError(at, f"a value is nested more than {MAX_DEPTH} levels deep")
