import math
from random import Random

import numpy as np
import pytest

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import ParameterError, Vocabulary
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.dry import Dry
from engine_sampler.testing import SamplerContract, apply_sampler
from engine_sampler.tokenizer import Tokenizer


@pytest.mark.quick_share(4)
class TestLawsWithTokensAsBreakers(SamplerContract):
    sampler = Dry()
    params = (
        {"dry_multiplier": 2.0, "dry_base": 1.0, "dry_allowed_length": 1},
        {"dry_multiplier": 0.5, "dry_allowed_length": 1, "dry_sequence_breakers": [0, (1, 2)]},
    )
    vocab_sizes = (3, 17, 300, 2000)
    removes = False


def dried(history, vocab_size, tokenizer=None, **params):
    """The amount subtracted from each logit."""
    params = {"dry_multiplier": 1.0, "dry_base": 2.0} | params
    row = apply_sampler(
        Dry(), np.zeros(vocab_size), SamplingParams(**params), prompts=[history], tokenizer=tokenizer
    )
    return -row


def reference(history, vocab_size, base, allowed, last_n, sequences):
    """The definition, position by position."""
    window = history if last_n < 0 else history[len(history) - last_n :] if last_n < len(history) else history
    occurrences = [  # the last one counts; of several that begin together, the longest
        (start, len(s))
        for s in sequences
        for start in range(len(window) - len(s) + 1)
        if window[start : start + len(s)] == list(s)
    ]
    unbroken = len(window) - sum(max(occurrences, default=(0, 0)))
    longest = {}
    for position in range(1, len(window)):
        n = 0
        while n < min(position, unbroken) and window[position - 1 - n] == window[-1 - n]:
            n += 1
        if n >= allowed and (window[position],) not in sequences:
            longest[window[position]] = max(n, longest.get(window[position], 0))
    taken = np.zeros(vocab_size)
    for token, n in longest.items():
        taken[token] = min(base ** (n - allowed), FLT_MAX)
    return taken


def small_case(random):
    """The arguments of `reference`, at random: histories of four tokens, with and without breakers."""
    breakers = [
        tuple(random.choices(range(4), k=random.randint(1, 3))) for _ in range(random.choice([0, 0, 1, 2, 3]))
    ]
    return (
        random.choices(range(random.randint(1, 4)), k=random.randint(0, 24)),
        5,
        random.choice([1.0, 1.75, 4.0]),
        random.randint(0, 4),
        random.choice([-1, 1, 3, 8, 50]),
        breakers,
    )


def test_equals_the_definition_on_small_alphabets():
    random = Random(0)  # drawing examples by hypothesis takes four times as long as these checks
    for _ in range(2000):
        case = small_case(random)
        history, size, base, allowed, last_n, breakers = case
        params = {"dry_allowed_length": allowed, "dry_penalty_last_n": last_n}
        result = dried(history, size, dry_base=base, dry_sequence_breakers=breakers, **params)
        assert np.allclose(result, reference(*case), rtol=1e-6, atol=0), case


def test_equals_the_definition_on_long_histories():
    random = np.random.default_rng(1)
    for size in (2, 3, 8):
        for _ in range(40):
            history = random.integers(0, size, 300).tolist()
            history += history[100 : 100 + int(random.integers(0, 60))]
            result = dried(history, size, dry_base=1.2, dry_sequence_breakers=[])
            np.testing.assert_allclose(result, reference(history, size, 1.2, 2, -1, []), rtol=1e-6)


# --- growth --------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [1.0, 1.0 + 2**-52, 1.5, 1e30, 1e308])
def test_the_penalty_grows_up_to_the_greatest_float(base):
    result = dried([0] * 400, 2, dry_base=base, dry_allowed_length=1)
    expected = base**398 if 398 * math.log2(base) < 128 else float(FLT_MAX)
    assert result.tolist() == [pytest.approx(expected, rel=1e-6), 0]


def test_the_power_is_capped_before_it_is_multiplied():
    result = dried([0] * 400, 1, dry_multiplier=0.25)
    assert result.tolist() == [FLT_MAX / 4]


def test_a_removed_token_stays_removed_and_no_other_is_removed():
    params = SamplingParams(dry_multiplier=1e300, dry_base=1e308, dry_allowed_length=1)
    row = apply_sampler(Dry(), [FLT_MAX, -np.inf, -1.0], params, prompts=[[2, 2, 2, 1, 2, 0, 2, 2]])
    assert row.tolist() == [-FLT_MAX, -np.inf, -FLT_MAX]


# --- breakers ------------------------------------------------------------------------------------

PIECES = (b"a", b"b", b"ab", b"xa", b"bx", b"c", b"x", b"xab", b"\n", b"a:", b"<:>", b"d", b"bc")
LETTERS = Tokenizer(PIECES, special_token_ids=[10])
IDS = {piece: i for i, piece in enumerate(PIECES)}


def breakers_of(*entries, tokenizer=LETTERS):
    """Every sequence as bytes."""
    params = SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=entries)
    found = sequences_of(Dry().resolve(params, Vocabulary(len(PIECES), (), tokenizer)))
    return {tuple(PIECES[t] for t in sequence) for sequence in found}


def sequences_of(breakers):
    """Every sequence of token ids, whose order and marks must be right."""
    ends = breakers.ends.tolist()
    found = [tuple(breakers.tokens[a:b].tolist()) for a, b in zip([0, *ends], ends, strict=False)]
    assert found == sorted(found, key=lambda sequence: (sequence[0], -len(sequence)))
    assert set(np.flatnonzero(breakers.heads)) == {sequence[0] for sequence in found}
    assert set(np.flatnonzero(breakers.single)) == {s[0] for s in found if len(s) == 1}
    return set(found)


def test_a_text_is_found_in_every_token_that_contains_it():
    assert breakers_of("x") == {(b"xa",), (b"bx",), (b"x",), (b"xab",)}


def test_a_text_is_found_across_several_tokens():
    assert breakers_of("ab") == {(b"ab",), (b"xab",), (b"a", b"b"), (b"xa", b"b")}
    assert breakers_of("abc") == {
        (b"a", b"bc"),
        (b"xa", b"bc"),
        (b"ab", b"c"),
        (b"xab", b"c"),
    }


def test_of_sequences_with_the_same_start_the_longest_counts():
    history = [1, 2, 3, 0, 1, 2]
    assert dried(history, 4, dry_sequence_breakers=[0]).tolist() == [0, 0, 0, 1]
    assert not dried(history, 4, dry_sequence_breakers=[0, (0, 1)]).any()


def test_special_tokens_are_not_text():
    assert breakers_of(":") == {(b"a:",)}


def test_a_remainder_that_no_tokens_form_is_left_out():
    assert breakers_of("ay") == set()


def test_a_remainder_may_begin_within_a_character():
    halves = Tokenizer([b"\xc3", b"\xa9", b"e", *PIECES[3:]])
    params = SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=["\u00e9"])
    assert sequences_of(Dry().resolve(params, Vocabulary(13, (), halves))) == {(0, 1)}


def test_long_texts_are_truncated():
    (sequence,) = breakers_of("d" * 100)
    assert sequence == (b"d",) * 21


def test_the_default_breakers_apply_if_there_is_a_tokenizer():
    neutral = SamplingParams(dry_multiplier=1.0)
    known = Dry().resolve(neutral, Vocabulary(len(PIECES), (), LETTERS))
    assert sequences_of(known) == {(IDS[b"\n"],), (IDS[b"a:"],)}
    assert not sequences_of(Dry().resolve(neutral, Vocabulary(len(PIECES))))
    assert breakers_of() == set()


def test_tokens_beyond_the_vocabulary_of_the_model_are_left_out():
    params = SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=["x"])
    assert sequences_of(Dry().resolve(params, Vocabulary(5, (), LETTERS))) == {(3,), (4,)}


def test_texts_are_searched_for_once():
    params = SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=["ab", 3])
    vocabulary = Vocabulary(len(PIECES), (), LETTERS)
    assert Dry().resolve(params, vocabulary) is Dry().resolve(params.replace(seed=1), vocabulary)


def test_repeats_do_not_extend_across_a_text():
    history = [IDS[p] for p in (b"c", b"d", b"b", b"c", b"d", b"a", b"b", b"c", b"d", b"b", b"c")]
    free = dried(history, len(PIECES), tokenizer=LETTERS, dry_sequence_breakers=[])
    assert free[IDS[b"d"]] == 4
    broken = dried(history, len(PIECES), tokenizer=LETTERS, dry_sequence_breakers=["ab"])
    assert broken[IDS[b"d"]] == 4
    history[-2] = IDS[b"ab"]
    assert not dried(history, len(PIECES), tokenizer=LETTERS, dry_sequence_breakers=["ab"]).any()


def test_a_text_needs_a_tokenizer():
    with pytest.raises(
        ParameterError, match="dry_sequence_breakers is given as text, which needs a tokenizer"
    ):
        dried([], 3, dry_sequence_breakers=["x"])


def test_an_id_outside_the_vocabulary_is_named_in_the_error():
    with pytest.raises(ParameterError, match="dry_sequence_breakers names token id 3, allowed are 0 to 2"):
        dried([], 3, dry_sequence_breakers=[(0, 3)])


# --- parameters ----------------------------------------------------------------------------------


def test_it_is_off_without_a_multiplier_or_a_window():
    assert not Dry().is_active(SamplingParams(dry_base=2.0))
    assert not Dry().is_active(SamplingParams(dry_multiplier=1.0, dry_penalty_last_n=0))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("dry_multiplier", -1, "a finite number of at least 0"),
        ("dry_base", 0.9, "a finite number of at least 1"),
        ("dry_base", math.inf, "a finite number of at least 1"),
        ("dry_allowed_length", -1, "an integer of at least 0"),
        ("dry_penalty_last_n", -2, "an integer of at least -1"),
        ("dry_sequence_breakers", "\n", "a list whose entries are texts"),
        ("dry_sequence_breakers", [""], "a list whose entries are texts"),
    ],
)
def test_values_out_of_bounds_are_refused(name, value, allowed):
    with pytest.raises(ParameterError, match=f"{name}=.* is not allowed: {allowed}"):
        SamplingParams(**{name: value})
