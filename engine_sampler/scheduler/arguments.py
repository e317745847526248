"""Checks of what the callers of a scheduler give."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.arguments import integer_of
from ..base.errors import quoted
from ..contract import Param, ParameterError, Vocabulary
from ..requests.ending import RequestError
from ..requests.results import RequestId

POSITION = Param("position", int, None, low=0, high=2**62)
"""The index of the next token of a request."""

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
    or `ParameterError`."""
    if isinstance(drafts, Mapping):
        known = set(request_ids)
        for request_id in drafts:
            if request_id not in known:
                raise RequestError(
                    f"draft_token_ids names {quoted(request_id)}, which has no rows in this step"
                )
        drafts = [drafts.get(request_id, ()) for request_id in request_ids]
    if len(drafts) != len(request_ids):
        raise RequestError(f"draft_token_ids has {len(drafts)} entries for {len(request_ids)} requests")
    return [few_token_ids_in("draft_token_ids", d, vocabulary) for d in drafts]
