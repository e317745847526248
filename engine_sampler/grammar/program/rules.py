"""Grammars in the form that the engines read: terminals, and rules as small automata.

A front end (Lark text, JSON Schema, a regular expression, ...) fills a `Rules`; `program()` turns it into
a `Program`: plain arrays that both engines, the one in C and the one in Python, read.

    rules = Rules()
    word = rules.terminal("WORD", expression)
    value = rules.rule("value")
    rules.define(value, alternatives(word, sequence(word, value)))
    rules.start = value

A **symbol** is an int: terminals count up from 0, rules down from -1. The body of a rule is a symbol, or
is composed of other bodies by `sequence`, `alternatives` and `repeated`. Between two terminals, before
the first and after the last, text that a terminal of `rules.ignore` matches is skipped: always the
longest match of that terminal.

A rule can also be given as an automaton with **registers** (`define_automaton`): bits and counters that
belong to one instance of the rule, start at 0, and are tested and changed on the automaton's edges.
That is how a JSON object accepts its properties in any order, each at most once and all required ones.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter

from ...base.cached import cached_property
from ..errors import GrammarError
from ..work import spend, spend_on_each
from .bodies import ACCEPT as ACCEPT
from .bodies import MANY, RuleAutomaton
from .bodies import MAX_NESTING as MAX_NESTING
from .bodies import Body as Body
from .bodies import Edge as Edge
from .bodies import PlainEdge as PlainEdge
from .bodies import alternatives as alternatives
from .bodies import repeated as repeated
from .bodies import sequence as sequence
from .expression import Encoder, Expression, literal, packed
from .operations import Operation
from .part_budgets import apply_budgets
from .settings import Mark, Setting, apply_settings
from .special_names import Binding

UNIQUE_MARK = b"\xff"
"""The byte that may follow the bracket of an array whose items must differ, and an item of any other array;
no text of a grammar has it."""

MAX_UNIQUE_ITEMS = 1_024
"""The most items of such an array."""


@dataclass(frozen=True)
class Program:
    """A grammar as arrays of 32-bit integers: what engines compile, and what is saved.

    expressions      see `Encoder`
    terminals        for each terminal its expression, or -1 if it represents special tokens
    special_starts   [terminals + 1] for each terminal, the index of its first token id in `special_ids`
    special_ids      token ids, of special terminals only
    rules            for each rule: first state, number of bits, number of counters
    states           [states + 1] the first edge of each state
    edges            for each edge: symbol, target, begin and end of its operations in `operations`
    operations       for each operation: its length, then its members
    ignore           terminals that are skipped between others
    parser           the tables of an LALR parser with one lexer per state, or empty: then the parser is
                     Earley's; see `lalr`
    start            the number of the rule that is the whole text (0, 1, ...)
    terminal_names   of all terminals; for people, as are the others
    rule_names       of all rules; then, of an LALR parser, of the left sides of its rules
    unique_keys      the texts are JSON, and those in which an object repeats a key are not meant
    unique_items     whether a bracket may be followed by `UNIQUE_MARK`: the items of that array differ
    indexed_items    whether what such an item may be depends on how many come before it
    unenforced       what the language should have required besides, in words: ignored on request
    captures         the rules whose matches are reported, and under which name: the symbol of a rule, or
                     -1 - the left side of rules of an LALR parser; the language is the same
    skipped          the terminals in rules that are ignored text: captures do not begin or end with them
    budgets          [terminals, levels] how many tokens may begin in each terminal, 0 for any number, or,
                     negated, in a part of the text that it goes on with, see `part_budgets`; empty if nothing
                     has a budget. It binds matchers only, which know the tokens, as far as the text can end
                     there
    settings         the sampling parameters of some parts of the text; of those that apply, the first count
    settings_of      for each terminal, the number of its settings, counted from 1, or 0; empty without any
    """

    expressions: array[int]
    terminals: array[int]
    special_starts: array[int]
    special_ids: array[int]
    rules: array[int]
    states: array[int]
    edges: array[int]
    operations: array[int]
    ignore: array[int]
    parser: array[int]
    start: int
    terminal_names: tuple[str, ...] = ()
    rule_names: tuple[str, ...] = ()
    unique_keys: bool = False
    budgets: array[int] = field(default_factory=lambda: array("i"))
    unique_items: bool = False
    indexed_items: bool = False
    unenforced: tuple[str, ...] = ()
    captures: tuple[tuple[int, str], ...] = ()
    skipped: tuple[int, ...] = ()
    settings: tuple[Setting, ...] = ()
    settings_of: tuple[int, ...] = ()

    def __repr__(self) -> str:
        counts = f"{len(self.rules) // 3} rules, {len(self.states) - 1} states"
        if self.parser:
            counts = f"LALR parser of {self.parser[0]} states"
        return f"<Program {self.key[:8]}: {counts}, {len(self.terminals)} terminals>"

    @cached_property
    def key(self) -> str:
        """A hash of the content: programs with equal keys describe equal languages, and capture alike."""
        content = b"|".join(arrays_of(self))
        content += str(self.start).encode() + b"|unique keys" * self.unique_keys
        content += (
            b"|unique items" * self.unique_items
            + b"|indexed items" * self.indexed_items
            + "|".join(self.unenforced).encode()
        )
        content += repr((*self.settings, self.settings_of)).encode() if self.settings else b""
        content += repr((self.captures, self.skipped)).encode() if self.captures else b""
        return hashlib.sha256(content).hexdigest()[:32]

    @property
    def weight(self) -> int:
        """The size of all arrays, in bytes."""
        return sum(map(len, arrays_of(self))) * self.expressions.itemsize

    def with_special_tokens(self, token_ids: Sequence[int]) -> Program:
        """A copy in which special tokens that are given by number, as -1 - i, have the ids token_ids[i]."""
        ids = (token_ids[-1 - i] if i < 0 else i for i in self.special_ids)
        return replace(self, special_ids=array("i", ids))

    def special_ids_of(self, terminal: int) -> array[int]:
        """The special tokens that are given for a terminal."""
        return self.special_ids[self.special_starts[terminal] : self.special_starts[terminal + 1]]

    def with_special_terminals(self, token_ids: Mapping[int, Sequence[int]]) -> Program:
        """A copy in which the terminals `token_ids` match one of these tokens, and nothing else."""
        terminals, starts, ids = array("i"), array("i", [0]), array("i")
        for symbol, node in enumerate(self.terminals):
            terminals.append(-1 if symbol in token_ids else node)
            ids.extend(token_ids.get(symbol, self.special_ids_of(symbol) if node < 0 else ()))
            starts.append(len(ids))
        return replace(self, terminals=terminals, special_starts=starts, special_ids=ids)


PROGRAM_ARRAYS = tuple(field.name for field in fields(Program) if field.type == "array[int]")
"""The fields of a `Program` that are arrays."""

arrays_of = attrgetter(*PROGRAM_ARRAYS)
"""These arrays of a `Program`, in order."""


@dataclass
class Rules:
    """A grammar under construction.

    bindings  what a vocabulary makes of some terminals
    """

    start: int = -1
    ignore: list[int] = field(default_factory=list)
    parser: array[int] = field(default_factory=lambda: array("i"))
    unique_keys: bool = False
    unique_items: bool = False
    indexed_items: bool = False

    def __post_init__(self) -> None:
        self.after_items: set[tuple[int, int]] = set()
        """The rules and states after items that may be repeated: if there are arrays in which others may not,
        the program says so by `UNIQUE_MARK`."""
        self.unenforced: dict[str, None] = {}
        self.marks: dict[int, Mark] = {}
        """What rules set, by their symbols: `settings` once the program is made."""
        self.part_budgets: dict[int, int] = {}
        """How many tokens may begin in each text of some rules, by their symbols: `budgets` once the program
        is made."""
        self.settings: list[Setting] = []
        self.settings_of: dict[int, int] = {}
        self.captures: dict[int, str] = {}
        self.skipped: set[int] = set()
        self.terminal_names: list[str] = []
        self.rule_names: list[str] = []
        self.side_names: list[str] = []
        """Of the left sides in `parser`."""
        self._encoder = Encoder()
        self._terminals: list[int] = []
        self._by_expression: dict[tuple[int, int], int] = {}
        self.budgets: dict[int, tuple[int, ...]] = {}
        """Of some terminals, at each level."""
        self.bindings: list[Binding] = []
        self._special: dict[int, tuple[int, ...]] = {}
        self._automata: list[tuple[Sequence[Sequence[PlainEdge]], int, int] | None] = []
        self.expressions: list[Expression | None] = []
        """The expression of each terminal; None for special tokens."""

    def __repr__(self) -> str:
        names = self.rule_names
        start = names[-1 - self.start] if -len(names) <= self.start < 0 else None
        return f"<Rules: {len(names)} rules, {len(self.terminal_names)} terminals, start {start}>"

    def copy(self) -> Rules:
        """Other rules that begin with the same terminals. There must be no rules yet."""
        other = Rules(self.start, self.ignore[:], self.parser, self.unique_keys, self.unique_items)
        other.indexed_items = self.indexed_items
        other.terminal_names, other.expressions = self.terminal_names[:], self.expressions[:]
        other._encoder = self._encoder.copy()
        other._terminals, other._by_expression = self._terminals[:], self._by_expression.copy()
        other.budgets = self.budgets.copy()
        other.bindings, other._special = self.bindings[:], self._special.copy()
        return other

    def prepare(self, parts: Iterable[Expression]) -> None:
        """Encode expressions that terminals of copies will contain."""
        for part in parts:
            self._encoder.prepare(part)

    def code(self) -> array[int]:
        """What the `expressions` of the program of a copy begin with."""
        return self._encoder.packed()

    def terminal(self, name: str, expression: Expression, *, shared: bool = True, budget: int = 0) -> int:
        """The symbol of a terminal in which so many tokens may begin, any number for 0. If `shared`, equal
        expressions have one symbol, and its first name."""
        known = self._encoder.count
        node = self._encoder.add(expression)
        spend(8 + 2 * (self._encoder.count - known))
        symbol = self._by_expression.get((node, budget)) if shared else None
        if symbol is None:
            symbol = self._add_terminal(name, node, expression)
            if budget:
                self.budgets[symbol] = (budget,)
            if shared:
                self._by_expression[node, budget] = symbol
        return symbol

    def special(self, name: str, token_ids: Sequence[int]) -> int:
        """The symbol of a terminal that matches any one of the special tokens `token_ids`."""
        symbol = self._add_terminal(name, -1, None)
        self._special[symbol] = tuple(token_ids)
        return symbol

    def marker(self, name: str, expression: Expression) -> int:
        """The symbol of a terminal that is the special token `name` in vocabularies that have it, and what
        the expression matches in all others."""
        symbol = self.terminal(name, expression, shared=False)
        self.bindings.append(Binding(symbol, "marker", name))
        return symbol

    def token_except(self, token_ids: Sequence[int]) -> int:
        """The symbol of a terminal that matches any one token, special or not, except `token_ids`."""
        symbol = self.special("TOKEN", token_ids)
        self.bindings.append(Binding(symbol, "token_except"))
        return symbol

    def text_except(self, text: Expression, token_ids: Sequence[int]) -> Body:
        """Text that is written without the tokens `token_ids`: `text` if all of these are special, and never
        part of a text therefore; else any ordinary tokens but these.

        `text` must not match the empty text.
        """
        whole = self.terminal("TEXT", text, shared=False)
        token = self.special("TOKEN", token_ids)
        self._special[whole] = tuple(token_ids)
        self.bindings += [Binding(whole, "text"), Binding(token, "ordinary_except")]
        return sequence(repeated(token), alternatives(whole, sequence()))

    def _add_terminal(self, name: str, node: int, expression: Expression | None) -> int:
        self._terminals.append(node)
        self.expressions.append(expression)
        self.terminal_names.append(name)
        return len(self._terminals) - 1

    def copy_of_terminal(self, terminal: int) -> int:
        """The symbol of a new terminal like `terminal`."""
        symbol = self._add_terminal(
            self.terminal_names[terminal], self._terminals[terminal], self.expressions[terminal]
        )
        if terminal in self.budgets:
            self.budgets[symbol] = self.budgets[terminal]
        if terminal in self._special:
            self._special[symbol] = self._special[terminal]
        if terminal in self.skipped:
            self.skipped.add(symbol)
        self.bindings += [one._replace(symbol=symbol) for one in self.bindings if one.symbol == terminal]
        return symbol

    def rule(self, name: str) -> int:
        """The symbol of a rule that is defined later."""
        self.rule_names.append(name)
        self._automata.append(None)
        return -len(self._automata)

    def define(self, rule: int, body: Body) -> None:
        """Define `rule` as `body`."""
        if isinstance(body, int):
            self.define_automaton(rule, ([Edge(body, 1)], [Edge(ACCEPT, 1)]))
            return
        builder = RuleAutomaton()
        end = builder.state()
        builder.edges[end].append(Edge(ACCEPT, end))
        builder.build(body, 0, end)
        spend(2 * len(builder.edges))
        self.define_automaton(rule, builder.without_epsilon_edges(), 0, builder.counters)

    def define_automaton(
        self, rule: int, states: Sequence[Sequence[PlainEdge]], bits: int = 0, counters: int = 0
    ) -> None:
        """Define `rule` as an automaton: the edges of each state; the first state is 0.

        An edge over the symbol `ACCEPT` ends the rule if its operations pass (its target is unused).
        """
        self._automata[-1 - rule] = states, bits, counters

    def redefine(self, rule: int, copy: int, states: Sequence[Sequence[PlainEdge]]) -> None:
        """Define `copy` as `rule` with other `states`, which have the same registers."""
        _, bits, counters = self._automata[-1 - rule] or ((), 0, 0)
        self.define_automaton(copy, states, bits, counters)

    def states_of(self, rule: int) -> Sequence[Sequence[PlainEdge]]:
        """The edges of each state of a rule; () if it is not yet defined."""
        automaton = self._automata[-1 - rule]
        return () if automaton is None else automaton[0]

    def append(self, other: Rules, terminals: Sequence[int]) -> int:
        """Append the rules of `other`, all of which are defined; its terminal i is terminals[i] here.

        Returns how many rules came before: the symbol s of a rule there is s minus that here.
        """
        self.unique_items |= other.unique_items
        self.indexed_items |= other.indexed_items
        self.unenforced |= other.unenforced
        before = len(self._automata)
        self.captures |= {rule - before: name for rule, name in other.captures.items()}
        symbols = {ACCEPT: ACCEPT, **dict(enumerate(terminals))}
        symbols |= {-1 - rule: -1 - rule - before for rule in range(len(other._automata))}
        for name, automaton in zip(other.rule_names, other._automata, strict=True):
            if automaton is None:
                raise GrammarError(f"the rule {name} is used but not defined")
            states = [[(symbols[one], to, done) for one, to, done in edges] for edges in automaton[0]]
            self._automata.append((states, *automaton[1:]))
        self.rule_names += other.rule_names
        return before

    def automata(self) -> list[list[list[Edge]]]:
        """The edges of each state of each rule that has been defined; they may be changed."""
        found = []
        for number, automaton in enumerate(self._automata):
            if automaton is not None:
                found.append([[Edge(*edge) for edge in edges] for edges in automaton[0]])
                self._automata[number] = (found[-1], *automaton[1:])
        return found

    def program(self) -> Program:
        """The grammar as arrays. Raises GrammarError for a rule without a definition."""
        if self.unique_items:
            self._mark_repetitions()
        if self.part_budgets:
            given, self.part_budgets = self.part_budgets, {}
            apply_budgets(self, given)
        if self.marks:
            marks, self.marks = self.marks, {}
            apply_settings(self, marks)
        rules: list[int] = []
        states: list[int] = []
        edges: list[int] = []
        operations: list[int] = []
        spans: dict[tuple[Operation, ...], tuple[int, int]] = {}
        first = counted = 0
        for name, automaton in spend_on_each(list(zip(self.rule_names, self._automata, strict=True)), 4):
            if automaton is None:
                raise GrammarError(f"the rule {name} is used but not defined")
            edges_of_states, bits, counters = automaton
            rules += (first, bits, counters)
            length = len(edges_of_states)
            for outgoing in edges_of_states if length < MANY else spend_on_each(edges_of_states):
                states.append(len(edges) >> 2)
                for symbol, target, ops in outgoing:
                    if not ops:
                        edges += (symbol, first + target, 0, 0)
                        continue
                    span = spans.get(ops)
                    if span is None:
                        begin = len(operations)
                        for operation in ops:
                            operations += (len(operation), *operation)
                        span = spans[ops] = begin, len(operations)
                    edges += (symbol, first + target, *span)
            first += length
            if len(edges) > counted + 16 * MANY:
                spend((len(edges) - counted) // 16)
                counted = len(edges)
        states.append(len(edges) >> 2)
        levels = max(map(len, self.budgets.values()), default=0)
        none = (0,) * levels
        budgets = [self.budgets.get(i, ()) + none for i in range(len(self._terminals)) if levels]
        special_starts, special_ids = array("i", bytes(4)) * (len(self._terminals) + 1), array("i")
        for symbol in range(len(self._terminals)) if self._special else ():
            special_ids.extend(self._special.get(symbol, ()))
            special_starts[symbol + 1] = len(special_ids)
        return Program(
            self._encoder.packed(),
            _packed(self._terminals),
            special_starts,
            special_ids,
            _packed(rules),
            _packed(states),
            _packed(edges),
            _packed(operations),
            array("i", self.ignore),
            self.parser,
            -1 - self.start,
            tuple(self.terminal_names),
            (*self.rule_names, *self.side_names),
            self.unique_keys,
            array("i", [number for one in budgets for number in one[:levels]]),
            self.unique_items,
            self.indexed_items,
            tuple(self.unenforced),
            tuple(self.captures.items()),
            tuple(sorted(self.skipped)),
            tuple(self.settings),
            tuple(self.settings_of.get(i, 0) for i in range(len(self._terminals))) if self.settings else (),
        )

    def _mark_repetitions(self) -> None:
        """Let arrays read `UNIQUE_MARK` after items that they may repeat."""
        repeated = self.terminal("REPEATED_ITEM", literal(UNIQUE_MARK))
        for rule, state in sorted(self.after_items):
            states = self.states_of(rule)
            edges = [*states[state], (repeated, state, ())]
            self.redefine(rule, rule, [*states[:state], edges, *states[state + 1 :]])
        self.after_items.clear()


def _packed(numbers: Sequence[int]) -> array[int]:
    return array("i", packed(numbers))


def program_of(name: str, expression: Expression) -> Program:
    """The program of a grammar of one terminal."""
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal(name, expression))
    return rules.program()
