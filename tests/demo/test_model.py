"""The n-gram model, against the definition of interpolated Kneser–Ney in plain Python."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from engine_sampler.demo.model import ORDER, NGramModel

VOCABULARY, END, START = 12, 0, 1


@pytest.fixture(scope="module")
def documents() -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [(2 + rng.integers(0, 10, rng.integers(1, 30)) ** 2 % 10).tolist() for _ in range(40)]


@pytest.fixture(scope="module")
def model(documents) -> NGramModel:
    return NGramModel(documents, VOCABULARY, END, START)


def probabilities_by_definition(documents: list[list[int]]):
    """p(token | context) as a function, from n-gram counts in dictionaries."""
    stream = [t for d in documents for t in (*[START] * (ORDER - 1), *d, END)]
    windows = (tuple(stream[i : i + ORDER]) for i in range(len(stream) - ORDER + 1))
    counts = {ORDER: Counter(window for window in windows if window[-1] != START)}
    for n in range(ORDER - 1, 0, -1):
        counts[n] = Counter(gram[1:] for gram in counts[n + 1])

    @cache
    def discount(n: int) -> float:
        once, twice = (sum(c == k for c in counts[n].values()) for k in (1, 2))
        return min(0.75, once / (once + 2 * twice))

    def p(token: int, context: tuple[int, ...]) -> float:
        n = len(context) + 1
        if n == 1:
            if token == START:
                return 0.0
            return 0.001 / VOCABULARY + 0.999 * counts[1][(token,)] / sum(counts[1].values())
        following = {gram[-1]: c for gram, c in counts[n].items() if gram[:-1] == context}
        shorter = p(token, context[1:])
        if not following:
            return shorter
        total, d = sum(following.values()), discount(n)
        own = max(following.get(token, 0) - d, 0.0) / total
        return own + d * len(following) / total * shorter

    return p


@pytest.mark.parametrize("length", [0, 1, 2, 4, 9])
def test_probabilities_are_those_of_the_definition(model, documents, length):
    p = probabilities_by_definition(documents)
    rng = np.random.default_rng(length)
    contexts = [d[:length] for d in documents[:6]] + [
        (2 + rng.integers(0, 10, length)).tolist() for _ in range(6)
    ]
    for context, row in zip(contexts, model.logits(contexts), strict=True):
        padded = tuple(([START] * (ORDER - 1) + context)[1 - ORDER :])
        expected = [p(token, padded) for token in range(VOCABULARY)]
        np.testing.assert_allclose(np.exp(row.astype(np.float64)), expected, rtol=2e-5, atol=1e-9)


def test_logits_are_dense_float32_rows(model):
    logits = model.logits([[2, 3], [], [5]])
    assert (logits.shape, logits.dtype) == ((3, VOCABULARY), np.float32)
    assert np.isfinite(np.delete(logits, START, axis=1)).all()


def test_the_start_token_is_never_predicted(model):
    assert (model.logits([[], [2], [END]])[:, START] == -np.inf).all()


def test_contexts_may_be_arrays(model):
    np.testing.assert_array_equal(model.logits([np.array([2, 3, 4])]), model.logits([[2, 3, 4]]))


def test_only_the_last_tokens_of_a_context_matter(model):
    np.testing.assert_array_equal(model.logits([[9, 9, 9, 2, 3, 4, 5]]), model.logits([[7, 2, 3, 4, 5]]))


def test_a_row_does_not_depend_on_the_others(model):
    np.testing.assert_array_equal(model.logits([[2], [3, 4]])[1], model.logits([[3, 4]])[0])


def test_a_text_seen_once_is_reproduced():
    model = NGramModel([[2, 3, 4, 5, 6, 7]], VOCABULARY, END, START)
    text: list[int] = []
    while not text or text[-1] != END:
        text.append(int(model.logits([text])[0].argmax()))
    assert text == [2, 3, 4, 5, 6, 7, END]


def test_a_vocabulary_whose_ngrams_do_not_fit_64_bits_is_refused():
    with pytest.raises(ValueError, match="vocab_size=8000 is not allowed: at most 6207"):
        NGramModel([[2]], 8000, END, START)
