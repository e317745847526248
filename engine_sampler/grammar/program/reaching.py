"""Backward reachability in graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def nodes_reaching(steps: Iterable[tuple[Node, Node]], ends: Iterable[Node]) -> set[Node]:
    """The nodes from which one of `ends` can be reached, including `ends`.

    steps  pairs of a node and a successor
    """
    sources: dict[Node, list[Node]] = {}
    for source, target in steps:
        sources.setdefault(target, []).append(source)
    found = set(ends)
    waiting = list(found)
    while waiting:
        for source in sources.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found
