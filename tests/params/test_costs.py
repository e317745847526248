"""What the worst allowed value of every parameter costs: work is counted, in calls and bytes, not timed."""

from __future__ import annotations

import functools
import gc
import string
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.params.orders import DEFAULT
from engine_sampler.registry import GRAMMAR_OPTIONS
from engine_sampler.samplers import dry
from engine_sampler.samplers.dry import Dry
from engine_sampler.samplers.temperature_schedule import MAX_POINTS

from .counting import count_calls

VOCAB = 131_072
CALLS = 60_000
"""Calls of Python functions and of C functions from Python: some 20 ms."""
MEMORY = 32 << 20
STRUCTURED = {"json_schema", "regex", "choice", "grammar", "structural_tag", *GRAMMAR_OPTIONS}
"""The limits of `engine_sampler.grammar` bound their cost; see tests/grammar/test_hostile.py."""
LETTERS = string.ascii_letters + string.digits


def pieces() -> list[bytes]:
    """131,072 tokens: all bytes, then words, of which thousands end with each letter."""
    random = np.random.default_rng(0)
    words = [bytes([byte]) for byte in range(256)]
    alphabet = np.frombuffer(b"etaoinshrdlucmfwypvbgk \n", np.uint8)
    while len(words) < VOCAB:
        words += {
            alphabet[random.integers(0, len(alphabet), n)].tobytes() for n in random.integers(2, 9, 4096)
        }
    return words[:VOCAB]


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer(pieces(), eos_token_ids=[7])


def texts(size: int, length: int) -> list[str]:
    """Different texts of `length` characters, `size` characters in all."""
    return [
        "".join(LETTERS[i // len(LETTERS) ** k % len(LETTERS)] for k in range(length))
        for i in range(size // length)
    ]


def markers(count: int) -> list[str]:
    """This many different markers, as long as they may be."""
    return [f"{i:02}" * 60 for i in range(count)]


WORST: dict[str, Sequence[Callable[[int], Any]]] = {
    "n": [lambda limit: limit],
    "best_of": [lambda limit: limit],
    "beam_width": [lambda limit: limit],
    "logprobs": [lambda limit: limit],
    "prompt_logprobs": [lambda limit: limit],
    "logprob_token_ids": [lambda limit: list(range(limit))],
    "return_sampling_mask": [lambda limit: limit],
    "prompt_logprob_token_ids": [lambda limit: [list(range(limit // 2))] * 2],
    "logit_bias": [lambda limit: dict.fromkeys(range(limit // 2), 1.0)],
    "allowed_token_ids": [lambda limit: list(range(limit))],
    "stop_token_ids": [lambda limit: list(range(limit))],
    "sequence_bias": [
        lambda limit: [[[i], 1.0] for i in range(limit // 2)],
        lambda limit: [[list(range(limit - 1)), 1.0]],
    ],
    **dict.fromkeys(
        (
            "suppress_tokens",
            "begin_suppress_tokens",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "no_repeat_ngram_whitelist_ids",
            "xtc_protected_ids",
            "top_p_reset_ids",
        ),
        (lambda limit: list(range(limit)),),
    ),
    "temperature_schedule": [lambda limit: [[i, 1.0 + i] for i in range(MAX_POINTS)]],
    "exponential_decay_length_penalty": [lambda limit: [0, 1e30]],
    "bad_words": [
        lambda limit: list(range(limit)),
        lambda limit: [list(range(limit))],
        lambda limit: texts(limit, 2),
        lambda limit: ["x" * limit],
    ],
    "dry_sequence_breakers": [
        lambda limit: list(range(limit)),
        lambda limit: [chr(code) for code in range(min(limit, 128))],
        lambda limit: ["0" + letter for letter in LETTERS],
        lambda limit: ["Q" + text for text in texts(limit, 3)[: limit // 4]],
        lambda limit: ["Q" * 40 + letter for letter in LETTERS[: limit // 41]],
    ],
    "stop": [lambda limit: texts(limit, 3), lambda limit: ["x" * limit]],
    "banned_strings": [lambda limit: texts(limit, 3), lambda limit: ["É" * (limit // 2)]],
    "banned_regex": [lambda limit: texts(limit, 4), lambda limit: ["(\\w|\\d)+x{1,50}a" * (limit // 17)]],
    "stop_regex": [lambda limit: texts(limit, 4), lambda limit: ["(\\w|\\d)+x{1,50}a" * (limit // 17)]],
    "thinking": [
        lambda limit: {"start": markers(16), "end": markers(16), "tool_call": markers(16)},
        lambda limit: {"start": "<", "end": ["e", " ", "a"], "message": "é" * 500},
    ],
    "answer": [
        lambda limit: {"logit_bias": dict.fromkeys(range(limit // 3), 1.0)},
        lambda limit: {"bad_words": texts(1000, 2)},
    ],
    "phases": [
        lambda limit: [{"until": markers(2), "tokens": 9, "force": "x" * 240, "then": 0}] * 16,
        lambda limit: [{"tokens": 1, "then": 0, "params": {"bad_words": texts(450, 2)}}] * 16,
    ],
    "logits_processors": [lambda limit: [print] * limit],
    "order": [lambda limit: [*DEFAULT] * 4],
    "logprobs_mode": [lambda limit: ("raw", "penalized", "processed")],
    "repetition_detection": [lambda limit: {"max_pattern_size": 1024, "min_count": 1024}],
}
NEEDED: dict[str, dict[str, Any]] = {
    "beam_width": {"use_beam_search": True},
    "dry_sequence_breakers": {"dry_multiplier": 1.0},
    "logprobs_mode": {"logprobs": 20},
    "forced_eos_token_id": {"max_tokens": 9},
    "no_repeat_ngram_whitelist_ids": {"no_repeat_ngram_size": 2},
    "xtc_protected_ids": {"xtc_probability": 1.0},
    "top_p_reset_ids": {"top_p_decay": 0.5},
    "thinking": {"bad_words": texts(1000, 2), "thinking_token_budget": 3},
    "answer": {"thinking": "qwen_3"},
    "phases": {"bad_words": texts(400, 2)},
}
"""Parameters without which the value would not matter."""

CASES = [(name, make) for name, makers in WORST.items() for make in makers]


def peak_memory(work: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def params_of(name: str, value: Any) -> SamplingParams:
    return SamplingParams(seed=1, **{name: value, **NEEDED.get(name, {})})


def join(scheduler: Scheduler, params: SamplingParams) -> list[Any]:
    return scheduler.add_group(params, [1, 2, 3])


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """A scheduler whose tokenizer has its index, and whose backend has its tables."""
    found = Scheduler(VOCAB, tokenizer(), backend="numpy")
    join(found, params_of("dry_sequence_breakers", ["\n\n"]))
    found.step(np.zeros((1, VOCAB), np.float32))
    return found


def limit_of(name: str) -> int:
    return SamplingParams.parameters()[name].default_limit or 0


def test_every_parameter_that_can_cost_much_has_a_limit_and_a_cost() -> None:
    for name, param in SamplingParams.parameters().items():
        if param.type not in (int, float, bool) and param.choices is None:
            assert param.default_limit is not None, name
            small = name in {"seed", "early_stopping", "drafter"} or (param.type is str and param.choices)
            assert small or name in WORST or name in STRUCTURED, name
        assert param.limit is None or name in WORST or name in STRUCTURED, name


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("name", "make"), CASES)
def test_the_worst_allowed_value_joins_with_little_work(
    scheduler: Scheduler, name: str, make: Callable[[int], Any]
) -> None:
    dry._breakers.cache_clear()
    params = params_of(name, make(limit_of(name)))
    ids: list[Any] = []
    assert count_calls(lambda: ids.extend(join(scheduler, params))) <= CALLS
    for request_id in ids:
        scheduler.remove(request_id)
    dry._breakers.cache_clear()
    assert peak_memory(lambda: ids.extend(join(scheduler, params))) <= MEMORY
    for request_id in ids[len(ids) // 2 :]:
        scheduler.remove(request_id)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("name", "make"), CASES)
def test_the_worst_allowed_value_costs_a_neighbour_nothing(name: str, make: Callable[[int], Any]) -> None:
    row = np.zeros((1, VOCAB), np.float32)
    work = []
    for joins in (False, True):
        scheduler = Scheduler(VOCAB, tokenizer(), backend="numpy")
        neighbour = scheduler.add(SamplingParams(seed=1, logprobs=1), [1, 2])
        if joins:
            join(scheduler, params_of(name, make(limit_of(name))))
        for _ in range(2):
            scheduler.step(row, [neighbour])
        work.append(count_calls(lambda s=scheduler, i=neighbour: s.step(row, [i])))
    assert work[1] <= work[0] + 10  # the plan of a step beside a beam search, however wide


@pytest.mark.parametrize(
    "name", [name for name in WORST if SamplingParams.parameters()[name].limit is not None]
)
def test_more_than_the_limit_is_refused_before_any_work(name: str) -> None:
    scheduler = Scheduler(VOCAB, tokenizer(), limits=RequestLimits(**{name: 1}))
    params = params_of(name, WORST[name][0](limit_of(name)))

    def refused() -> None:
        with pytest.raises(
            ParameterError, match=rf"{name}=.* this scheduler's limit is 1 \(RequestLimits\({name}="
        ):
            join(scheduler, params)

    assert count_calls(refused) <= CALLS
    assert not scheduler.request_ids


def test_a_greater_limit_allows_more() -> None:
    scheduler = Scheduler(VOCAB, tokenizer(), limits=RequestLimits(bad_words=None, stop=20_000))
    join(scheduler, SamplingParams(bad_words=texts(8000, 4), stop=texts(20_000, 10)))
    assert len(scheduler.request_ids) == 1


# --- growth --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bad_words", lambda n: [[i, i + 1] for i in range(n)]),
        ("bad_words", lambda n: texts(4 * n, 4)),
        ("dry_sequence_breakers", lambda n: ["Q" + text for text in texts(3 * n, 3)]),
        ("logit_bias", lambda n: dict.fromkeys(range(n), 1.0)),
        ("stop", lambda n: texts(4 * n, 4)),
        ("stop_token_ids", lambda n: list(range(n))),
    ],
)
def test_work_grows_no_faster_than_the_value(name: str, make: Callable[[int], Any]) -> None:
    scheduler = Scheduler(VOCAB, tokenizer(), backend="numpy", limits=RequestLimits.none())
    join(scheduler, params_of(name, make(1)))

    def work(n: int) -> int:
        params = params_of(name, make(n))
        return count_calls(lambda: join(scheduler, params))

    assert work(80) <= 2.2 * work(40) + 500


def test_a_breaker_is_not_searched_for_in_every_token() -> None:
    substrings = tokenizer().substrings
    substrings.containing(b"zq")
    calls = count_calls(lambda: substrings.containing(b"the"))
    assert calls < 100


def test_breakers_that_begin_in_too_many_tokens_are_refused() -> None:
    scheduler = Scheduler(VOCAB, tokenizer(), backend="numpy")
    params = params_of("dry_sequence_breakers", [a + b for a in "etaoinshr" for b in "0123456789"])
    with pytest.raises(ParameterError, match=r"dry_sequence_breakers=.* at most 262,144"):
        join(scheduler, params)


def test_equal_breakers_are_resolved_once() -> None:
    scheduler = Scheduler(VOCAB, tokenizer(), backend="numpy")
    first, second = (params_of("dry_sequence_breakers", ["ab", "cd"]).replace(seed=seed) for seed in (1, 2))
    assert Dry().resolve(first, scheduler.vocabulary) is Dry().resolve(second, scheduler.vocabulary)
    size = dry._breakers.cache_info().maxsize
    assert size is not None
    assert size <= 16


# --- logprobs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_one_request_for_all_logprobs_adds_its_own_entries_only(backend: str) -> None:
    scheduler = Scheduler(VOCAB, backend=backend, limits=RequestLimits(logprobs=None))
    for i in range(64):
        scheduler.add(SamplingParams(seed=i, logprobs=-1 if i == 9 else 2), [1])
    logits = np.random.default_rng(0).normal(0, 3, (64, VOCAB)).astype(np.float32)
    result = scheduler.step(logits)
    found = result.logprobs
    assert len(found.entry_token_ids) == len(found.entry_logprobs) == 63 * 3 + 1 + VOCAB  # type: ignore[union-attr]
    assert peak_memory(lambda: scheduler.step(logits)) < 40 << 20  # as a table they have 98 MB
