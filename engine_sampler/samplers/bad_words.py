"""bad_words: never complete certain token sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, ParameterError, Rows, Sampler, Vocabulary
from ..contract.values import phrase_token_ids, phrases
from ._sequences import values_after


class BadWords(Sampler):
    """Remove the last token of each bad sequence if the history ends with the rest of it.

    An entry is a text, a token id or a list of ids. The history is prompt and output; a sequence of
    one token is always removed. A text represents the token sequences that the tokenizer returns for
    it without and with a preceding space; the same letters in other tokens are not found. A sequence
    that consists of an EOS token alone is ignored: use ignore_eos. If no token is left, the request
    ends with an error. [] is neutral.

    Source: vLLM (texts) and transformers (ids). vLLM skips the spelling with a space if it has a
    different number of tokens, so that the word can still be written; here both spellings count.
    """

    name = "bad_words"
    role = "edit"
    params = (
        Param("bad_words", object, neutral=(), convert=phrases, limit=1024,
              doc="forbidden texts, ids or id lists"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"bad_words": [2]}, (1.0, 2.0, -np.inf)),
        Example((1.0, 2.0, 3.0), {"bad_words": [[0, 1]]}, (1.0, -np.inf, 3.0), prompt_token_ids=(2, 0)),
        Example((1.0, 2.0, 3.0), {"bad_words": [[0, 1]]}, (1.0, 2.0, 3.0), prompt_token_ids=(0, 2)),
    )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[Any, ...]:
        """For each length: (all tokens but the last [entries, length − 1], the last one [entries])."""
        vocabulary.check_ids("bad_words", phrase_token_ids(params["bad_words"]))
        by_length: dict[int, set[tuple[int, ...]]] = {}
        for entry in params["bad_words"]:
            for sequence in _spellings(entry, vocabulary) if isinstance(entry, str) else [entry]:
                if len(sequence) > 1 or sequence[0] not in vocabulary.eos_token_ids:
                    by_length.setdefault(len(sequence), set()).add(sequence)
        tables = (np.array(sorted(by_length[n]), np.int64) for n in sorted(by_length))
        return tuple((table[:, :-1], table[:, -1]) for table in tables)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, token_ids) in enumerate(zip(logits, ids_completing_bad_words(rows), strict=True)):
            row[rows.columns(i, token_ids)[0]] = -np.inf


def ids_completing_bad_words(rows: Rows) -> Iterator[np.ndarray]:
    """For each row, the ids of the tokens that would complete a bad sequence; with repetitions."""
    for i, tables in enumerate(rows.resolved):
        yield values_after(rows.token_ids(i), tables)


def _spellings(text: str, vocabulary: Vocabulary) -> Iterator[tuple[int, ...]]:
    """The token sequences of `text` without and with a preceding space."""
    tokenizer = vocabulary.need_tokenizer("bad_words")
    word = text.lstrip() or text
    has_spelling = False
    for spelling in (word, " " + word):
        try:
            sequence = tuple(tokenizer.encode(spelling))
        except ValueError:  # no tokens spell it, so it cannot occur
            continue
        vocabulary.check_ids("bad_words", sequence)
        has_spelling = True
        yield sequence
    if not has_spelling:
        raise ParameterError(f"bad_words names {text!r}, which the vocabulary's tokens cannot spell")
