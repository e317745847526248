"""Lark grammars as lark's LALR parser with its contextual lexer reads them.

    rules = rules_from_lalr('start: NAME "if" NAME\\nNAME: /[a-z]+/\\n%ignore " "')

The language is the one that `lark.Lark(text, parser="lalr", lexer="contextual")` accepts. The lexer tries the
terminals that the state of the parser accepts, and the ignored ones, in the order of their priorities; the
first one that matches is read, as far as it can. A literal that a regular expression of the same priority
matches as well is a keyword: it is read as that expression, and is the literal if it is the whole text.

Lark computes the tables; `program.lalr` describes their encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lark import Tree
from lark.grammar import Terminal
from lark.lexer import PatternRE, TerminalDef

from ....base.cached import cached_property
from ...program.expression import BOTH, CONCAT, GUARD, UNION, Expression, looks_ahead, nullable
from ...program.lalr import ACCEPT, IGNORED, KEYWORD, NOTHING, LalrState, Pairs, Parser, encoded, once
from ...program.rules import Rules, sequence
from ...regex.beginning import TEXT_BEGIN, Before
from ...regex.pattern import Outline
from ...work import counted_work, spend, spend_on_each
from ..dead_ends.preceding_characters import texts_before_entries
from ..dialect import Rewritten
from ..extensions.terminal_operators import OperatorTerminal
from ..grammar import Loaded, load
from ..messages import Messages, hinting
from ..named_grammars import NamedGrammars
from ..rules import RuleReader
from ..terminal_patterns import pattern_of
from ..terminals import Terminals
from .expansion_bounds import check_expansion, without_endless_counts
from .lalr_tables import LalrTables, tables_of
from .lexer_dead_ends import without_dead_ends
from .lexer_order import LexerOrder, OperatorWidths, lexer_outlines

_REFUSED = {
    "json": "%json needs the lexer dynamic_complete",
    "named": "@name needs the lexer dynamic_complete",
    "lark": "%lark needs the lexer dynamic_complete",
    "regex": "%regex needs the lexer dynamic_complete",
    "number": "%regex needs the lexer dynamic_complete",
    "bounded": "max_tokens and max_chars need the lexer dynamic_complete",
}

_COMPILING_STEPS, _TERMINAL_STEPS = 32, 20
"""The steps in which lark compiles one node of the tree of a rule, or one terminal."""

_PAIRS_IN_A_STEP = 5
"""How many pairs of a bracket and a symbol of one sequence lark looks at in one step."""

_INSTANCE_STEPS = 300
"""The steps in which lark makes one rule of a template, a copy of its tree."""

_RULE_STEPS = 30
"""The steps for a plain rule and its terminals after that, beside those of the analysis."""


def rules_from_lalr(
    text: str,
    *,
    start: str = "start",
    path: str | None = None,
    import_paths: Iterable[str] = (),
    special_tokens: Mapping[str, int] | None = None,
    declared: Mapping[str, str] | None = None,
    named: NamedGrammars | None = None,
) -> Rules:
    """The rules of a grammar in Lark's language, for lark's LALR parser and contextual lexer.

    The arguments are those of `grammar.rules_from_lark`; a declared terminal is defined by its regular
    expression, as if the grammar contained it. Lazy rules, %json and %regex are refused: a lexer cannot read
    them.

    Raises GrammarError, with line and column where known, also for a grammar that is not LALR, and
    GrammarLimitError.
    """
    with counted_work(), hinting(text):
        loaded = load(text, path, list(import_paths), special_tokens, declared, named)
        _refuse_extensions(loaded.rewritten, loaded.messages)
        return _Reading(loaded).rules(start)


def _refuse_extensions(rewritten: Rewritten, messages: Messages) -> None:
    for rule in rewritten.settings:
        text = f"the sampling parameters of the rule {rule} need the lexer dynamic_complete"
        raise messages.about_name(text, rule)
    for rule in rewritten.budgets:
        raise messages.about_name(_REFUSED["bounded"], rule)
    for rule in rewritten.lazy.values():
        raise messages.about_name(f"the lazy rule {rule} needs the lexer dynamic_complete", rule)
    for one in rewritten.placeholders.values():
        if one.kind in _REFUSED:
            raise messages.error(_REFUSED[one.kind], one.word.start)


@dataclass(frozen=True)
class _Compiled:
    """A grammar compiled by lark: terminals with their patterns, plain rules, ignored terminals."""

    terminals: list[Any]
    rules: list[Any]
    ignore: list[str]


class _Reading:
    """The conversion of a loaded grammar to `Rules`."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._grammar = loaded.grammar
        self._messages = loaded.messages

    def rules(self, start: str) -> Rules:
        """Rules with the tables of the parser for the texts of `start`."""
        self._check(start)
        compiled = self._compiled(start)
        outlines = self._outlines(compiled)
        with self._messages.translated():
            tables = tables_of(compiled.rules, start)
        rules = Rules()
        expressions, order = self._expressions(compiled, tables, outlines)
        symbols = dict(self._symbols(rules, expressions, tables))
        rules.start = rules.rule(start)
        rules.define(rules.start, sequence())  # unused: the tables are the grammar
        rules.parser = encoded(without_dead_ends(_parser(tables, symbols, order), rules))
        rules.side_names = _sides(tables)
        captures = self._loaded.rewritten.captures
        rules.captures = {
            -1 - i: captures[name] for i, name in enumerate(rules.side_names) if name in captures
        }
        return rules

    def _check(self, start: str) -> None:
        """Refuse rules that lark would expand without end, and rewrite counts that it lacks."""
        names = [str(name) for name, *_ in self._grammar.rule_defs]
        if start not in names:
            raise self._messages.no_start(start, names)
        if any(parameters for _, parameters, *_ in self._grammar.rule_defs):
            self._check_templates(start)
        trees = {str(name): tree for name, _, tree, _ in self._grammar.rule_defs if tree is not None}
        for tree in spend_on_each(list(trees.values()), 5):
            without_endless_counts(tree)
        check_expansion(trees, self._messages)

    def _check_templates(self, start: str) -> None:
        """Refuse templates that use each other without end: `RuleReader` counts its steps."""
        rules, loaded = Rules(), self._loaded
        terminals = loaded.terminals(rules, loaded.terminal_trees(), preceding={})
        RuleReader(rules, loaded.rule_trees(), terminals, {}, self._messages).read(start)
        spend(_INSTANCE_STEPS * len(rules.rule_names))

    def _compiled(self, start: str) -> _Compiled:
        trees = [tree for _, _, tree, _ in self._grammar.rule_defs if tree]
        spend(sum(map(_compiling_steps, trees)))
        self._grammar.term_defs = list(map(self._with_pattern, self._grammar.term_defs))
        with self._messages.translated():
            terminals, rules, ignore = self._grammar.compile([start], set())
        spend(_RULE_STEPS * len(rules) + sum(len(rule.expansion) for rule in rules))
        used = {s.name for rule in rules for s in rule.expansion if isinstance(s, Terminal)}
        added = [
            TerminalDef(name, PatternRE(pattern))
            for name, pattern in self._loaded.declared.items()
            if name in used.union(ignore) and name in self._undefined()
        ]
        added += [
            TerminalDef(name, PatternRE(operator.text), operator.priority)
            for name, operator in self._operators.items()
            if name in used.union(ignore)
        ]
        for terminal in terminals:
            if terminal.name.startswith("__ANON"):
                self._messages.show_as(terminal.name, terminal.pattern.raw or repr(terminal.pattern.value))
        return _Compiled([*terminals, *added], rules, ignore)

    def _with_pattern(self, definition: Any) -> Any:
        """The definition of a terminal with its pattern as the tree, since lark counts no work to make it.
        Lark refuses an empty one."""
        name, (tree, priority) = definition
        spend(_TERMINAL_STEPS)
        with self._messages.translated(terminal=name):
            pattern = pattern_of(tree) if tree else None
        return (name, (Tree("pattern", [pattern]), priority)) if pattern and pattern.value else definition

    @cached_property
    def _operators(self) -> dict[str, OperatorTerminal]:
        """The terminals with & or ~, which lark does not know."""
        placeholders = self._loaded.rewritten.placeholders
        return {name: one.value for name, one in placeholders.items() if one.kind == "operators"}

    @cached_property
    def _patterns(self) -> dict[str, Any]:
        """The pattern of each terminal; None for one that is only declared."""
        trees = self._loaded.terminal_trees()
        return {
            name: tree.children[0] if tree and tree.data == "pattern" else tree
            for name, tree in trees.items()
        }

    def _outlines(self, compiled: _Compiled) -> dict[str, Outline]:
        """The outline of each terminal that the lexers try."""
        plain = [one for one in compiled.terminals if one.name not in self._operators]
        widths = OperatorWidths(self._operators, self._patterns)
        with self._messages.translated():
            found = {name: Outline((1, widths.of(name)), False) for name in self._operators}
            return found | lexer_outlines(plain, {*compiled.ignore}.difference(found), self._messages)

    def _undefined(self) -> set[str]:
        """The terminals that are only declared."""
        return {name for name, tree in self._loaded.terminal_trees().items() if tree is None}

    def _expressions(
        self, compiled: _Compiled, tables: LalrTables, outlines: Mapping[str, Outline]
    ) -> tuple[dict[str, Expression], LexerOrder]:
        """The expression of each terminal, and their order in the lexers."""
        patterns = {one.name: one.pattern for one in compiled.terminals}

        def terminals(preceding: Mapping[str, Before]) -> Terminals:
            return self._loaded.terminals(Rules(), self._patterns | patterns, preceding=preceding)

        anywhere = terminals({})
        expressions = {name: anywhere.expression(name) for name in patterns}
        undecided = sorted(anywhere.undecided)
        at_begin = terminals(dict.fromkeys(undecided, TEXT_BEGIN))
        alone = expressions | {name: at_begin.expression(name) for name in undecided}
        order = LexerOrder(compiled.terminals, compiled.ignore, outlines, alone)
        if undecided:
            tried = [{name for name, *_ in order.entries(state.actions)} for state in tables.states]
            lexers: list[tuple[str | None, set[str]]] = [
                (name, tried[to]) for state in tables.states for name, to in state.actions.items() if to >= 0
            ]
            lexers.append((None, tried[tables.first]))
            before = terminals(texts_before_entries(undecided, lexers, expressions, compiled.ignore))
            expressions |= {name: before.expression(name) for name in undecided}
        for name, expression in expressions.items():
            if name in self._operators and nullable(expression):
                raise self._messages.about_terminal("it matches the empty text", name, None)
            if _looks_ahead_in_a_loop(expression):
                text = "a look-ahead in a loop needs the lexer dynamic_complete"
                raise self._messages.about_terminal(text, name, None)
        return expressions, order

    def _symbols(
        self, rules: Rules, expressions: Mapping[str, Expression], tables: LalrTables
    ) -> Iterator[tuple[str, int]]:
        """The symbol of each terminal that can occur. One that is only declared cannot."""
        for name, expression in expressions.items():
            yield name, rules.terminal(name, expression, shared=False)
        undefined = self._loaded.terminals(rules, dict.fromkeys(self._undefined()))
        special = {name for name, one in self._loaded.rewritten.placeholders.items() if one.is_token}
        special |= self._undefined().intersection(set(self._loaded.special_tokens))
        for name in sorted(special & tables.terminals - expressions.keys()):
            yield name, undefined.symbol(name)


def _compiling_steps(tree: Any) -> int:
    """The steps for what lark does with a tree: for each node, and for each pair of a bracket and a symbol in
    one sequence, since it begins that again after every bracket. What several nodes share counts for each."""
    waiting, pairs = [tree], 0
    for node in waiting:
        inner = [child for child in node.children if isinstance(child, Tree)]
        if node.data == "expansion":
            pairs += len(node.children) * sum(child.data == "expansions" for child in inner)
        waiting += inner
    return _COMPILING_STEPS * len(waiting) + pairs // _PAIRS_IN_A_STEP


def _looks_ahead_in_a_loop(expression: Expression) -> bool:
    """Whether an expression has a guard elsewhere than within sequences, choices and intersections."""
    kind, *parts = expression
    if kind in (BOTH, CONCAT, UNION):
        return any(map(_looks_ahead_in_a_loop, parts[0]))
    return _looks_ahead_in_a_loop(parts[0]) if kind == GUARD else looks_ahead(expression)


def _sides(tables: LalrTables) -> list[str]:
    """The left sides of the rules, by number."""
    return list(dict.fromkeys(name for name, _ in tables.rules))


def _parser(tables: LalrTables, symbols: Mapping[str, int], order: LexerOrder) -> Parser:
    """The tables with numbers instead of names."""
    sides = {name: number for number, name in enumerate(_sides(tables))}
    lexing = tables.shifted | {tables.first}
    known: dict[frozenset[str], Pairs] = {}

    @once
    def actions_of(actions: Mapping[str, int]) -> Pairs:
        return [(symbols[name], action) for name, action in actions.items() if name in symbols]

    @once
    def entries_of(actions: Mapping[str, int]) -> Pairs:
        key = frozenset(actions)
        if key not in known:
            known[key] = [
                (symbols[name], KEYWORD * keyword | IGNORED * ignored)
                for name, keyword, ignored in order.entries(actions)
            ]
        return known[key]

    states = [
        LalrState(
            actions_of(state.actions),
            [(sides[name], target) for name, target in state.gotos.items() if name in sides],
            ACCEPT if number == tables.last else NOTHING if state.end is None else state.end,
            entries_of(state.actions) if number in lexing else [],
        )
        for number, state in enumerate(tables.states)
    ]
    return Parser([(sides[name], length) for name, length in tables.rules], states, tables.first)
