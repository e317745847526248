"""A small engine around a scheduler: a toy model, toy grammars and many configurations."""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine_sampler import Record, SamplingParams, Scheduler, StepResult, Tokenizer
from engine_sampler.contract import Sampler, Truncation, hookimpl
from engine_sampler.registry import default_registry

VOCAB = 40
EOS = 39

PIECES = [b"a", b"b", b" c", b"\n", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", "é".encode(), b"de"]
TOKENIZER = Tokenizer([*PIECES, *(b"<%d>" % i for i in range(len(PIECES), VOCAB))], [EOS])

CONFIGURATIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.0, "repetition_penalty": 1.4, "dry_multiplier": 0.8, "dry_allowed_length": 1},
    {"temperature": 0.8, "top_k": 10, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 1.5, "min_p": 0.1, "order": "koboldai"},
    {"mirostat": 1, "mirostat_tau": 3.0, "temperature": 0.9},
    {"mirostat": 2, "mirostat_tau": 2.0, "frequency_penalty": 0.3},
    {"adaptive_target": 0.3, "min_p": 0.02},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": 0.1, "penalty_last_n": 8},
    {"repetition_penalty": 1.3, "repetition_penalty_range": 6, "repetition_penalty_slope": 0.9},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "penalty_last_n": 3, "penalty_decay_range": 9},
    {"typical_p": 0.8, "tfs": 0.95, "no_repeat_ngram_size": 2},
    {"p_less_norm": True, "temperature": 1.2, "min_k": True, "order": "vllm"},
    {"top_n_sigma": 1.0, "smoothing_factor": 0.3},
    {"dynatemp_range": 0.5, "top_h": 0.6, "eta_cutoff": 0.01},
    {"epsilon_cutoff": 0.01, "top_a": 0.2, "min_tokens": 6},
    {
        "sequence_bias": [[[1, 2], -3.0], [[4], 1.5]],
        "top_p": 0.9,
        "top_p_decay": 0.8,
        "top_p_reset_ids": [3],
        "temperature_schedule": [[0, 1.5], [9, 0.6]],
        "lz_penalty": 0.2,
        "lz_penalty_ngram": 2,
        "no_repeat_ngram_size": 2,
        "no_repeat_ngram_window": 7,
        "encoder_repetition_penalty": 1.3,
        "begin_suppress_tokens": [5],
        "loop_detect_window": 9,
    },
    {"ras_win_len": 6, "ras_win_max_num_repeat": 1, "top_k": 8, "repetition_penalty": 1.1},
    {"bad_words": [[1, 2], 5], "logit_bias": {3: 2.0, 4: -1.5}, "ignore_eos": True},
    {"allowed_token_ids": list(range(0, VOCAB, 2)), "logprobs": 2, "logprobs_mode": ("raw", "processed")},
    {"temperature": 0.7, "top_k": 6, "logprobs": 0, "logprobs_mode": "penalized", "min_tokens": 2},
    {
        "order": [
            "penalties",
            "dry",
            "top_p",
            "xtc",
            "temperature",
            "dry",
            "top_p",
            "penalties",
            "temperature",
        ],
        "repetition_penalty": 1.2,
        "dry_multiplier": 0.8,
        "dry_allowed_length": 1,
        "top_p": 0.9,
        "temperature": 1.2,
        "xtc_probability": 0.4,
        "xtc_threshold": 0.05,
    },
)
"""Every selector, every stateful sampler, and most of the others."""


def model_row(token_ids: Sequence[int]) -> np.ndarray:
    """The toy model: float32 logits [vocab] from the last three tokens and the length; EOS is rare."""
    return _model_row(len(token_ids), *token_ids[-3:]).copy()


@functools.lru_cache(maxsize=4096)
def _model_row(*state: int) -> np.ndarray:
    random = np.random.default_rng(state)
    row = random.normal(0, 2.5, VOCAB).astype(np.float32)
    row[EOS] -= 3
    return row


def make_scheduler(**keywords: Any) -> Scheduler:
    return Scheduler(VOCAB, **{"tokenizer": TOKENIZER, **keywords})


def rows_for(
    scheduler: Scheduler, request_ids: Sequence[Any], drafts: Sequence[Sequence[int]] | None = None
) -> np.ndarray:
    """The model's logits for these requests, with a row for every draft."""
    rows = []
    for i, request_id in enumerate(request_ids):
        record = scheduler.record(request_id)
        history = record.prompt_token_ids + record.token_ids
        guesses = list(drafts[i]) if drafts is not None else []
        rows += [model_row(history + guesses[:j]) for j in range(len(guesses) + 1)]
    return np.stack(rows) if rows else np.empty((0, VOCAB), np.float32)


def model_step(
    scheduler: Scheduler,
    request_ids: Sequence[Any] | None = None,
    drafts: Sequence[Sequence[int]] | None = None,
) -> StepResult:
    """One step with the model's logits for `request_ids`, default all live ones."""
    named = scheduler.request_ids if request_ids is None else request_ids
    return scheduler.step(rows_for(scheduler, named, drafts), named, drafts)


def run_to_end(scheduler: Scheduler, max_steps: int = 200) -> None:
    """Step until no request is live."""
    for _ in range(max_steps):
        if not scheduler.request_ids:
            return
        model_step(scheduler)
    raise AssertionError(f"requests are still live after {max_steps} steps")


def alone(params: SamplingParams, prompt: Sequence[int] = (), grammar: Any = None) -> Record:
    """The record of a request that has a scheduler to itself."""
    scheduler = make_scheduler()
    request_id = scheduler.add(params, prompt, grammar=grammar)
    run_to_end(scheduler)
    return scheduler.record(request_id)


def outcome(record: Record) -> tuple[Any, ...]:
    """The results that must not depend on the batch that a request ran in."""
    return record.token_ids, record.text, record.finish_reason, record.stop_reason, record.error


def snapshot(scheduler: Scheduler) -> bytes:
    """The complete state of all requests, to compare before and after."""
    slots = scheduler._requests.slots
    state = [
        (
            r.id,
            r.slot,
            r.record(),
            r.state.states,
            int(slots.positions[r.slot]),
            r.stop_checks.criteria,
            r.grammar and r.grammar.matcher,
        )
        for r in scheduler._requests.known.values()
    ]
    return pickle.dumps((scheduler.request_ids, [pickle.dumps(pickle.loads(pickle.dumps(s))) for s in state]))


# --- grammars ------------------------------------------------------------------------------------


class ToyMatcher:
    """A grammar as a table: for every state, the allowed tokens and the states they lead to.

    A state that is missing from the table is the end of the text.
    """

    def __init__(self, table: Mapping[str, Mapping[int, str]], start: str = "start") -> None:
        self.table = table
        self.states = [start]
        self.fills = 0

    @property
    def follow(self) -> Mapping[int, str]:
        return self.table.get(self.states[-1], {})

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        self.fills += 1
        words = bitmask.view(np.uint32)
        words[row] = 0
        for token_id in self.follow:
            words[row, token_id // 32] |= np.uint32(1 << (token_id % 32))

    def accept(self, token_id: int) -> bool:
        if token_id not in self.follow:
            return False
        self.states.append(self.follow[token_id])
        return True

    def rollback(self, n: int) -> None:
        del self.states[len(self.states) - n :]

    def fork(self) -> ToyMatcher:
        child = ToyMatcher(self.table)
        child.states = self.states.copy()
        return child

    def is_accepting(self) -> bool:
        return not self.follow

    def is_terminated(self) -> bool:
        return self.states[-1] not in self.table


# --- plugins -------------------------------------------------------------------------------------


@contextlib.contextmanager
def registered(*samplers: Sampler) -> Iterator[None]:
    """Add samplers or selectors to the default registry for the duration of a test."""

    class Plugin:
        @hookimpl
        def register_samplers(self, register: Any) -> None:
            for sampler in samplers:
                register(sampler)

    with registered_plugin(Plugin()):
        yield


@contextlib.contextmanager
def registered_plugin(plugin: Any) -> Iterator[None]:
    """Add a plugin to the default registry for the duration of a test."""
    registry = default_registry()
    before = registry.catalogue, registry.plugins.copy()
    registry.register(plugin, "test_plugin")
    try:
        yield
    finally:
        registry.catalogue, registry.plugins = before


@contextlib.contextmanager
def observed(*events: str) -> Iterator[list[Any]]:
    """Record the values of `events` that observers are told: one value alone, several as a tuple."""
    seen: list[Any] = []

    def record(*values: Any) -> None:
        seen.append(values if len(values) > 1 else values[0])

    class Plugin:
        @hookimpl
        def register_observers(self, register: Any) -> None:
            register(SimpleNamespace(name="recorder", **dict.fromkeys(events, record)))

    with registered_plugin(Plugin()):
        yield seen


class RemovesEverything(Truncation):
    """A plugin that violates the rule to keep at least one token."""

    name = "removes_everything"

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return np.zeros(logits.shape, bool)


def repeated_once(call: Callable[[], Any]) -> Any:
    """The result of a call; if memory runs out it has done nothing, and is repeated."""
    try:
        return call()
    except MemoryError:
        return call()
