"""Reachability in graphs, and in rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..work import spend, spend_on_each
from .rules import ACCEPT, Edge

Node = TypeVar("Node", bound=Hashable)


def nodes_reaching(steps: Iterable[tuple[Node, Node]], ends: Iterable[Node]) -> set[Node]:
    """The nodes from which one of `ends` can be reached, including `ends`.

    steps  pairs of a node and a successor
    """
    sources: dict[Node, list[Node]] = {}
    for source, target in spend_on_each(steps):
        sources.setdefault(target, []).append(source)
    reaching = set(ends)
    unvisited = list(reaching)
    while unvisited:
        before = sources.get(unvisited.pop(), ())
        spend(1 + len(before) // 8)
        for source in before:
            if source not in reaching:
                reaching.add(source)
                unvisited.append(source)
    return reaching


def states_reaching_ends(
    edges: Sequence[Sequence[Edge]], rules: Mapping[int, int], terminals: Iterable[int]
) -> tuple[set[int], set[int]]:
    """The states of rules from which the rule can end, whatever the values of the registers, and the symbols
    that some text matches, among them ACCEPT.

    edges      of each state, over the states of all rules
    rules      the symbol of each rule, by its first state
    terminals  those that some text matches
    """
    sources: list[list[int]] = [[] for _ in edges]
    users: dict[int, list[int]] = {}
    for state, some in enumerate(edges):
        spend(1 + len(some) // 2)
        for symbol, target, _ in some:
            sources[target].append(state)
            users.setdefault(symbol, []).append(state)
    live: set[int] = set()
    symbols = {ACCEPT, *terminals}
    waiting = [state for symbol in symbols for state in users.get(symbol, ())]
    while waiting:
        state = waiting.pop()
        spend(1 + len(edges[state]) // 8)
        if state in live or not any(
            symbol in symbols and (symbol == ACCEPT or target in live) for symbol, target, _ in edges[state]
        ):
            continue
        live.add(state)
        waiting += sources[state]
        if state in rules:
            symbols.add(rules[state])
            waiting += users.get(rules[state], ())
    return live, symbols


def unite(sets: list[int], edges: list[list[int]]) -> list[int]:
    """Add to each set all sets that can be reached from it. Sets that can reach each other become equal: they
    are found as Tarjan's algorithm does, without recursion. Returns for each the number of one of these."""
    groups = list(range(len(sets)))
    depth = [0] * len(sets)  # 0: not seen yet
    done = len(sets) + 1
    path: list[int] = []
    for start, targets in enumerate(edges):
        if depth[start] or not targets:
            continue
        calls = [(start, iter(targets))]
        path.append(start)
        depth[start] = lowest = len(path)
        lows = [lowest]
        while calls:
            number, rest = calls[-1]
            for target in rest:
                if not depth[target] and edges[target]:
                    calls.append((target, iter(edges[target])))
                    path.append(target)
                    depth[target] = len(path)
                    lows.append(len(path))
                    break
                if 0 < depth[target] < lows[-1]:
                    lows[-1] = depth[target]
                sets[number] |= sets[target]
            else:
                spend(1 + len(edges[number]) // 4)
                calls.pop()
                low = lows.pop()
                if low == depth[number]:  # all that the path has since then can reach each other
                    while True:
                        member = path.pop()
                        sets[member], depth[member], groups[member] = sets[number], done, number
                        if member == number:
                            break
                elif low < lows[-1]:
                    lows[-1] = low
                if calls:
                    sets[calls[-1][0]] |= sets[number]
    return groups
