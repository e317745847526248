"""What matchers show of their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...contract import Vocabulary, bitmask_words, unpack_bitmask
from ...grammar.plugin.constraints import matcher_of
from ...tokenizer import Tokenizer


class View(NamedTuple):
    """What a matcher shows of its state: the tokens that may follow, and whether the text may end or has."""

    tokens: tuple[int, ...]
    accepting: bool
    terminated: bool


def view_of(matcher: Any, size: int, rows: int = 1, row: int = 0, more_words: int = 0) -> View:
    """What a matcher for `size` tokens shows of its state, by a bitmask of these `rows` and words."""
    bitmask = np.zeros((rows, bitmask_words(size) + more_words), np.int32)
    matcher.fill_bitmask(bitmask, row)
    tokens = np.flatnonzero(unpack_bitmask(bitmask[row], size))
    return View(tuple(tokens.tolist()), bool(matcher.is_accepting()), bool(matcher.is_terminated()))


def views_along(grammar: Any, tokenizer: Tokenizer, tokens: Sequence[int]) -> list[View]:
    """What a new matcher of `grammar` shows before and after each of `tokens`."""
    vocabulary = Vocabulary(len(tokenizer), tuple(tokenizer.eos_token_ids), tokenizer)
    found = matcher_of(grammar, vocabulary)
    matcher = found.fork() if found is grammar else found
    views = [view_of(matcher, len(tokenizer))]
    for token in tokens:
        matcher.accept(token)
        views.append(view_of(matcher, len(tokenizer)))
    return views
