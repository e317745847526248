"""dry: lower the logits of tokens that would extend a repetition ("don't repeat yourself")."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, log2_64
from ..arithmetic.repeats import ends_repeated
from ..base.cached import cached_property
from ..base.errors import quoted
from ..base.giving_way import unhurried
from ..contract import Example, Param, ParameterError, Rows, Sampler, Vocabulary
from ..contract.values import Phrase, phrase_token_ids, phrases
from ..tokenizer import Tokenizer
from ._columns import finite_columns, store
from ._sequences import Sequences

DEFAULT_BREAKERS = ("\n", ":", '"', "*")
_TEXT_LIMIT = 40
"""The number of bytes of a breaker's text that count."""
_TAIL_LIMIT = 20
"""The number of tokens of a breaker's text that count after the first one."""
MAX_TOKENS = 262_144
"""The limit on the tokens of all sequences of more than one token that the texts of a request stand for."""


class Dry(Sampler):
    """Lower each token's logit by multiplier·base^(n − allowed), where n is the length of the repeat that
    the token would extend.

    The history is the last dry_penalty_last_n tokens of prompt and output. For each of its positions, n is
    the length of the longest run that ends just before it and also ends the history. The token at that
    position would extend the run. Tokens with n ≥ dry_allowed_length are penalised; a token's largest
    n counts.

    Formula: P₀ = 1, Pⱼ = min(Pⱼ₋₁·base, FLT_MAX) in float64; l − float32(multiplier·Pⱼ) with
    j = n − allowed, clamped to ±FLT_MAX; removed tokens stay removed.

    Breakers: no run extends across the last breaker in the history, and a token that is a breaker on
    its own is never penalised. A breaker is a token id, a list of ids, or a text. A text matches every
    token that contains it, and every token that ends with a prefix of it if the tokens of the
    remainder follow; only its first 40 bytes and 20 further tokens count. Special tokens are not text.
    Texts that begin at the ends of very many tokens, in sequences of more than 262,144 tokens in all, are
    refused.
    None means newline, colon, double quote and asterisk if there is a tokenizer, else no breakers.

    dry_multiplier 0 is neutral; dry_penalty_last_n 0 turns it off, −1 is the whole history. Source: p-e-w
    2024, as computed by llama.cpp. There the exponent is limited by an estimate of where base^j leaves
    float32. A product with the multiplier beyond float32 is −inf there, which may remove a row's last token;
    here no penalty removes a token, and one at −FLT_MAX is drawn only if all others are there or removed.
    There, a base below 1 turns the sampler off, special tokens count as text, and −1 is off.
    """

    name = "dry"
    role = "penalty"
    cost = "history"
    params = (
        Param("dry_multiplier", float, neutral=0.0, low=0, doc="penalty for the shortest penalised repeat"),
        Param("dry_base", float, neutral=1.75, low=1, switch=False, doc="growth per further token"),
        Param("dry_allowed_length", int, neutral=2, low=0, switch=False, doc="shortest penalised repeat"),
        Param("dry_penalty_last_n", int, neutral=-1, low=-1, switch=False, doc="tokens searched; -1 all"),
        Param("dry_sequence_breakers", object, neutral=None, convert=phrases, switch=False, limit=256,
              doc="texts, ids or id lists that no repeat extends across"),
    )  # fmt: skip
    examples = (
        Example((3.0, 3.0, 3.0, 3.0), {"dry_multiplier": 1.0, "dry_base": 2.0}, (3.0, 3.0, 3.0, 2.0),
                prompt_token_ids=(1, 2, 3, 0), output_token_ids=(1, 2), token_bytes=(b"a", b"b", b"c", b"d"),
                note="1 2 was followed by 3"),
        Example((3.0, 3.0, 3.0, 3.0), {"dry_multiplier": 1.0, "dry_base": 2.0}, (3.0, 3.0, 3.0, 1.0),
                prompt_token_ids=(0, 1, 2, 3, 0, 1, 2), token_bytes=(b"a", b"b", b"c", b"d"),
                note="0 1 2 is one longer"),
        Example((3.0, 3.0, 3.0, 3.0), {"dry_multiplier": 1.0, "dry_sequence_breakers": [1]},
                (3.0, 3.0, 3.0, 3.0), prompt_token_ids=(0, 1, 2, 3, 0, 1, 2), note="only 2 remains after 1"),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["dry_multiplier"] > 0 and params["dry_penalty_last_n"] != 0)

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Breakers:
        entries = params["dry_sequence_breakers"]
        if entries is None:
            entries = DEFAULT_BREAKERS if vocabulary.tokenizer is not None else ()
        vocabulary.check_ids("dry_sequence_breakers", phrase_token_ids(entries))
        has_text = any(isinstance(entry, str) for entry in entries)
        tokenizer = vocabulary.need_tokenizer("dry_sequence_breakers") if has_text else None
        return _breakers(entries, tokenizer, vocabulary.size)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, (ids, penalties)) in enumerate(zip(logits, dry_penalties(rows), strict=True)):
            if len(ids):
                columns, which = finite_columns(row, rows, i, ids)
                store(row, columns, row[columns] - penalties[which])


def dry_penalties(rows: Rows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each row, the ids of the tokens that are penalised, ascending, and the float32 penalty of each."""
    multiplier, base = rows["dry_multiplier"], rows["dry_base"].tolist()
    allowed, last_n = rows["dry_allowed_length"].tolist(), rows["dry_penalty_last_n"].tolist()
    for i, breakers in enumerate(rows.resolved):
        history = rows.token_ids(i)
        window = history if last_n[i] < 0 else history[-last_n[i] :]
        useful = _longest_useful(base[i], allowed[i])
        limit = min(breakers.unbroken(window, useful), useful)
        ids, lengths = _extending(window, allowed[i], limit)
        counting = ~breakers.single[ids]
        ids, exponents = ids[counting], lengths[counting] - allowed[i]
        powers = _powers(base[i], int(exponents.max(initial=0)))[exponents]
        yield ids, (multiplier[i] * powers).astype(np.float32)


# --- repeats -------------------------------------------------------------------------------------


def _extending(window: np.ndarray, allowed: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that would extend a repeat of at least `allowed` tokens, and the longest repeat of each, of
    which `limit` tokens count."""
    places, lengths = ends_repeated(window, limit, allowed)
    following = window[len(window) - places]
    if len(following) < 2:
        return following, lengths
    order = np.lexsort((lengths, following))
    following, lengths = following[order], lengths[order]
    is_longest = np.append(following[1:] != following[:-1], True)
    return following[is_longest], lengths[is_longest]


@lru_cache(maxsize=256)
def _longest_useful(base: float, allowed: int) -> int:
    """The repeat length beyond which the penalty no longer grows: base^j has exceeded FLT_MAX."""
    return allowed if base == 1 else allowed + math.ceil(128 / float(log2_64(base))) + 1


def _powers(base: float, count: int) -> np.ndarray:
    """P₀ … P_count, float64."""
    factors = np.full(count + 1, base)
    factors[0] = 1.0
    return np.minimum(np.multiply.accumulate(factors), FLT_MAX)


# --- breakers ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Breakers:
    """Token sequences that no repeat extends across.

    tokens, ends  int64, the sequences end to end and the end of each, by their first token ascending, the
                  longest first.
    heads         bool [vocab], True for the first tokens.
    single        bool [vocab], True for tokens that are a breaker on their own.
    """

    tokens: np.ndarray
    ends: np.ndarray
    heads: np.ndarray
    single: np.ndarray

    def unbroken(self, window: np.ndarray, most: int | None = None) -> int:
        """The number of tokens after the last sequence in `window`: after the longest of those that begin
        last. If it is more than `most`, any number from there on."""
        if not len(self.ends):
            return len(window)
        if most is not None:
            window = window[max(0, len(window) - most - self._longest) :]
        places = np.flatnonzero(self.heads[window])
        alone = np.flatnonzero(self.single[window[places]])[-1:]
        best = -1, 0
        if len(alone):
            places = places[alone[0] :]
            best = int(places[0]), 1
        if len(self.tokens) > len(self.ends):
            best = max(best, self._long.last_in(window, places))
        place, length = best
        return len(window) - (place + length) if length else len(window)

    @cached_property
    def _longest(self) -> int:
        """How many tokens the longest sequence has."""
        return int(np.diff(self.ends, prepend=0).max())

    @cached_property
    def _long(self) -> Sequences:
        """The sequences of several tokens."""
        lengths = np.diff(self.ends, prepend=0)
        is_long = lengths > 1
        return Sequences(self.tokens[np.repeat(is_long, lengths)], np.cumsum(lengths[is_long]))


_Block = tuple[np.ndarray, tuple[int, ...]]
"""Sequences that differ in their first token only: the first tokens int64 [n], and what follows each."""


@lru_cache(maxsize=16)
def _breakers(entries: tuple[Phrase, ...], tokenizer: Tokenizer | None, vocab_size: int) -> Breakers:
    """Cached, because many requests have the same breakers; the tokenizer lives as long as its entry."""
    blocks: list[_Block] = []
    texts = dict.fromkeys(entry.encode()[:_TEXT_LIMIT] for entry in entries if isinstance(entry, str))
    for data in unhurried(texts):
        assert tokenizer is not None  # `resolve` has made sure of it
        blocks += _blocks_of_text(data, tokenizer)
    blocks += [(np.array(entry[:1]), entry[1:]) for entry in entries if not isinstance(entry, str)]
    blocks = [(first_tokens[first_tokens < vocab_size], tail) for first_tokens, tail in blocks]
    total = sum(len(first_tokens) * (1 + len(tail)) for first_tokens, tail in blocks if tail)
    if total > MAX_TOKENS:
        raise ParameterError(
            f"dry_sequence_breakers={quoted(entries)} is not allowed: these texts begin at the ends of too "
            f"many tokens, in sequences of {total:,} tokens altogether; at most {MAX_TOKENS:,}"
        )
    return _joined(blocks, vocab_size)


def _joined(blocks: Sequence[_Block], vocab_size: int) -> Breakers:
    heads, single = np.zeros(vocab_size, bool), np.zeros(vocab_size, bool)
    for first_tokens, tail in blocks:
        heads[first_tokens] = True
        if not tail:
            single[first_tokens] = True
    alone = np.flatnonzero(single)
    blocks = [(alone, ()), *((first_tokens, tail) for first_tokens, tail in blocks if tail)]
    firsts = np.concatenate([first_tokens for first_tokens, _ in blocks])
    lengths = np.repeat(
        [1 + len(tail) for _, tail in blocks], [len(first_tokens) for first_tokens, _ in blocks]
    )
    order = np.argsort(firsts * (lengths.max(initial=0) + 1) - lengths, kind="stable")
    ends = np.cumsum(lengths[order])
    starts = np.empty(len(ends), np.int64)
    starts[order] = ends - lengths[order]
    tokens = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    tokens[starts] = firsts
    begin = 0
    for first_tokens, tail in blocks:
        here = starts[begin : begin + len(first_tokens)]
        tokens[here[:, None] + np.arange(1, 1 + len(tail))] = tail
        begin += len(first_tokens)
    return Breakers(tokens, ends, heads, single)


def _blocks_of_text(data: bytes, tokenizer: Tokenizer) -> Iterator[_Block]:
    """Every token sequence that contains `data`: inside one token, or starting at the end of one that does
    not contain it."""
    containing = tokenizer.substrings.containing(data)
    yield containing, ()
    others = np.ones(len(tokenizer), bool)
    others[containing] = False
    for n in range(1, len(data)):
        first_tokens = tokenizer.substrings.ending_with(data[:n])
        first_tokens = first_tokens[others[first_tokens]]
        if not len(first_tokens):
            continue
        try:
            tail = tuple(tokenizer.encode_bytes(data[n:]))[:_TAIL_LIMIT]
        except ValueError:  # no tokens spell the rest
            continue
        yield first_tokens, tail
