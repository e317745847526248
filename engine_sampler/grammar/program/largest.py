"""The largest part of a program: what to make smaller first where a limit on compiling it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, NOT, REPEAT, UNION
from .rules import Program

_MAX_CODE = 200_000
"""The most code of expressions that is looked through."""

_CLASS_WORDS = 8


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
    nodes = _nodes(program.expressions)
    for name, root in zip(program.terminal_names, program.terminals, strict=True):
        waiting, seen, size = [root] if root >= 0 else [], {root}, 0
        while waiting:
            length, children = nodes[waiting.pop()]
            size += length
            new = [one for one in children if one not in seen]
            seen.update(new)
            waiting += new
        yield name, size


def _nodes(code: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    """The length of each node of an `Encoder`, and its children."""
    nodes: list[tuple[int, Sequence[int]]] = []
    at = 0
    while at < len(code):
        end, children = _node(code, at)
        nodes.append((end - at, children))
        at = end
    return nodes


def _node(code: Sequence[int], at: int) -> tuple[int, Sequence[int]]:
    """Where the node at a position ends, and its children."""
    kind = code[at]
    if kind == LITERAL:
        return at + 2 + code[at + 1], ()
    if kind == CLASS:
        return at + 1 + _CLASS_WORDS, ()
    if kind in (CONCAT, UNION, BOTH):
        return at + 2 + code[at + 1], code[at + 2 : at + 2 + code[at + 1]]
    if kind == NOT:
        return at + 2, code[at + 1 : at + 2]
    if kind == REPEAT:
        return at + 4, code[at + 1 : at + 2]
    if kind == GUARD:
        return at + 3, code[at + 1 : at + 3]
    if kind != AUTOMATON:
        raise ValueError(f"an expression of unknown kind {kind}")
    end = at + 2
    for _ in range(code[at + 1]):
        end += 2 + 3 * code[end + 1]
    return end, ()
