"""Rules of a lark grammar as rules of `Rules`.

They are read from the trees that lark's loader builds. Lark itself would expand every rule to plain
sequences, which takes exponential time where optional parts follow each other. Here they become the small
automata of `Rules`, and templates are instantiated once for each list of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lark.grammar import Symbol

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..program.rules import Body, Rules, alternatives, repeated, sequence
from ..program.settings import Mark
from ..work import spend
from .messages import Messages
from .statements import ENDLESS
from .terminal_patterns import LITERALS
from .terminals import Terminals

MAX_STEPS = 250_000
"""The most parts that rules may have once templates are instantiated."""

MAX_COUNT = 1_000_000
"""The highest bound of a repetition in a rule."""

_STEPS, _REPETITION_STEPS, _PART_STEPS = 2, 4, 6
"""The steps for a part, and those that a repetition, or a rule of its own, takes beside them."""

_MAX_SEQUENCE = 32
_MAX_CHOICE = 64
"""Longer sequences and wider choices are split into rules: the work for an automaton is quadratic."""

_MAX_COUNTED = 64
"""Repetitions of a rule are counted up to this bound; beyond it, they are split into halves."""

_SINGLE = ("expansion", "expansions", "alias", "value")
"""The nodes that may hold one part only."""

Environment = Mapping[str, "int | str"]
"""The arguments of a template, by parameter: a symbol, or the name of another template."""


class RuleReader:
    """Defines the rules that are reachable from the start rule.

    definitions  the parameters and the tree of each rule; the tree of a declared one is None
    embedded     for each terminal that stands for rules defined elsewhere, a function that returns a symbol
    captures     the names under which matches of rules are reported, by rule
    marks        the sampling parameters that rules set, by rule
    budgets      how many tokens may begin in the texts of rules, by rule
    """

    def __init__(
        self,
        rules: Rules,
        definitions: Mapping[str, tuple[tuple[str, ...], Any]],
        terminals: Terminals,
        embedded: Mapping[str, Callable[[], int]],
        messages: Messages,
        captures: Mapping[str, str] | None = None,
        marks: Mapping[str, Mark] | None = None,
        budgets: Mapping[str, int] | None = None,
    ) -> None:
        self._rules = rules
        self._marks = marks or {}
        self._budgets = budgets or {}
        self._captures = captures or {}
        self._definitions = definitions
        self._terminals = terminals
        self._embedded = embedded
        self._messages = messages
        self._symbols: dict[tuple[str, tuple[int | str, ...]], int] = {}
        self._waiting: list[tuple[int, str, Environment]] = []
        self._parts: dict[tuple[Body, ...], int] = {}
        self._owner = ""
        self._steps = 0
        self.bodies: dict[int, Body] = {}
        self.start = 0

    def read(self, start: str) -> int:
        """Define the rule `start` and all rules that it uses; returns its symbol. Raises GrammarError."""
        if start not in self._definitions:
            raise self._messages.no_start(start, self._definitions)
        self.start = self._rule(start, ())
        with self._messages.within_rule(lambda: self._owner):
            while self._waiting:
                rule, self._owner, environment = self._waiting.pop()
                tree = self._definitions[self._owner][1]
                self._define(rule, alternatives() if tree is None else self._body(tree, environment))
        return self.start

    def _define(self, rule: int, body: Body) -> None:
        self.bodies[rule] = body
        self._rules.define(rule, body)

    def _rule(self, name: str, arguments: tuple[int | str, ...]) -> int:
        symbol = self._symbols.get((name, arguments))
        if symbol is None:
            if name not in self._definitions:
                raise self._messages.about_name(f"the rule {quoted(name)} is used but not defined", name)
            parameters = self._definitions[name][0]
            if len(parameters) != len(arguments):
                text = f"the template {quoted(name)} takes {len(parameters)} arguments, not {len(arguments)}"
                raise self._messages.about_name(text, name)
            symbol = self._symbols[name, arguments] = self._rules.rule(name)
            if name in self._captures:
                self._rules.captures[symbol] = self._captures[name]
            if name in self._marks:
                self._rules.marks[symbol] = self._marks[name]
            if name in self._budgets:
                self._rules.part_budgets[symbol] = self._budgets[name]
            self._waiting.append((symbol, name, dict(zip(parameters, arguments, strict=True))))
        return symbol

    def pairs(self, name: str, symbols: list[tuple[int, int]], captured: str) -> int:
        """The symbol of a rule that is one of some pairs of symbols, the second of which is captured under a
        name, "" for none."""
        symbol = self._rules.rule(name)
        pairs = []
        for first, last in symbols:
            if captured:
                last, inner = self._rules.rule(f"{name}~"), last
                self._rules.captures[last] = captured
                self._define(last, inner)
            pairs.append(sequence(first, last))
        self._define(symbol, alternatives(*pairs))
        return symbol

    # --- the body of a rule --------------------------------------------------------------------------

    def _body(self, node: Any, environment: Environment) -> Body:
        self._steps += 1
        spend(_STEPS)
        if self._steps > MAX_STEPS:
            raise GrammarLimitError(f"the rules have more than {MAX_STEPS} parts with templates instantiated")
        if isinstance(node, Symbol):
            return self._named(node, environment)
        kind, children = node.data, node.children
        if kind == "value":
            child = children[0]
            if isinstance(child, Symbol):
                return self._named(child, environment)
            node, kind, children = child, child.data, child.children
        if kind == "expansion":
            return self._sequence([self._body(child, environment) for child in children])
        if kind in LITERALS:
            return self._terminals.anonymous(node)
        if kind == "expansions":
            return self._choice(children, environment)
        if kind in ("expr", "maybe"):
            spend(_REPETITION_STEPS)
        if kind == "expr":
            return self._repetition(self._body(children[0], environment), *children[1:])
        if kind == "maybe":
            return repeated(self._choice(children, environment), 0, 1)
        if kind == "template_usage":
            return self._usage(node, environment)
        return self._body(children[0], environment)  # an expansion with an alias

    def _named(self, symbol: Symbol, environment: Environment) -> int:
        name = symbol.name
        if symbol.is_term:
            embedded = self._embedded.get(name)
            return embedded() if embedded else self._terminals.symbol(name)
        value = environment.get(name, name)
        return self._rule(value, ()) if isinstance(value, str) else value

    def _usage(self, node: Any, environment: Environment) -> int:
        name = environment.get(node.children[0].name, node.children[0].name)
        if not isinstance(name, str):
            text = f"{quoted(node.children[0].name)} is not a template"
            raise self._messages.about_name(text, node.children[0].name)
        arguments = tuple(self._argument(child, environment) for child in node.children[1:])
        return self._rule(name, arguments)

    def _argument(self, node: Any, environment: Environment) -> int | str:
        """An argument of a template: a symbol, or the name of another template."""
        while not isinstance(node, Symbol) and node.data == "value":
            node = node.children[0]
        if isinstance(node, Symbol) and not node.is_term:
            value = environment.get(node.name, node.name)
            if isinstance(value, str) and self._definitions.get(value, ((), None))[0]:
                return value
        return self._part(self._body(node, environment))

    # --- choices, sequences, repetitions -------------------------------------------------------------

    def _choice(self, nodes: list[Any], environment: Environment) -> Body:
        """One of `nodes`, with all the literals among them combined."""
        if len(nodes) == 1:
            body = self._body(nodes[0], environment)
            return self._part(body) if _size(body) > _MAX_CHOICE else body
        literals = [literal for node in nodes if (literal := _single_literal(node)) is not None]
        bodies: list[Body] = []
        if len(literals) > 1:
            bodies += self._terminals.choice(literals)
            nodes = [node for node in nodes if _single_literal(node) is None]
        bodies += [self._body(node, environment) for node in nodes]
        bodies = self._split(list(dict.fromkeys(bodies)), alternatives, _MAX_CHOICE)
        return bodies[0] if len(bodies) == 1 else alternatives(*bodies)

    def _sequence(self, bodies: list[Body]) -> Body:
        if len(bodies) == 1 and isinstance(bodies[0], int):
            return bodies[0]
        bodies = self._split(bodies, sequence, _MAX_SEQUENCE)
        return bodies[0] if len(bodies) == 1 else sequence(*bodies)

    def _split(self, bodies: list[Body], join: Callable[..., Body], limit: int) -> list[Body]:
        """Equivalent bodies with at most `limit` symbols, with parts moved to rules if there are more."""
        sizes = list(map(_size, bodies))
        if sum(sizes) > limit:
            bodies = [body if _is_flat(body) else self._part(body) for body in bodies]
            sizes = list(map(_size, bodies))
        while sum(sizes) > limit:
            groups = _groups(bodies, sizes, limit)
            bodies = [self._part(group[0] if len(group) == 1 else join(*group)) for group in groups]
            sizes = [1] * len(bodies)
        return bodies

    def _repetition(self, body: Body, operator: Any, low: Any = "", high: Any = "") -> Body:
        if operator == "?":
            return repeated(body, 0, 1)
        if operator != "~":
            return repeated(body, int(operator == "+"))
        least, most = int(low), int(high or low)
        if least < 0 or most < least:
            raise GrammarError(f"a count cannot range from {least} to {most}", low.line, low.column)
        if least > MAX_COUNT or MAX_COUNT < most != ENDLESS:
            raise GrammarLimitError(f"a count is above {MAX_COUNT}", low.line, low.column)
        return self._counted(self._part(body), least, most)

    def _counted(self, item: int, low: int, high: int) -> Body:
        """`item`, low to high times.

        Only terminals are counted up to large bounds: a rule that can be empty would be counted up to the end
        at every position where it may begin.
        """
        if high == ENDLESS:
            if item >= 0 or low <= _MAX_COUNTED:
                return repeated(item, low)
            return sequence(self._exactly(item, low), repeated(item))
        if item >= 0 or high <= _MAX_COUNTED:
            return repeated(item, low, high)
        return sequence(self._exactly(item, low), self._up_to(item, high - low))

    def _exactly(self, item: int, count: int) -> Body:
        """`item`, `count` times, as two halves."""
        if count <= 1:
            return item if count else sequence()
        half = self._shared((item, count // 2), lambda: self._exactly(item, count // 2))
        return sequence(half, half, item) if count % 2 else sequence(half, half)

    def _up_to(self, item: int, count: int) -> Body:
        """`item`, at most `count` times: up to half of that, or more, in one way only."""
        if count <= 1:
            return repeated(item, 0, 1) if count else sequence()
        half = count // 2
        left = count - half - 1
        few = self._shared((item, 0, half), lambda: self._up_to(item, half))
        rest = self._shared((item, 0, left), lambda: self._up_to(item, left))
        return alternatives(few, sequence(self._exactly(item, half + 1), rest))

    def _part(self, body: Body) -> int:
        """`body` as a symbol, of a rule of its own if necessary."""
        return body if isinstance(body, int) else self._shared((body,), lambda: body)

    def _shared(self, key: tuple[Body, ...], body: Callable[[], Body]) -> int:
        """The symbol of an anonymous rule with that body; one for each key."""
        symbol = self._parts.get(key)
        if symbol is None:
            spend(_PART_STEPS)
            symbol = self._parts[key] = self._rules.rule(f"{self._owner}~")
            self._define(symbol, body())
        return symbol


def _size(body: Body) -> int:
    """The number of symbols in `body`."""
    if isinstance(body, int):
        return 1
    return _size(body[1]) if body[0] == "repeated" else 1 + sum(map(_size, body[1]))


def _is_flat(body: Body) -> bool:
    """Whether `body` is a symbol, or some that follow each other: as parts, they need no epsilon edges."""
    if isinstance(body, int):
        return True
    return body[0] == "sequence" and bool(body[1]) and all(isinstance(part, int) for part in body[1])


def _groups(bodies: list[Body], sizes: list[int], limit: int) -> list[list[Body]]:
    """Bodies that follow each other, as many as have `limit` symbols; at least one."""
    groups: list[list[Body]] = []
    left = 0
    for body, size in zip(bodies, sizes, strict=True):
        if size > left:
            groups.append([])
            left = limit
        groups[-1].append(body)
        left -= size
    return groups


def _single_literal(node: Any) -> Any:
    """The literal that `node`, a part of a choice, consists of; None if it is anything else."""
    while not isinstance(node, Symbol):
        kind = node.data
        if kind in LITERALS:
            return node
        if kind not in _SINGLE or (len(node.children) != 1 and kind != "alias"):
            return None
        node = node.children[0]
    return None
