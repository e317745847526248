"""Checks of what the callers of a scheduler give."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.arguments import entries_of, integer_of, not_allowed
from ..base.errors import quoted
from ..contract import Param, ParameterError, Vocabulary
from ..contract.draft_trees import checked_tree
from ..requests.drafted import Draft
from ..requests.ending import RequestError
from ..requests.results import RequestId

POSITION = Param("position", int, None, low=0, high=2**62)
"""The index of the next token of a request."""

_A_TREE = "(token_ids, parents) for each request, or None"

_NUMBERS = itertools.count()
_LONGEST_NAME = 100

_NO_TOKENS = np.empty(0, np.int64)
_NO_TOKENS.flags.writeable = False


def scheduler_name(name: Any) -> str:
    """The name of a scheduler; the next number without one."""
    if name is None:
        return str(next(_NUMBERS))
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise ParameterError(f"name={quoted(name)} is not allowed: 1 to {_LONGEST_NAME} characters")
    return name


def token_ids_in(name: str, token_ids: Any, vocabulary: Vocabulary) -> np.ndarray:
    """Token ids of the vocabulary, copied into an int64 array that cannot be written to."""
    if isinstance(token_ids, tuple) and not token_ids:
        return _NO_TOKENS
    given = _integers(name, token_ids, np.array)
    ids = given.astype(np.int64, copy=False)
    if (
        ids.size and np.maximum.reduce(ids.view(np.uint64)) >= vocabulary.size
    ):  # negative ids are the greatest
        vocabulary.check_ids(name, given.tolist())  # finds and names the first
    ids.flags.writeable = False
    return ids


def few_token_ids_in(name: str, token_ids: Any, vocabulary: Vocabulary) -> list[int]:
    """`token_ids_in` as a list, which is faster for a handful."""
    ids: list[int] = _integers(name, token_ids, np.asarray).tolist()
    if ids and (min(ids) < 0 or max(ids) >= vocabulary.size):
        vocabulary.check_ids(name, ids)
    return ids


def _integers(name: str, token_ids: Any, array: Callable[[Any], np.ndarray]) -> np.ndarray:
    """`token_ids` as an array, made by `array`, if it is a list of integers."""
    try:
        ids = array(token_ids)
    except MemoryError:
        raise
    except Exception as error:  # ragged lists, or whatever an `__array__` raises
        raise _not_ids(name, token_ids) from error
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise _not_ids(name, token_ids)
    return ids


def _not_ids(name: str, token_ids: Any) -> ParameterError:
    return ParameterError(f"{name}={quoted(token_ids)} is not allowed: a list of token ids")


def check_at_least_one(**numbers: int | None) -> None:
    """Raise `ParameterError`, which names it, for a number below 1; None is no number."""
    for name, value in numbers.items():
        if value is not None:
            integer_of(name, value, 1)


def chosen_tokens_in(
    token_ids: Sequence[int], logprobs: Sequence[float], vocabulary: Vocabulary
) -> tuple[list[int], list[float]]:
    """Tokens chosen elsewhere, and the logprob of each: 0 if none are known. Raises `ParameterError`."""
    tokens = few_token_ids_in("token_ids", token_ids, vocabulary)
    if len(logprobs) not in (0, len(tokens)):
        raise ParameterError(f"logprobs has {len(logprobs)} entries for {len(tokens)} tokens")
    return tokens, [*logprobs] or [0.0] * len(tokens)


def drafts_in(drafts: Any, request_ids: Sequence[RequestId], vocabulary: Vocabulary) -> list[list[int]]:
    """The drafts of each request, in row order, from a list of them or a mapping by id. Raises `RequestError`
    and `ParameterError`."""
    return [
        few_token_ids_in("draft_token_ids", draft, vocabulary)
        for draft in _by_request("draft_token_ids", drafts, request_ids)
    ]


def all_drafts_in(
    chains: Any, trees: Any, request_ids: Sequence[RequestId], vocabulary: Vocabulary
) -> list[Draft]:
    """The drafts of each request, in row order, from lists or mappings by id: of tokens in `chains`, of pairs
    of tokens and parents in `trees`. None stands for no drafts. Raises `RequestError` and `ParameterError`.
    """
    no_drafts: list[list[int]] = [[]] * len(request_ids)
    drafts = no_drafts if chains is None else drafts_in(chains, request_ids, vocabulary)
    if trees is None:
        return [Draft(draft) for draft in drafts]
    everyone = []
    for request_id, draft, tree in zip(
        request_ids, drafts, _by_request("draft_trees", trees, request_ids), strict=True
    ):
        nodes, parents = _tree_in(tree, vocabulary)
        if nodes and draft:
            named = quoted(request_id)
            raise RequestError(
                f"request {named} has draft_token_ids and a tree in draft_trees: one is allowed"
            )
        everyone.append(Draft(nodes, parents) if nodes else Draft(draft))
    return everyone


def _tree_in(tree: Any, vocabulary: Vocabulary) -> tuple[list[int], list[int]]:
    if tree is None:
        return [], []
    pair = entries_of("draft_trees", tree, _A_TREE)
    if not pair:
        return [], []
    if len(pair) != 2:
        raise not_allowed("draft_trees", tree, _A_TREE)
    nodes, parents = checked_tree(pair[0], pair[1], "draft_trees")
    vocabulary.check_ids("draft_trees", nodes)
    return nodes, parents


def _by_request(name: str, entries: Any, request_ids: Sequence[RequestId]) -> Sequence[Any]:
    """What is given for each request, in row order; () for those that a mapping does not name."""
    if isinstance(entries, Mapping):
        known = set(request_ids)
        for request_id in entries:
            if request_id not in known:
                raise RequestError(f"{name} names {quoted(request_id)}, which has no rows in this step")
        entries = [entries.get(request_id, ()) for request_id in request_ids]
    if len(entries) != len(request_ids):
        raise RequestError(f"{name} has {len(entries)} entries for {len(request_ids)} requests")
    return entries
