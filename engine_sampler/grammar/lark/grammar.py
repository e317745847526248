"""Grammars in Lark's language.

    rules = rules_from_lark('start: "yes" | "no" REASON?\\nREASON: /, because .+/')

The language is what lark accepts with `parser="earley", lexer="dynamic_complete"`: rules, EBNF, terminals
with flags, templates, %import, %ignore, %declare, %extend, %override. Priorities, aliases and the marks
that shape trees do not change it. Two things are kinder here: a terminal may be empty, and a lookahead
holds wherever its terminal ends (lark forgets it where it tries less than the terminal could take).
`lark_dialect` lists what may be written beyond lark's syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lark.load_grammar import load_grammar

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import Expression
from ..program.rules import Rules
from .dialect import Placeholder, Rewritten, rewrite
from .lazy import committed
from .lexer import Scan
from .library import library
from .messages import Messages
from .rules import RuleReader
from .terminals import Terminals

SchemaRules = Callable[[Any, Rules], int]
_load: Any = load_grammar


def rules_from_lark(
    text: str,
    *,
    start: str = "start",
    path: str | None = None,
    import_paths: Iterable[str] = (),
    special_tokens: Mapping[str, int] | None = None,
    declared: Mapping[str, str] | None = None,
    schema_rules: SchemaRules | None = None,
) -> Rules:
    """The rules of a grammar in Lark's language.

    start           the rule that is the whole text
    path            the file of the text, if it has one: where relative imports begin
    import_paths    folders to search for imported grammars, before the libraries
    special_tokens  ids by name, for `<|name|>` in rules and for declared terminals of that name
    declared        regular expressions for declared terminals; others match nothing
    schema_rules    makes rules of the schema of a `%json {...}` and gives the symbol of the first

    Raises GrammarError, with line and column where known, and GrammarLimitError.
    """
    try:
        return _rules_of(text, start, path, list(import_paths), special_tokens, declared, schema_rules)
    except RecursionError:
        raise GrammarLimitError("the grammar is nested too deep for what is left of the stack") from None


def _rules_of(
    text: str,
    start: str,
    path: str | None,
    folders: list[str],
    special_tokens: Mapping[str, int] | None,
    declared: Mapping[str, str] | None,
    schema_rules: SchemaRules | None,
) -> Rules:
    loaded = load(text, path, folders, special_tokens, declared)
    reading = _Reading(loaded, schema_rules)
    rules = reading.rules(start, {})
    if loaded.rewritten.lazy:
        rules = reading.rules(start, reading.changes())
    return rules


@dataclass(frozen=True)
class Loaded:
    """A grammar as lark's loader gives it, and what its names mean.

    grammar         lark's `Grammar` of the rewritten text
    messages        knows the places of the user's own text
    special_tokens, declared   as `rules_from_lark` was given them
    """

    grammar: Any
    rewritten: Rewritten
    messages: Messages
    special_tokens: Mapping[str, int]
    declared: Mapping[str, str]

    def terminal_trees(self) -> dict[str, Any]:
        """Of each terminal its tree; None where it is only declared."""
        return {name: tree for name, (tree, _) in self.grammar.term_defs}

    def rule_trees(self) -> dict[str, Any]:
        """Of each rule the names of its parameters, and its tree."""
        return {
            str(name): (tuple(map(str, parameters)), tree)
            for name, parameters, tree, _ in self.grammar.rule_defs
        }

    def terminals(
        self, rules: Rules, definitions: Mapping[str, Any], changed: Mapping[str, Expression] | None = None
    ) -> Terminals:
        """The terminals of `definitions`, made in `rules` as they are asked for."""
        given = self.special_tokens, self.declared, changed or {}
        return Terminals(rules, definitions, self.messages, self.rewritten, *given)


def load(
    text: str,
    path: str | None,
    folders: list[str],
    special_tokens: Mapping[str, int] | None,
    declared: Mapping[str, str] | None,
) -> Loaded:
    """A grammar, loaded; raises as `rules_from_lark` does."""
    scan = Scan(text)
    scan.check_terminals()
    if path is None:
        _refuse_relative_imports(scan)
    rewritten = rewrite(scan)
    messages = Messages(scan, _written(rewritten))
    sources = [*folders, library(scan, whole=bool(folders or path))]
    with messages.translated():
        grammar, _ = _load(rewritten.text, path or "the grammar", sources, False)
    tokens = {} if special_tokens is None else special_tokens  # an empty mapping may yet know names
    return Loaded(grammar, rewritten, messages, tokens, declared or {})


def _refuse_relative_imports(scan: Scan) -> None:
    for statement in scan.statements:
        words = statement.words
        if statement.kind == "%import" and len(words) > 1 and words[1].text == ".":
            raise scan.error("a relative import needs the path of this grammar's file", words[1].start)


def _written(rewritten: Rewritten) -> dict[str, str]:
    """What the user wrote for the names that are new in the rewritten text."""
    return {name: one.word.text for name, one in rewritten.placeholders.items()} | rewritten.lazy


class _Reading:
    """A loaded grammar, made into `Rules`: once, or twice where lazy terminals change others."""

    def __init__(self, loaded: Loaded, schema_rules: SchemaRules | None) -> None:
        self._loaded = loaded
        self._schema_rules = schema_rules

    def rules(self, start: str, changed: Mapping[str, Expression]) -> Rules:
        """The rules from `start` on, with the expressions of some terminals `changed`."""
        rules = Rules()
        loaded = self._loaded
        self._terminals = loaded.terminals(rules, loaded.terminal_trees(), changed)
        embedded = {
            name: self._embedded(rules, one)
            for name, one in loaded.rewritten.placeholders.items()
            if one.kind == "json"
        }
        self._reader = RuleReader(rules, loaded.rule_trees(), self._terminals, embedded, loaded.messages)
        rules.start = self._reader.read(start)
        rules.ignore = list(dict.fromkeys(map(self._terminals.symbol, loaded.grammar.ignore)))
        return rules

    def changes(self) -> dict[str, Expression]:
        """What lazy terminals make of others, by their keys in `Terminals.found`."""
        found = self._terminals.found
        lazy = {found[name][0] for name in self._loaded.rewritten.lazy if name in found}
        changed = committed(self._reader.start, self._reader.bodies, dict(found.values()), lazy)
        return {key: changed[symbol] for key, (symbol, _) in found.items() if symbol in changed}

    def _embedded(self, rules: Rules, placeholder: Placeholder) -> Callable[[], int]:
        """Makes the rules of a `%json {...}` when they are first asked for."""
        made: list[int] = []

        def make() -> int:
            if not made:
                messages = self._loaded.messages
                if self._schema_rules is None:
                    raise messages.error("there is nothing here to read %json", placeholder.word.start)
                try:
                    made.append(self._schema_rules(placeholder.value, rules))
                except GrammarError as error:
                    place = messages.place(placeholder.word.start)
                    raise type(error)(f"%json: {error}", *place) from error
            return made[0]

        return make
