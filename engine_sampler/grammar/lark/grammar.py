"""Grammars in Lark's language.

    rules = rules_from_lark('start: "yes" | "no" REASON?\\nREASON: /, because .+/')

The language is the one that lark accepts with `parser="earley", lexer="dynamic_complete"`: rules, EBNF,
terminals with flags, templates, %import, %ignore, %declare, %extend, %override. Priorities, aliases and the
marks that shape trees do not change it. There are two differences: a terminal may be empty, and lookarounds
at the edges of a terminal hold for all its matches (lark drops them when it tries a shorter one). Conditions
on the text before a terminal, such as `\\b`, are refused unless all that may come before agrees.
`dialect` lists the forms beyond lark's syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from lark.load_grammar import Grammar as LarkGrammar
from lark.load_grammar import load_grammar

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..program.embedding import embed
from ..program.expression import ANYTHING, Expression
from ..program.rules import Rules
from ..regex.beginning import Before
from ..work import counted_work, spend
from .dead_ends.earley_dead_ends import drop_dead_ends, looking_ahead
from .dead_ends.ignored_text import move_ignored_into_rules
from .dead_ends.preceding_characters import texts_before
from .dead_ends.terminal_states import TerminalStates
from .dialect import Rewritten, rewrite
from .extensions.parametric import expanded
from .extensions.placeholders import Placeholder
from .gbnf import read_gbnf
from .lazy_terminals import guarded_terminals
from .library import library_source
from .messages import Messages, hinting
from .named_grammars import NamedGrammars
from .plain_definitions import Definition, plain_definitions
from .rules import RuleReader
from .statements import Scan, Word
from .terminals import Terminals

MAX_NESTED = 8
"""The deepest nesting of `%lark {...}`."""

_LOADING_STEPS = 50
"""The steps for a word that lark's loader reads."""

SchemaRules = Callable[[Any, Rules], int]
_load: Any = load_grammar
_LoadedGrammar: Any = LarkGrammar


def rules_from_lark(
    text: str,
    *,
    start: str = "start",
    path: str | None = None,
    import_paths: Iterable[str] = (),
    special_tokens: Mapping[str, int] | None = None,
    declared: Mapping[str, str] | None = None,
    named: NamedGrammars | None = None,
    schema_rules: SchemaRules | None = None,
) -> Rules:
    """The rules of a grammar in Lark's language.

    start           the rule that derives the whole text
    path            the file of the text, if any, which relative imports start from
    import_paths    folders to search for imported grammars, before the libraries
    special_tokens  ids by name, for `<|name|>` in rules and for declared terminals of that name
    declared        regular expressions for declared terminals; others match nothing
    named           the grammars for `@name`
    schema_rules    adds the rules of the schema of a `%json {...}` and returns the symbol of the first

    Raises GrammarError, with line and column where known, and GrammarLimitError.
    """
    with counted_work(), hinting(text):
        loaded = load(text, path, list(import_paths), special_tokens, declared, named)
        return _rules_of(loaded, start, schema_rules)


def rules_from_gbnf(text: str, root: str = "root", special_tokens: Mapping[str, int] | None = None) -> Rules:
    """The rules of a grammar in GBNF, whose texts the rule `root` derives; `special_tokens`, and what it
    raises, as in `rules_from_lark`."""
    with counted_work():
        read = read_gbnf(text, root)
        marked: Any = {"captures": read.captures, "settings": read.settings, "budgets": read.budgets}
        rewritten = Rewritten(text, read.placeholders, lazy=read.lazy, **marked)
        grammar: Any = _LoadedGrammar(
            [(name, (), tree, None) for name, tree in read.rules.items()],
            [(name, (None, 0)) for name in read.placeholders],
            [],
        )
        messages = Messages(read.lines, read.written | _written(rewritten), defined=read.defined)
        return _rules_of(Loaded(grammar, rewritten, messages, _tokens(special_tokens), {}), "start", None)


def _rules_of(
    loaded: Loaded, start: str, schema_rules: SchemaRules | None, within: tuple[str, ...] = ()
) -> Rules:
    """The rules of a loaded grammar that is `within` others, of which some have names."""
    with loaded.messages.placing():
        return _read_rules(_Reading(loaded, schema_rules, within), loaded, start)


def _read_rules(reading: _Reading, loaded: Loaded, start: str) -> Rules:
    rules = reading.rules(start, {}, {})
    preceding = reading.preceding(rules)
    if preceding:
        rules = reading.rules(start, {}, preceding)
    if loaded.rewritten.lazy:
        rules = reading.rules(start, reading.changes(), preceding)
    states = TerminalStates(rules.expressions)
    guarded = looking_ahead(rules)
    dropped = drop_dead_ends(rules, states, guarded)
    if (move_ignored_into_rules(rules, states) or dropped) and guarded:
        drop_dead_ends(rules, states, looking_ahead(rules))
    return reading.joined(rules) if reading.nests else rules


@dataclass(frozen=True)
class Loaded:
    """A grammar as lark's loader returns it, and the meaning of its names.

    grammar         lark's `Grammar` of the rewritten text
    messages        locates errors in the user's own text
    special_tokens, declared   the arguments of `rules_from_lark`
    folders         where imported grammars are
    named           the grammars for `@name`
    """

    grammar: Any
    rewritten: Rewritten
    messages: Messages
    special_tokens: Mapping[str, int]
    declared: Mapping[str, str]
    folders: list[str] = field(default_factory=list)
    named: NamedGrammars = field(default_factory=NamedGrammars)

    def terminal_trees(self) -> dict[str, Any]:
        """The tree of each terminal; None for one that is only declared."""
        return {name: tree for name, (tree, _) in self.grammar.term_defs}

    def rule_trees(self) -> dict[str, Any]:
        """The names of the parameters of each rule, and its tree."""
        return {
            str(name): (tuple(map(str, parameters)), tree)
            for name, parameters, tree, _ in self.grammar.rule_defs
        }

    def terminals(
        self,
        rules: Rules,
        definitions: Mapping[str, Any],
        changed: Mapping[str, Expression] | None = None,
        preceding: Mapping[str, Before] | None = None,
    ) -> Terminals:
        """The terminals of `definitions`, added to `rules` as they are needed."""
        meanings = self.special_tokens, self.declared, changed or {}, preceding
        return Terminals(rules, definitions, self.messages, self.rewritten, *meanings)


def load(
    text: str,
    path: str | None,
    folders: list[str],
    special_tokens: Mapping[str, int] | None,
    declared: Mapping[str, str] | None,
    named: NamedGrammars | None = None,
) -> Loaded:
    """Load a grammar. Raises as `rules_from_lark` does."""
    spend(len(text) // 16)
    scan = Scan(text)
    if "::" in text:
        scan = expanded(scan)
    with scan.placing():
        loaded = _load_scan(scan, path, folders, special_tokens, declared)
    return loaded if named is None else replace(loaded, named=named)


def _load_scan(
    scan: Scan,
    path: str | None,
    folders: list[str],
    special_tokens: Mapping[str, int] | None,
    declared: Mapping[str, str] | None,
) -> Loaded:
    scan.check_terminals()
    plain = plain_definitions(scan)
    if path is None:
        _refuse_relative_imports(scan)
    rewritten = rewrite(scan, plain)
    others = (statement for statement in scan.statements if statement.defines not in plain)
    spend(_LOADING_STEPS * (rewritten.declared // 4 + sum(len(statement.words) for statement in others)))
    messages = Messages(scan, _written(rewritten), scan.statements)
    sources = [*folders, library_source(scan, whole=bool(folders or path))]
    with messages.translated():
        grammar, _ = _load(rewritten.text, path or "the grammar", sources, False)
    _define(grammar, plain, messages)
    _sort(grammar, scan, rewritten)
    return Loaded(grammar, rewritten, messages, _tokens(special_tokens), declared or {}, folders)


def _tokens(special_tokens: Mapping[str, int] | None) -> Mapping[str, int]:
    # A mapping of length 0 may have values for names all the same.
    return {} if special_tokens is None else special_tokens


def _define(grammar: Any, plain: Mapping[str, Definition], messages: Messages) -> None:
    """Give the definitions that lark did not read to the grammar that it has loaded."""
    rules = {str(name): (parameters, tree, options) for name, parameters, tree, options in grammar.rule_defs}
    terminals = dict(grammar.term_defs)
    known = {*rules, *terminals, *plain}
    for name, definition in plain.items():
        for used in definition.uses:
            if used not in known:
                raise messages.about_name(f"Rule {quoted(used)} used but not defined (in rule {name})", used)
        if definition.is_terminal:
            terminals[name] = definition.tree, definition.options
        else:
            rules[name] = (), definition.tree, definition.options
    grammar.rule_defs = [(name, *definition) for name, definition in rules.items()]
    grammar.term_defs = list(terminals.items())


def _sort(grammar: Any, scan: Scan, rewritten: Rewritten) -> None:
    """Give definitions the order of the text, behind what is imported; what a rewritten text adds at its end
    is last."""
    places: dict[str, float] = {}
    terminals = {rule: name for name, rule in (rewritten.bounded | rewritten.lazy).items()}
    ignored = 0
    for number, statement in enumerate(scan.statements):
        name = statement.defines
        if statement.kind == "%declare":
            places.update(dict.fromkeys((word.text for word in statement.words[1:]), number))
        elif statement.kind == "%ignore":
            places[f"__IGNORE_{ignored}"] = number
            ignored += 1
        elif name and statement.words[0].kind != "directive":
            places[terminals.get(name, name)] = number
    added = (*rewritten.placeholders, *rewritten.lazy.values(), *rewritten.bounded.values())
    places.update(dict.fromkeys(added, inf))
    places = dict.fromkeys(rewritten.captures, inf) | places
    for definitions in (grammar.rule_defs, grammar.term_defs):
        definitions.sort(key=lambda definition: places.get(definition[0], -1))


def _refuse_relative_imports(scan: Scan) -> None:
    for statement in scan.statements:
        words = statement.words
        if statement.kind == "%import" and len(words) > 1 and words[1].text == ".":
            raise scan.error("a relative import needs the path of this grammar's file", words[1].start)


def _written(rewritten: Rewritten) -> dict[str, str]:
    """The text that the user wrote for each name that is new in the rewritten text."""
    words = {name: one.word.text for name, one in rewritten.placeholders.items()}
    return words | rewritten.lazy | rewritten.bounded


class _Reading:
    """The conversion of a loaded grammar to `Rules`: once, and again if terminals change others, or depend on
    what comes before them."""

    def __init__(self, loaded: Loaded, schema_rules: SchemaRules | None, within: tuple[str, ...]) -> None:
        self._loaded = loaded
        self._within = within
        self._nested: dict[int, Rules] = {}
        self._read: dict[Word, Rules] = {}
        """The nested grammars, by their words."""
        self._schema_rules = schema_rules

    def rules(self, start: str, changed: Mapping[str, Expression], preceding: Mapping[str, Before]) -> Rules:
        """The rules from `start` on, with the expressions of some terminals `changed`; `preceding` says what
        may stand before others."""
        rules = Rules()
        self._nested = {}
        loaded = self._loaded
        self._terminals = loaded.terminals(rules, loaded.terminal_trees(), changed, preceding)
        embedded = {
            name: self._embedded(rules, one)
            for name, one in loaded.rewritten.placeholders.items()
            if one.kind in ("json", "number", "lark", "named", "ended")
        }
        self._reader = RuleReader(
            rules,
            loaded.rule_trees(),
            self._terminals,
            embedded,
            loaded.messages,
            loaded.rewritten.captures,
            loaded.rewritten.settings,
            loaded.rewritten.budgets,
        )
        rules.start = self._reader.read(start)
        rules.ignore = list(dict.fromkeys(map(self._terminals.ignored, loaded.grammar.ignore)))
        return rules

    def preceding(self, rules: Rules) -> dict[str, Before]:
        """What may stand before the terminals that depend on it, by their keys in `Terminals.found`."""
        symbols = {name: self._terminals.found[name][0] for name in sorted(self._terminals.undecided)}
        if not symbols:
            return {}
        reader = self._reader
        found = texts_before(symbols.values(), rules.start, reader.bodies, rules.expressions, rules.ignore)
        return {name: found[symbol] for name, symbol in symbols.items()}

    def changes(self) -> dict[str, Expression]:
        """The expressions of the terminals that lazy ones change, by their keys in `Terminals.found`."""
        found = self._terminals.found
        read, ends = self._reader, self._terminals.ends
        lazy = {found[name][0] for name in self._loaded.rewritten.lazy if name in found}.union(ends)
        changed = guarded_terminals(read.start, read.bodies, dict(found.values()), lazy, ends)
        return {key: changed[symbol] for key, (symbol, _) in found.items() if symbol in changed}

    def _embedded(self, rules: Rules, placeholder: Placeholder) -> Callable[[], int]:
        """A function that returns the symbol of `%json {...}`, `%lark {...}` or `@name`; the first call adds
        its rules."""
        symbols: list[int] = []

        def symbol() -> int:
            if not symbols:
                symbols.append(self._add(placeholder, rules))
            return symbols[0]

        return symbol

    def _add(self, placeholder: Placeholder, rules: Rules) -> int:
        kind, value = placeholder.kind, placeholder.value
        if kind == "named":
            try:
                kind, value = self._loaded.named.find(value)
            except GrammarError as error:
                raise self._loaded.messages.error(error.text, placeholder.word.start) from None
        if kind == "ended":
            return self._reader.pairs(
                placeholder.word.text, self._terminals.ended(placeholder), value.reported
            )
        if kind in ("json", "number"):
            return self._add_schema(placeholder, value, rules)
        symbol = rules.terminal("NESTED", ANYTHING, shared=False)
        self._nested[symbol] = self._nested_rules(placeholder, value)
        return symbol

    def _add_schema(self, placeholder: Placeholder, schema: Any, rules: Rules) -> int:
        messages, word = self._loaded.messages, placeholder.word
        if self._schema_rules is None:
            raise messages.error("%json is not supported here", word.start)
        try:
            return self._schema_rules(schema, rules)
        except GrammarError as error:
            raise type(error)(f"{word.text}: {error}", *messages.location(word.start)) from error

    def _nested_rules(self, placeholder: Placeholder, text: str) -> Rules:
        """The rules of a grammar of its own. One without a name has as many lines before it as it has in the
        whole: its errors have their place there, those of one with a name only in words."""
        loaded, word = self._loaded, placeholder.word
        name = placeholder.value if placeholder.kind == "named" else ""
        read: dict[Any, Rules] = loaded.named.read if name else self._read
        location = loaded.messages.location(word.start)
        if name and name in self._within:
            raise GrammarError(f"the grammar @{name} contains itself", *location)
        if len(self._within) == MAX_NESTED:
            raise GrammarLimitError(f"grammars are nested more than {MAX_NESTED} deep", *location)
        if (name or word) not in read:
            try:
                tokens, declared = loaded.special_tokens, loaded.declared
                inner = load(text, None, loaded.folders, tokens, declared, loaded.named)
                if "start" not in inner.rule_trees():
                    raise GrammarError("there is no rule 'start' to start with")
                within = (*self._within, name)
                read[name or word] = _rules_of(inner, "start", self._schema_rules, within)
            except GrammarError as error:
                if error.line is not None and not name:
                    raise
                there = "" if error.line is None else f" (line {error.line}, column {error.column} of it)"
                raise type(error)(f"{word.text}: {error.text}{there}", *location) from None
        return read[name or word]

    @property
    def nests(self) -> bool:
        """Whether the grammar contains others."""
        return bool(self._nested)

    def joined(self, rules: Rules) -> Rules:
        """Rules with the nested grammars in their places: what each grammar ignores is so in it alone."""
        whole = Rules()
        nested = {symbol: partial(embed, inner, whole) for symbol, inner in self._nested.items()}
        whole.start = embed(rules, whole, nested)
        return whole
