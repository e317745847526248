import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.infill import Infill
from engine_sampler.testing import apply_sampler
from engine_sampler.tokenizer import Tokenizer
from tests.reference import kept, order, softmax

ON = SamplingParams(infill=True)


def infilled(logits, pieces, ends):
    tokenizer = Tokenizer([piece.encode() for piece in pieces], special_token_ids=ends)
    return apply_sampler(Infill(), logits, ON, tokenizer=tokenizer, eos_token_ids=ends)


def reference(logits, pieces, ends):
    """The rule, with probabilities in float64 and every pair of tokens."""
    ranked = order(logits).tolist()
    p = dict(enumerate(softmax(logits).tolist()))
    ending = [t for t in ranked if t in ends]
    text = [t for t in ranked if t not in ends]
    if 3 * sum(p[t] for t in ending) * len(ranked) > sum(p[t] for t in text):
        return set(ending)
    merged = set()
    for first in text:
        for second in text:
            mergeable = first != second and pieces[first] and pieces[second].startswith(pieces[first])
            if mergeable and not merged & {first, second}:
                winner, loser = (second, first) if p[second] > p[first] else (first, second)
                p[winner] += p[loser]
                merged.add(loser)
    likely = [t for t in text if t not in merged and p[t] >= 0.2]
    if not likely:
        return set(ending or ranked)
    total = sum(p[t] for t in likely + ending)
    return {t for t in likely if p[t] / total >= 1 / (len(likely) + 1)} | set(ending)


def test_equals_the_rule_with_probabilities():
    random = np.random.default_rng(1)
    branches = set()
    for _ in range(3000):
        size = int(random.integers(3, 16))
        pieces = [
            "".join(random.choice(["a", "b", "c", ""], int(random.integers(0, 5)))) for _ in range(size)
        ]
        ends = random.permutation(size)[: random.integers(1, 3)].tolist()
        logits = random.normal(0, random.choice([0.3, 1, 3]), size).astype(np.float32)
        logits[ends] -= random.choice([0, 4, 8])
        logits[random.random(size) < 0.2] = -np.inf
        logits[0] = max(logits[0], 0)
        expected = reference(logits, pieces, ends)
        assert kept(infilled(logits, pieces, ends)) == expected
        branches.add((bool(expected - set(ends)), bool(expected & set(ends)), expected == kept(logits)))
    assert len(branches) >= 5


def test_survivors_keep_their_logits():
    logits = [2.0, 1.0, 0.0, -9.0]
    assert infilled(logits, ["a", "b", "aa", "</s>"], [3]).tolist() == [2.0, -np.inf, -np.inf, -9.0]


def test_the_likelier_of_two_with_a_common_beginning_stays():
    result = infilled([1.0, 2.0, -20.0], ["a", "ab", "</s>"], [2])
    assert result.tolist() == [-np.inf, 2.0, -20.0]


def test_merged_probability_can_raise_a_token_above_the_threshold():
    pieces = ["a", "aa", "ab", "b", "c", "d", "e", "</s>"]
    assert kept(infilled([0.0] * 7 + [-30.0], pieces, [7])) == {0, 7}


def test_a_share_of_exactly_a_fifth_is_enough():
    assert kept(infilled([0.0] * 5 + [-30.0], ["a", "b", "c", "d", "e", "</s>"], [5])) == {0, 1, 2, 3, 4, 5}


def test_if_no_text_is_likely_the_remaining_ends_stay():
    pieces = [*"abcdefgh", "</s>"]
    assert kept(infilled([0.0] * 8 + [-20.0], pieces, [8])) == {8}


def test_if_no_text_is_likely_and_no_end_is_left_nothing_changes():
    logits = [0.0] * 8 + [-np.inf]
    assert infilled(logits, [*"abcdefgh", "</s>"], [8]).tolist() == logits


def test_special_tokens_are_not_merged():
    tokenizer = Tokenizer([b"<a", b"<a>", b"</s>"], special_token_ids=[1], eos_token_ids=[2])
    row = apply_sampler(Infill(), [0.0, 0.0, -30.0], ON, tokenizer=tokenizer)
    assert kept(row) == {0, 1, 2}


def test_an_end_that_looks_like_text_is_not_merged():
    tokenizer = Tokenizer([b"a", b"b", b"c", b"d", b"e", b"ab"])
    row = apply_sampler(Infill(), [0.0] * 5 + [-1.5], ON, tokenizer=tokenizer, eos_token_ids=[5])
    assert kept(row) == {5}


def test_the_end_of_turn_is_an_end():
    tokenizer = Tokenizer([b"a", b"<end_of_turn>", b"</s>"], eos_token_ids=[2], eot_token_id=1)
    assert kept(apply_sampler(Infill(), [1.0, 1.0, -30.0], ON, tokenizer=tokenizer)) == {1, 2}


def test_a_row_without_tokens_is_unchanged():
    assert infilled([-np.inf, -np.inf], ["a", "</s>"], [1]).tolist() == [-np.inf, -np.inf]


def test_it_needs_a_tokenizer_and_an_end():
    with pytest.raises(ParameterError, match="infill=True needs a tokenizer"):
        apply_sampler(Infill(), [1.0], ON, eos_token_ids=[0])
    with pytest.raises(ParameterError, match="infill=True needs EOS ids"):
        apply_sampler(Infill(), [1.0], ON, tokenizer=Tokenizer([b"a"]))
