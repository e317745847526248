"""Draft trees: guesses about the next tokens of a text, several for one place, and their masks.

A tree is two lists: the token of each node, and the number of the node that it follows, −1 for one that
follows the text itself. A node stands behind the one that it follows.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from ..base.arguments import array_of, not_allowed
from ..base.errors import ParameterError
from .matchers import is_bounded
from .work import Work

MAX_NODES = 1024
"""The most nodes of one tree."""


def checked_tree(token_ids: Any, parents: Any, name: str = "") -> tuple[list[int], list[int]]:
    """The tokens and the parents of a tree as lists of the same length. Raises `ParameterError`, which names
    `name` beside the argument."""
    of = f"{name}: " if name else ""
    tokens = _integers(f"{of}token_ids", token_ids, "a list of token ids")
    before = _integers(f"{of}parents", parents, "a list of integers")
    if len(tokens) > MAX_NODES:
        raise ParameterError(f"{of}a tree of {len(tokens)} nodes is not allowed: {MAX_NODES} are the most")
    if len(tokens) != len(before):
        raise ParameterError(f"{of}there are {len(before)} parents for {len(tokens)} token_ids")
    if min(before, default=0) < -1 or any(map(operator.ge, before, range(len(before)))):
        node, parent = next((i, p) for i, p in enumerate(before) if not -1 <= p < i)
        raise not_allowed(f"{of}parents[{node}]", parent, f"-1 to {node - 1}")
    return tokens, before


def _integers(name: str, values: Any, allowed: str) -> list[int]:
    if type(values) is list and {int}.issuperset(map(type, values)):
        return values.copy()
    if isinstance(values, Sized) and not len(values):
        return []
    numbers: list[int] = array_of(name, values, "iu", 1, allowed).tolist()
    return numbers


def fill_tree_bitmask(
    matcher: Any,
    token_ids: Sequence[int],
    parents: Sequence[int],
    bitmask: np.ndarray,
    row: int = 0,
    work: Work | None = None,
) -> np.ndarray:
    """Fill the masks of all nodes of a tree, for any matcher: by its own method of this name if it has one,
    else a copy of it goes through the tree. The matcher stays as it is.

    bitmask  int32 [rows, ceil(vocab / 32)]: `row` gets the mask of the text's next token, row + 1 + i that of
             the token after node i, all 0 where the text cannot go.

    Returns bool [nodes], which of them the matcher admits after those before them. Raises what the matcher
    raises, and `ParameterError` for lists that are no tree.
    """
    own = getattr(matcher, "fill_tree_bitmask", None)
    if own is not None:
        return np.asarray(own(token_ids, parents, bitmask, row, *(() if work is None else (work,))), bool)
    return walk_tree(matcher, token_ids, parents, bitmask, row, work)


def walk_tree(
    matcher: Any,
    token_ids: Sequence[int],
    parents: Sequence[int],
    bitmask: np.ndarray,
    row: int = 0,
    work: Work | None = None,
) -> np.ndarray:
    """`fill_tree_bitmask` by a copy that accepts tokens and takes them back."""
    tokens, before = checked_tree(token_ids, parents)
    limits = {"work": work} if work is not None and is_bounded(matcher) else {}
    is_admitted = np.zeros(len(tokens), bool)
    bitmask[row + 1 : row + 1 + len(tokens)] = 0
    copy, path = matcher.fork(), list[int]()
    copy.fill_bitmask(bitmask, row, **limits)
    for node, parent in enumerate(before):
        if parent >= 0 and not is_admitted[parent]:
            continue
        ahead = _path_to(parent, before)
        common = len({*path} & {*ahead})
        copy.rollback(len(path) - common)
        del path[common:]
        for other in (*ahead[common:], node):
            if copy.accept(tokens[other], **limits):
                path.append(other)
        if path[-1:] == [node]:
            is_admitted[node] = True
            copy.fill_bitmask(bitmask, row + 1 + node, **limits)
    return is_admitted


def _path_to(node: int, parents: Sequence[int]) -> list[int]:
    """The nodes from the first one to `node`; none for −1."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]
