import numpy as np
import pytest

from engine_sampler import Scheduler, process_logits, sample
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.infill import Infill
from engine_sampler.testing import apply_sampler
from engine_sampler.tokenizer import Tokenizer
from tests.reference import kept, order, softmax

ON = SamplingParams(infill=True)


def infilled(logits, pieces, ends, params=ON):
    tokenizer = Tokenizer([piece.encode() for piece in pieces], special_token_ids=ends)
    return apply_sampler(Infill(), logits, params, tokenizer=tokenizer, eos_token_ids=ends)


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
        return set(ending) or {ends[0]}
    total = sum(p[t] for t in likely + ending)
    return {t for t in likely if p[t] / total >= 1 / (len(likely) + 1)} | set(ending)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equals_the_rule_with_probabilities(seed):
    random = np.random.default_rng(seed)
    branches = set()
    for _ in range(1000):
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


FLAT_WITHOUT_END = [0.0] * 8 + [-np.inf, -np.inf]
PIECES_AND_ENDS = [*"abcdefgh", "</s>", "<eot>"]


def test_if_no_text_is_likely_and_no_end_is_left_the_end_of_turn_is_forced():
    tokenizer = Tokenizer([p.encode() for p in PIECES_AND_ENDS], eos_token_ids=[8], eot_token_id=9)
    row = apply_sampler(Infill(), FLAT_WITHOUT_END, ON, tokenizer=tokenizer)
    assert row.tolist() == [-np.inf] * 9 + [1.0]


def test_without_an_end_of_turn_the_first_eos_is_forced():
    assert infilled(FLAT_WITHOUT_END, PIECES_AND_ENDS, [9, 8]).tolist() == [-np.inf] * 9 + [1.0]


@pytest.mark.parametrize(
    "constraint",
    [
        {"ignore_eos": True},
        {"allowed_token_ids": [*range(8)]},
        {"bad_words": [[0, 8]]},
        {"logit_bias": {8: -np.inf}},
        {"min_tokens": 1},
    ],
)
def test_the_end_is_not_forced_against_a_constraint(constraint):
    params = SamplingParams(infill=True, **constraint)
    assert infilled(FLAT_WITHOUT_END, PIECES_AND_ENDS, [8], params).tolist() == FLAT_WITHOUT_END


@pytest.mark.parametrize(
    "other",
    [{"bad_words": [[8]]}, {"allowed_token_ids": [0, 1, 8]}, {"logit_bias": {8: -5.0}}, {"min_tokens": 0}],
)
def test_a_constraint_that_allows_the_end_does_not_prevent_it(other):
    params = SamplingParams(infill=True, **other)
    assert kept(infilled(FLAT_WITHOUT_END, PIECES_AND_ENDS, [8], params)) == {8}


def test_the_end_comes_back_where_its_column_has_been_left_out():
    size = 3000
    tokenizer = Tokenizer([b"%d" % (i + 10_000) for i in range(size)], eos_token_ids=[size - 1])
    logits = np.linspace(0.01, 0, size, dtype=np.float32)[None].repeat(3, axis=0)
    logits[1, 5] = 9.0  # likely text: row 1 keeps it
    for backend in ("numpy", "native"):
        for top_k in (8, 500, 2900):
            params = SamplingParams(infill=True, top_k=top_k, temperature=0.7)
            done = process_logits(logits, params, tokenizer=tokenizer, backend=backend)
            assert [kept(row) for row in done] == [{size - 1}, {5}, {size - 1}]
            drawn = sample(logits, params, tokenizer=tokenizer, backend=backend)
            assert drawn.token_ids.tolist() == [size - 1, 5, size - 1]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("size", [9, 3000])
def test_a_grammar_decides_whether_the_end_may_be_forced(backend, size):
    tokenizer = Tokenizer([*(bytes([97 + i]) for i in range(8)), *[b"-"] * (size - 9), b""],
                          eos_token_ids=[size - 1])  # fmt: skip
    logits = np.zeros((2, size), np.float32)
    scheduler = Scheduler(size, tokenizer, backend=backend)
    for regex in ("[a-h]+", "[a-h]*"):  # the second may end at once
        scheduler.add(SamplingParams(infill=True, top_k=8, regex=regex, seed=1))
    token_ids = scheduler.step(logits).token_ids
    assert token_ids[0] < 8
    assert token_ids[1] == size - 1


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
