"""The tokens that a structural tag names, by name or id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..program.expression import repeat
from ..program.rules import Body, Rules
from ..program.special_names import MAX_TOKEN_SETS
from ..program.unicode import ANY_CHARACTER
from ..work import spend


class NamedTokens:
    """The tokens of one tag, as parts of its rules; `names` are their numbers in rules by name."""

    def __init__(self, rules: Rules, names: Mapping[str, int]) -> None:
        self._rules, self._names = rules, names
        self._symbols: dict[str | int, int] = {}
        self._sets: dict[tuple[str, frozenset[int]], Body] = {}

    def id(self, token: Any, path: str) -> int:
        """The number of a token in rules: its id, or the number of its name."""
        if isinstance(token, bool) or not isinstance(token, str | int):
            raise GrammarError(f"{path} is not a token: names and ids are allowed")
        if isinstance(token, str) and token not in self._names:
            raise GrammarError(f"{path} is {quoted(token)}, which is not a special token")
        if isinstance(token, int) and not 0 <= token < 2**31:
            raise GrammarError(f"{path} is {token}, which is not a token id")
        return self._names[token] if isinstance(token, str) else token

    def ids(self, given: Sequence[Any], path: str) -> list[int]:
        """The numbers of some tokens."""
        spend(len(given))
        return [self.id(one, path) for one in given]

    def symbol(self, token: Any, path: str) -> int:
        """The symbol of a token."""
        number = self.id(token, path)
        if token not in self._symbols:
            self._symbols[token] = self._rules.special(str(token), [number])
        return self._symbols[token]

    def other_than(self, kind: str, ids: Sequence[int]) -> Body:
        """One token (`kind` "token"), or text of any length ("text"), without some tokens."""
        key = kind, frozenset(ids)
        if key not in self._sets:
            if len(self._sets) == MAX_TOKEN_SETS:
                raise GrammarLimitError(f"more than {MAX_TOKEN_SETS} different sets of tokens are excluded")
            unique = sorted(key[1])
            if kind == "token":
                self._sets[key] = self._rules.token_except(unique)
            else:
                self._sets[key] = self._rules.text_except(repeat(ANY_CHARACTER, 1), unique)
        return self._sets[key]
