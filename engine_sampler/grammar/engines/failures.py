"""Why a program cannot be compiled: what in it matches nothing, or which part of it is the largest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import Expressions
from ..derivatives.limits import Meter
from ..derivatives.loading import numbers_of
from ..errors import GrammarError, GrammarLimitError
from ..program.expression import nodes_of
from ..program.rules import Program

_EMPTY = "no text at all matches the grammar"

_MAX_CODE = 200_000
"""The most code of expressions that is looked through."""


def with_reason(error: GrammarError, program: Program) -> GrammarError:
    """The error that `program` cannot be compiled, with the name of what is empty if that is the reason."""
    if error.text == _EMPTY and not program.parser:
        with suppress(GrammarLimitError):
            error.text += f": {_reason(program)}"
    return error


def _reason(program: Program) -> str:
    x = Expressions(Meter())
    numbers, derivatives = numbers_of(x, program.expressions), Derivatives(x)
    for name, node in zip(program.terminal_names, program.terminals, strict=True):
        if node >= 0 and not derivatives.live(numbers[node]):
            return f"the terminal {name} matches nothing"
    return f"the rule {program.rule_names[program.start]} never comes to an end"


def largest_part(program: Program) -> str:
    """The rule or terminal with most code, by its name; "" if it has none."""
    found = [(size, f"the rule {name}") for name, size in _rules(program) if name]
    if len(program.expressions) <= _MAX_CODE:
        found += [(size, f"the terminal {name}") for name, size in _terminals(program) if name]
    return max(found, default=(0, ""))[1]


def _rules(program: Program) -> Iterator[tuple[str, int]]:
    """The rules and the number of words that their edges take."""
    firsts = [*program.rules[::3], len(program.states) - 1]
    for name, begin, end in zip(program.rule_names, firsts, firsts[1:], strict=False):
        yield name, len(program.edges) * (program.states[end] - program.states[begin]) // program.states[-1]


def _terminals(program: Program) -> Iterator[tuple[str, int]]:
    """The terminals and the number of words that their expressions take."""
    nodes = list(nodes_of(program.expressions))
    for name, root in zip(program.terminal_names, program.terminals, strict=True):
        waiting, seen, size = [root] if root >= 0 else [], {root}, 0
        while waiting:
            node = nodes[waiting.pop()]
            size += node.end - node.begin
            new = [part for part in node.parts if part not in seen]
            seen.update(new)
            waiting += new
        yield name, size
