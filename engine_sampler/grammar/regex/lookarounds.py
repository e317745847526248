"""Patterns whose operators are those of expressions: what their lookarounds see is intersected with it."""

from __future__ import annotations

from ..program.expression import (
    ANYTHING,
    EMPTY,
    EPSILON,
    Expression,
    both,
    complement,
    concat,
    guard,
    literal,
    nullable,
    optional,
    union,
)
from ..program.expression import repeat as repeat_expression
from ..program.unicode import ANY_CHARACTER, TEXT, invert
from ..work import spend, spend_on_each
from .tree import (
    ANY,
    LAST_LINE_END,
    TEXT_END,
    Choice,
    Lookaround,
    Node,
    Repeat,
    Sequence,
    Set,
    one_of,
)


def language(node: Node) -> Expression:
    """The plain language of the node; negative lookaheads become guards."""
    if isinstance(node, Set):
        return node.expression
    if isinstance(node, Sequence):
        return concat(*map(language, spend_on_each(node.items)))
    if isinstance(node, Choice):
        return union(*map(language, spend_on_each(node.items)))
    if isinstance(node, Repeat):
        return repeat_expression(language(node.item), node.low, node.high)
    assert isinstance(node, Lookaround)
    forbidden = language(node.item)
    return EMPTY if nullable(forbidden) else guard(EPSILON, forbidden)


class NeedsAutomaton(Exception):
    """The operators of expressions cannot express the pattern: it needs an automaton."""


_MAX_LOOKAROUNDS = 64


def whole(tree: Node, search: bool) -> Expression:
    """The texts that a pattern matches from beginning to end; `search`: those in which it is found. Raises
    `NeedsAutomaton`."""
    if not tree.has_lookaround:
        return concat(TEXT, _found(tree, True, True), TEXT) if search else language(tree)
    if _has_more_lookarounds(tree, _MAX_LOOKAROUNDS):
        raise NeedsAutomaton
    return _searched(tree) if search else _before(tree, EPSILON, True)


def _found(node: Node, before: bool, after: bool) -> Expression:
    """The language of the node, where any text may come before it, or after it, without what that includes.

    `a{2,5}` before any text is `aa` before any text.
    """
    if (before or after) and not node.shortest:
        return EPSILON
    if isinstance(node, Choice) and (before or after):
        return union(*(_found(item, before, after) for item in node.items))
    if isinstance(node, Repeat) and (before or after):
        if node.low == 1:
            return _found(node.item, before, after)
        return repeat_expression(language(node.item), node.low, node.low)
    if isinstance(node, Sequence):
        return _found_sequence(node, before, after)
    return language(node)


def _found_sequence(node: Sequence, before: bool, after: bool) -> Expression:
    items = list(node.items)
    first = last = EPSILON
    while items and after and last == EPSILON:
        last = _found(items.pop(), before and not items, after)
    while items and before and first == EPSILON:
        first = _found(items.pop(0), before, after and last == EPSILON and not items)
    return concat(first, *map(language, items), last)


def _searched(tree: Node) -> Expression:
    try:
        return concat(TEXT, _before(tree, TEXT, None))
    except NeedsAutomaton:  # the pattern depends on where the text begins
        later = _before(tree, TEXT, False)
        return union(_before(tree, TEXT, True), concat(ANY_CHARACTER, TEXT, later))


def _has_more_lookarounds(node: Node, most: int) -> bool:
    count, waiting = 0, [node]
    while waiting and count <= most:
        one = waiting.pop()
        if one.has_lookaround:
            count += isinstance(one, Lookaround)
            waiting += one.items if isinstance(one, Sequence | Choice) else (item_of(one),)
    return count > most


def _before(node: Node, after: Expression, begin: bool | None) -> Expression:
    """The node followed by `after`, to the end of the text.

    begin  whether the node is at the very beginning of the text; None if unknown
    """
    if not node.has_lookaround:
        return concat(language(node), after)
    if isinstance(node, Sequence):
        return _sequence_before(node, after, begin)
    if isinstance(node, Choice):
        return union(*(_before(item, after, begin) for item in node.items))
    if isinstance(node, Repeat):
        if node.high != 1:
            raise NeedsAutomaton
        once = _before(node.item, after, begin)
        return once if node.low else union(once, after)
    assert isinstance(node, Lookaround)
    return _lookahead(node, after, begin) if node.ahead else _lookbehind(node, after, begin)


def _sequence_before(node: Sequence, after: Expression, begin: bool | None) -> Expression:
    begins = []
    for item in spend_on_each(node.items):
        begins.append(begin)
        begin = False if item.shortest else begin if item.longest == 0 or begin is False else None
    items = list(node.items)
    while items:
        if plain := _popped_plain(items):  # all at once: each `concat` copies what follows
            after = concat(*map(language, plain), after)
            continue
        item = items.pop()
        plain = _popped_plain(items) if _looks_at_neighbours(item) else []
        if sum(node.shortest for node in plain):
            after = _between((item,), concat(*map(language, plain)), after)
        else:
            items += plain
            after = _before(item, after, begins[len(items)])
    return after


def _popped_plain(items: list[Node]) -> list[Node]:
    """The items without lookarounds at the end of a list, which loses them."""
    begin = len(items)
    while begin and not items[begin - 1].has_lookaround:
        begin -= 1
    spend((len(items) - begin) // 4)
    plain = items[begin:]
    del items[begin:]
    return plain


def _looks_at_neighbours(node: Node) -> bool:
    """Whether a node is empty, and looks back at one character at most, as `\\b` does."""
    if isinstance(node, Sequence | Choice):
        return all(map(_looks_at_neighbours, node.items))
    if not isinstance(node, Lookaround) or node.item.has_lookaround:
        return False
    return node.ahead or isinstance(node.item, Set)


def _between(nodes: tuple[Node, ...], before: Expression, after: Expression) -> Expression:
    """Nodes that all look at their neighbours, between `before`, which is never empty, and the rest."""
    if not nodes:
        return concat(before, after)
    spend()
    first, following = nodes[0], nodes[1:]
    if isinstance(first, Sequence):
        return _between((*first.items, *following), before, after)
    if isinstance(first, Choice):
        return union(*(_between((item, *following), before, after) for item in first.items))
    assert isinstance(first, Lookaround)
    if first.ahead:
        return _between(following, before, _lookahead(first, after, False))
    assert isinstance(first.item, Set)
    last = one_of(invert(first.item.ranges)) if first.negative else first.item
    return _between(following, both(before, concat(TEXT, language(last))), after)


def _lookahead(node: Lookaround, after: Expression, begin: bool | None) -> Expression:
    if node is TEXT_END:
        return EPSILON if nullable(after) else EMPTY
    if node is LAST_LINE_END:
        return _intersection(after, optional(literal(b"\n")))
    found = _before(node.item, ANYTHING, begin)
    return _intersection(after, complement(found) if node.negative else found)


def _intersection(after: Expression, required: Expression) -> Expression:
    if after == EPSILON:
        return EPSILON if nullable(required) else EMPTY
    return both(after, required)


def _lookbehind(node: Lookaround, after: Expression, begin: bool | None) -> Expression:
    if begin and node.item.shortest:
        holds = False
    elif begin is False and node.item is ANY:
        holds = True
    else:
        raise NeedsAutomaton
    return after if holds != node.negative else EMPTY


def item_of(node: Node) -> Node:
    """What is repeated, or looked for."""
    assert isinstance(node, Repeat | Lookaround)
    return node.item
