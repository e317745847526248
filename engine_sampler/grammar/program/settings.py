"""Sampling parameters that hold in some rules of a grammar.

The rules that such a rule uses are copied for it, with terminals of their own. So the terminals that the next
token may belong to tell which parameters hold. The language stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import GrammarLimitError
from ..work import spend
from .bodies import ACCEPT, Edge, PlainEdge

if TYPE_CHECKING:
    from .rules import Program, Rules

MAX_SETTINGS = 32
"""The most different settings of a grammar."""


class Setting(NamedTuple):
    """Sampling parameters that hold together.

    rule        the name of the innermost rule that sets one of them
    parameters  (name, value) pairs, ascending by name
    """

    rule: str
    parameters: tuple[tuple[str, Any], ...]


def saved_settings(program: Program) -> dict[str, Any]:
    """The settings of a program in a form for JSON."""
    if not program.settings:
        return {}
    return {"settings": program.settings, "settings_of": program.settings_of}


def loaded_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a program that `saved_settings` wrote. Raises ValueError, TypeError or KeyError for
    anything else."""
    settings = tuple(
        Setting(str(rule), tuple((str(name), value) for name, value in parameters))
        for rule, parameters in content.get("settings", ())
    )
    numbers = tuple(map(int, content.get("settings_of", ())))
    if any(not 0 <= number <= len(settings) for number in numbers):
        raise ValueError("its terminals have settings that it lacks")
    return {"settings": settings, "settings_of": numbers}


class Mark(NamedTuple):
    """The parameters that a rule sets, and its place in the text: its line and column."""

    place: tuple[int, int]
    setting: Setting


def apply_settings(rules: Rules, given: Mapping[int, Mark]) -> None:
    """Let the parameters of the rules `given`, by their symbols, hold wherever the text is in one of these.
    Parameters of an inner rule take the place of those of an outer one."""
    _Copying(rules, given).run()


class _Copying:
    def __init__(self, rules: Rules, given: Mapping[int, Mark]) -> None:
        self._rules = rules
        self._given = {symbol: mark.setting for symbol, mark in given.items()}
        in_order = sorted(given, key=lambda symbol: given[symbol].place)
        self._order = {symbol: number for number, symbol in enumerate(in_order)}
        self._copies: dict[tuple[int, Setting], int] = {}
        self._terminals: dict[tuple[int, Setting], int] = {}
        self._ranks: dict[Setting, int] = {}
        self._originals: dict[int, Sequence[Sequence[PlainEdge]]] = {}
        """The edges of the rules that have been changed."""
        self._waiting: list[tuple[int, int, Setting | None]] = []

    def run(self) -> None:
        rules = self._rules
        seen = {rules.start}
        rules.start = self._inside(rules.start, None)
        if rules.start in seen:
            self._waiting.append((rules.start, rules.start, None))
        while self._waiting:
            origin, copy, setting = self._waiting.pop()
            edges_of_states = self._originals.get(origin) or rules.states_of(origin)
            if origin == copy:
                self._originals[origin] = edges_of_states
            spend(sum(map(len, edges_of_states)))
            states = [
                [Edge(self._inside(symbol, setting), target, done) for symbol, target, done in edges]
                for edges in edges_of_states
            ]
            rules.redefine(origin, copy, states)
            if setting is None:
                below = {edge.symbol for edges in states for edge in edges if ACCEPT < edge.symbol < 0}
                new = below - seen - set(self._copies.values())
                seen |= new
                self._waiting += ((symbol, symbol, None) for symbol in sorted(new))
        ranked = sorted(self._ranks, key=self._ranks.__getitem__)
        numbers = {setting: number for number, setting in enumerate(ranked, 1)}
        rules.settings = ranked
        rules.settings_of = {new: numbers[setting] for (_, setting), new in self._terminals.items()}

    def _inside(self, symbol: int, setting: Setting | None) -> int:
        """The symbol that stands for `symbol` where `setting` holds."""
        if symbol == ACCEPT:
            return symbol
        if symbol in self._given:
            setting = self._joined(setting, symbol)
        if setting is None:
            return symbol
        copies = self._copies if symbol < 0 else self._terminals
        if (symbol, setting) not in copies:
            if symbol >= 0:
                copies[symbol, setting] = self._rules.copy_of_terminal(symbol)
            else:
                copy = self._rules.rule(self._rules.rule_names[-1 - symbol])
                if symbol in self._rules.captures:
                    self._rules.captures[copy] = self._rules.captures[symbol]
                copies[symbol, setting] = copy
                self._waiting.append((symbol, copy, setting))
        return copies[symbol, setting]

    def _joined(self, outer: Setting | None, symbol: int) -> Setting:
        own = self._given[symbol]
        merged = dict(outer.parameters if outer else ()) | dict(own.parameters)
        found = Setting(own.rule, tuple(sorted(merged.items())))
        known = next((one for one in self._ranks if one.parameters == found.parameters), found)
        self._ranks[known] = min(self._ranks.get(known, len(self._order)), self._order[symbol])
        if len(self._ranks) > MAX_SETTINGS:
            raise GrammarLimitError(
                f"the rule {own.rule}: more than {MAX_SETTINGS} different sets of sampling parameters hold"
            )
        return known
