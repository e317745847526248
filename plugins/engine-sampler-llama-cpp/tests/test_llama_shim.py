"""The shim draws what a scheduler draws, and behaves as llama.cpp expects of a sampler."""

from __future__ import annotations

import ctypes
import locale
from typing import Any

import numpy as np
import pytest
from llama_shim import candidates_of, text_of, token_data
from shim_requests import CHOICES, VOCAB, random_request, random_text

from engine_sampler import ParameterError, SamplingParams, Scheduler, sample
from tests.random_chains import ROUNDS


def follow_scheduler(settings: dict[str, Any], prompt: list[int], rows: np.ndarray) -> list[int]:
    """The tokens of a request of a scheduler whose chain sees these rows."""
    scheduler = Scheduler(VOCAB, backend="native")
    scheduler.add(SamplingParams(**{"penalty_scope": "all", **settings}), prompt)
    return [int(scheduler.step(row[None]).token_ids[0]) for row in rows]


class MallInfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def bytes_in_use() -> int:
    """What malloc has given to this process and not got back; skips where that cannot be told."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("only glibc counts what is allocated")
    mallinfo.restype = MallInfo
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("number", range(40))
def test_tokens_are_those_of_a_scheduler(shim: Any, number: int) -> None:
    random = np.random.default_rng(number)
    for _ in range(2 * ROUNDS):
        settings, prompt = random_request(random), random_text(random, int(random.integers(0, 20)))
        rows = random.normal(0, 3, (12, VOCAB)).astype(np.float32)
        rows[:, :12] += 3  # the tokens of the prompt, so that texts repeat
        sampler = shim.sampler(text_of(settings), VOCAB)
        sampler.accept(*prompt)
        assert sampler.follow(rows) == follow_scheduler(settings, prompt, rows), settings
        sampler.free()


def test_candidates_that_are_cut_and_unsorted_are_the_row(shim: Any) -> None:
    random = np.random.default_rng(1)
    sampler = shim.sampler("temperature=0.9 top_p=0.95 seed=5", VOCAB)
    for size in (1, 2, 40, VOCAB):
        row = random.normal(0, 2, VOCAB).astype(np.float32)
        ids = random.permutation(VOCAB)[:size]
        cut = np.full(VOCAB, -np.inf, np.float32)
        cut[ids] = row[ids]
        expected = sample(cut[None], SamplingParams(temperature=0.9, top_p=0.95, seed=5), positions=[0])
        assert sampler.draw_token(row, ids) == expected.token_ids[0]
    sampler.free()


def test_the_position_counts_accepted_tokens(shim: Any) -> None:
    row = np.zeros(VOCAB, np.float32)
    sampler = shim.sampler("seed=5", VOCAB)
    drawn = [sampler.draw_token(row)]
    for token in (3, -1, VOCAB):  # not only tokens
        sampler.accept(token)
        drawn.append(sampler.draw_token(row))
    expected = [sample(row[None], SamplingParams(seed=5), positions=[i]).token_ids[0] for i in range(4)]
    assert drawn == expected
    assert sampler.draw_token(row) == drawn[-1]  # a row that is drawn again
    sampler.free()


def test_a_clone_goes_on_by_itself(shim: Any) -> None:
    rows = np.random.default_rng(3).normal(0, 2, (10, VOCAB)).astype(np.float32)
    text = "mirostat=2 frequency_penalty=0.5 seed=9"
    sampler, whole = shim.sampler(text, VOCAB), shim.sampler(text, VOCAB)
    expected = whole.follow(rows)
    sampler.follow(rows[:4])
    clone = sampler.clone()
    assert sampler.follow(rows[4:]) == expected[4:]
    sampler.free()
    assert clone.follow(rows[4:]) == expected[4:]
    for one in (clone, whole):
        one.free()


def test_state_is_copied_to_another_sampler(shim: Any) -> None:
    rows = np.random.default_rng(3).normal(0, 2, (10, VOCAB)).astype(np.float32)
    text = "mirostat=2 frequency_penalty=0.5 seed=9"
    sampler, other = shim.sampler(text, VOCAB), shim.sampler(text, VOCAB)
    other.follow(rows[:7])
    sampler.follow(rows[:4])
    sampler.copy_to(other)
    assert other.follow(rows[4:]) == sampler.follow(rows[4:])
    for one in (sampler, other):
        one.free()


def test_reset_begins_again(shim: Any) -> None:
    rows = np.random.default_rng(4).normal(0, 2, (6, VOCAB)).astype(np.float32)
    sampler = shim.sampler("repetition_penalty=1.5 seed=9", VOCAB)
    before = sampler.follow(rows)
    sampler.reset()
    assert sampler.follow(rows) == before
    sampler.free()


def test_unseeded_samplers_differ_and_reset_draws_another_seed(shim: Any) -> None:
    first, second = shim.sampler("", VOCAB), shim.sampler("seed=-1", VOCAB)
    clone = first.clone()
    seeds = [shim.seed(sampler.address) for sampler in (first, clone, second)]
    first.reset()
    assert len({*seeds, shim.seed(first.address)}) == 3
    assert seeds[0] == seeds[1]  # a clone draws the same
    for sampler in (first, clone, second):
        sampler.free()


@pytest.mark.parametrize(
    ("row", "selected", "words"),
    [
        ([1.0, np.nan, 3.0, 2.0], 2, "NaN"),
        ([1.0, np.inf, 3.0, 2.0], 1, "+inf"),
        ([-np.inf] * 4, 0, "no candidate"),
        ([np.nan] * 4, 0, "NaN"),
    ],
)
def test_a_faulty_row_selects_the_likeliest(shim: Any, row: list[float], selected: int, words: str) -> None:
    sampler = shim.sampler("top_k=2 seed=1", 4)
    assert sampler.draw(token_data(np.array(row, np.float32))) == selected
    assert words in sampler.error
    assert sampler.draw_token(np.arange(4, dtype=np.float32)) in (2, 3)
    assert sampler.error == ""
    sampler.free()


def test_candidates_outside_the_vocabulary_are_not_drawn(shim: Any) -> None:
    data = token_data(np.arange(6, dtype=np.float32))
    data["id"] = [4, -1, 5, 1, 99, 2]
    sampler = shim.sampler("seed=1", 4)
    assert {sampler.draw(data) for _ in range(3)} <= {3, 5}
    data["id"] = 7
    assert sampler.draw(data) == 5  # the likeliest: nothing else is left
    assert sampler.draw(data[:0]) == -1
    sampler.free()


def test_probabilities_are_those_of_the_draw(shim: Any) -> None:
    row = np.array([3.0, 1.0, 2.0, -4.0], np.float32)
    sampler = shim.sampler("top_k=2 temperature=0.5 probabilities=1 seed=1", 4)
    data = token_data(row, [2, 3, 0, 1])
    selected = sampler.draw(data)
    np.testing.assert_allclose(data["p"], [1 / (1 + np.e**2), 0, 1 / (1 + np.e**-2), 0], rtol=1e-5)
    np.testing.assert_array_equal(data["logit"], np.array([4, -np.inf, 6, -np.inf], np.float32))
    assert selected in (0, 2)
    sampler.free()


def test_logits_stay_as_they_are(shim: Any) -> None:
    data = token_data(np.arange(5, dtype=np.float32))
    before = data.copy()
    sampler = shim.sampler("top_k=2 temperature=0.5 seed=1", 5)
    sampler.draw(data)
    assert data.tobytes() == before.tobytes()
    sampler.free()


def test_a_long_text_takes_no_more_memory_than_its_limit(shim: Any) -> None:
    sampler = shim.sampler("repetition_penalty=1.1 history=4096 seed=1", VOCAB)
    row = np.random.default_rng(1).normal(size=VOCAB).astype(np.float32)
    sampler.accept(*range(20_000))
    sampler.draw_token(row)
    before = bytes_in_use()
    for i in range(200_000):
        sampler.accept(i % VOCAB)
        if i % 20_000 == 0:
            sampler.draw_token(row)
    assert bytes_in_use() - before < 500_000  # all would be 3,200,000
    sampler.free()


def test_dropped_history_leaves_windows_that_fit_and_positions(shim: Any) -> None:
    rows = np.random.default_rng(5).normal(0, 1, (60, VOCAB)).astype(np.float32)
    text = "repetition_penalty=1.8 penalty_last_n=8 seed=4"
    short, whole = shim.sampler(f"{text} history=20", VOCAB), shim.sampler(text, VOCAB)
    assert short.follow(rows) == whole.follow(rows)
    for one in (short, whole):
        one.free()


def test_samplers_are_freed(shim: Any) -> None:
    row = np.zeros(4096, np.float32)
    text = "repetition_penalty=1.1 dry_multiplier=1 dry_sequence_breakers=1;2,3 probabilities=1"

    def live_and_die() -> None:
        sampler = shim.sampler(text, 4096)
        sampler.accept(*range(50))
        sampler.draw_token(row)
        clone = sampler.clone()
        clone.draw_token(row)
        clone.free()
        sampler.free()

    live_and_die()
    before = bytes_in_use()
    for _ in range(50):
        live_and_die()
    assert bytes_in_use() - before < 100_000  # one has 300,000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("temprature=1", 'unknown parameter "temprature"'),
        ("temperature", 'no "="'),
        ("temperature=warm", "temperature=warm is not allowed: a number"),
        ("temperature=-1", "temperature=-1 is not allowed: from 0 to 1000000"),
        ("temperature=nan", "temperature=nan"),
        ("top_n_sigma=inf", "top_n_sigma=inf is not finite"),
        ("top_k=1.5", "top_k=1.5 is not allowed: a whole number"),
        ("top_k=99999999999999999999", "is not allowed: from -1 to 2147483647"),
        ("repetition_penalty=0", "repetition_penalty=0 is not allowed"),
        ("mirostat=3", "mirostat=3 is not allowed: one of 0, 1, 2"),
        ("penalty_scope=prompt", "one of all, default, output"),
        ("seed=-2", "seed=-2 is not allowed"),
        ("seed=18446744073709551616", "seed=18446744073709551616 is not allowed"),
        ("order=top_k,top_q", 'order names "top_q"'),
        ("order=top_k,top_k", 'order names "top_k" twice'),
        ("order=top_k min_p=0.1", "order omits min_p"),
        ("mirostat=1 adaptive_target=0.5", "one of them only"),
        ("dry_multiplier=1 dry_sequence_breakers=3;x", "dry_sequence_breakers=3;x is not allowed"),
        ("dry_multiplier=1 dry_sequence_breakers=3,", "dry_sequence_breakers=3, is not allowed"),
        ("dry_multiplier=1 dry_sequence_breakers=300", "ids below 300"),
        ("order=" + "x" * 2000, "order="),
        ("top_k=1 " * 2000, "a text of 16000 bytes"),
    ],
)
def test_wrong_parameters_are_refused_by_name(shim: Any, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        shim.sampler(text, VOCAB)
    assert words in str(error.value)


def test_parameters_of_another_size_are_not_written_beyond_it_and_refused(shim: Any) -> None:
    params, why = ctypes.create_string_buffer(b"\xff" * 64, 8192), ctypes.create_string_buffer(200)
    shim.library.es_llama_begin(params, ctypes.c_uint32(16), ctypes.c_int32(5))
    assert params.raw[16:64] == b"\xff" * 48
    assert shim.library.es_llama_read(params, b"top_k=1", why, ctypes.c_int64(200)) != 0
    assert b"another size" in why.value


def test_wrong_text_changes_nothing(shim: Any) -> None:
    params, _ = shim.read("top_k=3", VOCAB)
    before = params.raw
    assert shim.library.es_llama_read(params, b"top_k=4 top_p=7", None, ctypes.c_int64(0)) != 0
    assert params.raw == before


@pytest.mark.parametrize("vocab_size", [0, -1, 2**24 + 1])
def test_wrong_vocabularies_are_refused(shim: Any, vocab_size: int) -> None:
    with pytest.raises(ValueError, match=f"vocab_size={vocab_size} is not allowed"):
        shim.sampler("", vocab_size)


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [("llama_sampler", {"sampler_bytes": 24}), ("llama_token_data", {"token_bytes": 16}),
     ("llama_token_data_array", {"array_bytes": 40}), ("llama_sampler_i", {"interface_bytes": 8})],
)  # fmt: skip
def test_a_changed_header_is_refused_by_name(shim: Any, name: str, bytes_: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"^{name} of llama.h has"):
        shim.sampler("", VOCAB, shim.host(**bytes_))


@pytest.mark.parametrize("functions", [6, 10, 13])
def test_other_interfaces_get_no_function_that_they_may_read_otherwise(shim: Any, functions: int) -> None:
    sampler = shim.sampler("seed=1", VOCAB, shim.host(interface_bytes=8 * functions))
    assert not sampler.interface.copy_state
    assert sampler.draw_token(np.arange(VOCAB, dtype=np.float32)) >= 0
    sampler.free()


def test_numbers_are_read_alike_in_all_locales(shim: Any) -> None:
    before = locale.setlocale(locale.LC_NUMERIC)
    plain = shim.read("temperature=0.7", VOCAB)[0].raw
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8"):
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
        except locale.Error:
            continue
        try:
            assert shim.read("temperature=0.7", VOCAB)[0].raw == plain
        finally:
            locale.setlocale(locale.LC_NUMERIC, before)


@pytest.mark.parametrize(
    "name", [name for name, values in CHOICES.items() if type(values[0]) in (int, float)]
)
def test_bounds_are_those_of_the_package(shim: Any, name: str) -> None:
    for value in (-1001.5, -101, -2, -1, -0.5, 0, 0.5, 1, 1.5, 3, 101, 1e7):
        if name == "repetition_penalty_range" and value == -2:
            continue  # the shim's None
        shown = int(value) if value == int(value) else value
        try:
            SamplingParams(**{name: shown})
        except ParameterError:
            allowed = False
        else:
            allowed = True
        assert allowed == (shim.read(f"{name}={shown}", VOCAB)[1] == ""), shown


def test_the_sampler_says_its_name(shim: Any) -> None:
    sampler = shim.sampler("", VOCAB)
    assert sampler.interface.name(sampler.address) == b"engine-sampler"
    assert candidates_of(token_data(np.zeros(3, np.float32))).size == 3
    sampler.free()
