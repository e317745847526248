"""Random requests over all samplers, selectors and orders, the same in every run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler.arithmetic import LogitRows
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, Chain, Group, Rows, Vocabulary
from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.params.orders import NAMED, full_order
from engine_sampler.registry import CORE_PARAMS, Registry, default_registry
from engine_sampler.requests.history import History
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState
from engine_sampler.testing.cases import KINDS
from engine_sampler.tokenizer import Tokenizer

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
"""Factor on the number of random rows."""

Random = np.random.Generator
Settings = Mapping[str, Any]

LETTERS = str.maketrans("01", "ab")


@functools.cache
def tokenizer(vocab_size: int) -> Tokenizer:
    """Tokens with common prefixes: a, b, aa, ab, …; token 1 is a newline, token 0 is EOS."""
    texts = [bin(number + 2)[3:].translate(LETTERS).encode() for number in range(vocab_size)]
    return Tokenizer([b"</s>", b"\n", *texts][:vocab_size], eos_token_ids=[0])


def vocabulary(vocab_size: int) -> Vocabulary:
    return Vocabulary(vocab_size, (0,), tokenizer(vocab_size))


def _some_ids(random: Random, size: int, max_count: int) -> list[int]:
    return random.integers(0, size, random.integers(1, max_count + 1)).tolist()


def _biases(random: Random, size: int) -> Settings:
    values = random.choice([-np.inf, -2.0, 0.5, 3.0, 1e38], 4)
    return {"logit_bias": dict(zip(random.integers(0, size, 4).tolist(), values.tolist(), strict=True))}


def _bad_words(random: Random, size: int) -> Settings:
    return {"bad_words": [_some_ids(random, size, 3) for _ in range(3)]}


def _sequence_bias(random: Random, size: int) -> Settings:
    biases = ((_some_ids(random, size, 3), float(value)) for value in (-2.0, 0.5, 1e38))
    return {"sequence_bias": {tuple(ids): bias for ids, bias in biases}}


def _with_ids(name: str, settings: Settings, count: int = 3) -> Callable[[Random, int], Settings]:
    """`settings`, and some ids as the parameter `name`."""
    return lambda random, size: {**settings, name: _some_ids(random, size, count)}


def _raise_the_last(token_ids: np.ndarray, logits: np.ndarray) -> None:
    """A function of an engine's own."""
    logits[token_ids[-1:]] += np.float32(1.5)


def _one_of(*settings: Settings) -> Callable[[Random, int], Settings]:
    return lambda random, size: settings[random.integers(len(settings))]


BUILT_IN = Registry(CORE_PARAMS).catalogue.samplers
ORDERED = full_order("llama.cpp", BUILT_IN)
"""Those that can be ordered, in the default order."""


def by_examples(name: str) -> list[Settings]:
    """Settings that enable a sampler, as its file gives them."""
    return [example.params for example in BUILT_IN[name].examples]


_CHOSEN: Mapping[str, Callable[[Random, int], Settings]] = {
    "allowed_token_ids": lambda random, size: {"allowed_token_ids": _some_ids(random, size, size)},
    "bad_words": _bad_words,
    "ignore_eos": _one_of({"ignore_eos": True}),
    "min_tokens": _one_of({"min_tokens": 4}, {"min_tokens": 40}),
    "logit_bias": _biases,
    "grammar_bias": _one_of(
        {"grammar_bias": 2.5, "regex": r"(ab?|\n)*"},
        {"grammar_bias": -1.5, "choice": ["ab", "abba", "b"]},
        {"grammar_bias": 1e6, "grammar": 'start: "a" start "b" | "\\n"'},
    ),
    "sequence_bias": _sequence_bias,
    "suppress_tokens": _with_ids("suppress_tokens", {}),
    "forced_tokens": _with_ids("forced_bos_token_id", {}, 1),
    "no_repeat_ngram_window": _with_ids(
        "no_repeat_ngram_whitelist_ids", {"no_repeat_ngram_size": 2, "no_repeat_ngram_window": 9}
    ),
    "top_p_decay": _with_ids("top_p_reset_ids", {"top_p": 0.95, "top_p_decay": 0.8}),
    "xtc_protected": _with_ids("xtc_protected_ids", {"xtc_probability": 0.9, "xtc_threshold": 0.02}),
    "logits_processors": _one_of(
        {"logits_processors": _raise_the_last}, {"logits_processors": [_raise_the_last, _raise_the_last]}
    ),
    "penalties": _one_of(
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 0.8, "repetition_penalty_range": 9, "repetition_penalty_slope": 0.7},
        {"frequency_penalty": 0.4, "presence_penalty": -0.3, "penalty_last_n": 6},
        {"repetition_penalty": 2.0, "presence_penalty": 0.5, "penalty_scope": "all", "penalize_nl": False},
        {
            "repetition_penalty": 1.5,
            "frequency_penalty": 0.4,
            "presence_penalty": 0.3,
            "penalty_last_n": 3,
            "penalty_decay_range": 7,
            "penalty_scope": "all",
        },
    ),
    "no_repeat_ngram": _one_of({"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2}),
    "dry": _one_of(
        {"dry_multiplier": 0.8},
        {"dry_multiplier": 1.5, "dry_base": 3.0, "dry_allowed_length": 1, "dry_penalty_last_n": 12},
    ),
    "top_n_sigma": _one_of({"top_n_sigma": 0.5}, {"top_n_sigma": 2.5}),
    "top_k": _one_of({"top_k": 1}, {"top_k": 6}, {"top_k": 40}, {"top_k": 1200}),
    "top_a": _one_of({"top_a": 0.05}, {"top_a": 0.5}),
    "tfs": _one_of({"tfs": 0.6}, {"tfs": 0.95, "tfs_cut": "koboldai"}),
    "typical_p": _one_of({"typical_p": 0.3}, {"typical_p": 0.95, "min_keep": 3}),
    "top_p": _one_of(
        {"top_p": 0.95}, {"top_p": 0.5, "top_p_cut": "exceed"}, {"top_p": 0.8, "top_p_cut": "below"}
    ),
    "min_p": _one_of({"min_p": 0.02}, {"min_p": 0.3, "min_keep": 2}, {"min_p": 1.0}),
    "min_k": _one_of({"min_k": True}, {"min_k": True, "min_k_tau": 400.0}),
    "p_less": _one_of({"p_less": True}, {"p_less_norm": True}),
    "epsilon_cutoff": _one_of({"epsilon_cutoff": 1e-3}, {"epsilon_cutoff": 0.1}),
    "eta_cutoff": _one_of({"eta_cutoff": 1e-3}, {"eta_cutoff": 0.1}),
    "top_h": _one_of({"top_h": 0.4}, {"top_h": 0.9}),
    "xtc": _one_of(
        {"xtc_probability": 1.0, "xtc_threshold": 0.05}, {"xtc_probability": 0.5, "xtc_threshold": 0.01}
    ),
    "smoothing": _one_of({"smoothing_factor": 0.25}, {"smoothing_factor": 2.0, "smoothing_curve": 1.5}),
    "temperature": _one_of(
        {"temperature": 0.5},
        {"temperature": 1.7},
        {"temperature": 0.8, "dynatemp_range": 0.5, "dynatemp_exponent": 2.0},
    ),
    "infill": _one_of({"infill": True}),
}

SAMPLERS: Mapping[str, Callable[[Random, int], Settings]] = _CHOSEN | {
    name: _one_of(*by_examples(name)) for name in BUILT_IN if name not in _CHOSEN
}
"""Settings that enable each sampler: chosen ones, or those of its examples."""

SELECTORS: Mapping[str, Settings] = {
    "dist": {},
    "greedy": {"temperature": 0.0},
    "mirostat": {"mirostat": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
    "mirostat_v2": {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
    "adaptive_p": {"adaptive_target": 0.3},
    "repetition_aware": {"ras_win_len": 8, "ras_win_max_num_repeat": 1, "top_p": 0.6, "top_k": 9},
}

HOST_ONLY = {
    "encoder_repetition_penalty",
    "exponential_decay_length_penalty",
    "forced_tokens",
    "logits_processors",
    "lz_penalty",
    "no_repeat_ngram_window",
    "normalize",
    "repetition_aware",
    "repetition_ngram",
    "sequence_bias",
    "skew",
    "suppress_tokens",
    "temperature_schedule",
    "top_p_decay",
    "xtc_protected",
}
"""Those that run on the host alone: in Python, whatever the backend."""

TAKES_AWAY = ("allowed_token_ids", "bad_words", "logit_bias", "suppress_tokens")
"""Samplers that mask tokens and may leave none."""


def random_settings(
    random: Random, vocab_size: int, *, without: Sequence[str] = (), selector: str | None = None
) -> dict[str, Any]:
    """Settings that enable up to eight samplers, in a named or a random order."""
    names = [name for name in SAMPLERS if name not in without]
    chosen = random.permutation(names)[: random.integers(0, 9)]
    settings: dict[str, Any] = {"order": _order(random)}
    for name in chosen:
        settings |= SAMPLERS[name](random, vocab_size)
    return settings | SELECTORS[selector or random.choice([s for s in SELECTORS if s not in without])]


def _order(random: Random) -> Any:
    """A named order, or a random permutation of all samplers."""
    named = list(NAMED)
    choice = int(random.integers(len(named) + 3))
    return named[choice] if choice < len(named) else random.permutation(ORDERED).tolist()


def random_logits(random: Random, n: int, vocab_size: int) -> np.ndarray:
    """float32 [n, vocab]: rows of every kind that is not faulty."""
    kinds = [kind for kind in KINDS if kind != "extreme"]
    return np.stack([KINDS[kinds[random.integers(len(kinds))]](random, vocab_size) for _ in range(n)]).astype(
        np.float32
    )


def random_history(random: Random, vocab_size: int, max_length: int = 20) -> list[int]:
    """Up to `max_length` token ids from a small set, so that n-grams recur."""
    length, few, *tokens = random.integers(0, 2**31, max_length + 2).tolist()
    few = min(vocab_size, 2 + few % 7)
    return [token % few for token in tokens[: length % (max_length + 1)]]


def random_rows(
    random: Random, params: SamplingParams, n: int, vocab_size: int, rows_each: int = 1
) -> tuple[Chain, Rows]:
    """A chain, and n requests that share it, each with its own history, state and seed, and with `rows_each`
    rows of a step."""
    vocab = vocabulary(vocab_size)
    chain = build_chain(params)
    slots = Slots(vocab, default_registry().catalogue.params)
    index = []
    for seed in random.integers(0, 2**63, n).tolist():
        histories = (random_history(random, vocab_size) for _ in range(2))
        slot = RequestState(chain, History(*histories))
        slot.open(params, vocab)
        slot_index = slots.put(slot, params.given, seed)
        slots.accept(slot_index, [int(random.integers(vocab_size))], [float(random.uniform(0, 8))])
        index.append(slot_index)
    return chain, Rows(slots, np.array(index * rows_each, np.int64))


def run_fused(
    chain: Chain, rows: Rows, logits: Any, bitmask: np.ndarray | None = None, backend: Any = None
) -> Batch:
    """One step of one group on the NumPy backend: `logits` [n, ≥ vocab] for n rows."""
    n = len(rows)
    group = Group(chain, np.arange(n), rows, masked=bitmask is not None, want_processed=True)
    batch = Batch(
        LogitRows(logits, rows.vocabulary.size),
        [group],
        np.full(n, -1, np.int64),
        np.full(n, np.nan),
        [None] * n,
        bitmask,
    )
    (backend or NumpyBackend()).run(batch)
    return batch


def run_plainly(chain: Chain, rows: Rows, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The chain by definition: every sampler on every whole row, then the selector.

    Returns the processed rows float32 [n, vocab], the token ids [n] (−1 for a row without survivors) and
    the notes [n] (NaN for none).
    """
    values = logits.copy()
    alive = np.flatnonzero(values.max(axis=1) > -np.inf)
    with np.errstate(all="ignore"):
        for sampler in chain.samplers:
            if not len(alive):
                break
            part = values[alive]
            sampler.apply(part, rows.take(alive).bind(sampler))
            values[alive] = part
            alive = alive[part.max(axis=1) > -np.inf]
        token_ids, notes = np.full(len(rows), -1, np.int64), np.full(len(rows), np.nan)
        if len(alive):
            selection = chain.selector.select(values[alive], rows.take(alive).bind(chain.selector))
            token_ids[alive] = selection.columns
            if selection.notes is not None:
                notes[alive] = selection.notes
    return values, token_ids, notes


def expect_fused_equals_plain(
    chain: Chain, rows: Rows, logits: np.ndarray, bitmask: np.ndarray | None = None
) -> None:
    """Assert that tokens, notes and survivors of the fused run and of the plain chain are bitwise equal."""
    plain = logits if bitmask is None else _masked(logits, bitmask)
    under = rows if bitmask is None else rows.under(bitmask)
    processed, token_ids, notes = run_plainly(chain, under, plain)
    batch = run_fused(chain, rows, logits, bitmask)
    np.testing.assert_array_equal(batch.token_ids, token_ids, err_msg=str(chain))
    np.testing.assert_array_equal(batch.notes, notes, err_msg=str(chain))
    for i, error in enumerate(batch.errors):
        assert (error is None) == (token_ids[i] >= 0), f"{chain}: {error}"
        assert error is None or error.endswith("leaves no token"), f"{chain}: {error}"
    drawn = np.flatnonzero(token_ids >= 0)
    if len(drawn):
        left = [batch.survivors[i] for i in drawn.tolist()]
        ids, logits_left = map(np.concatenate, zip(*left, strict=True))
        alive = processed[drawn] > -np.inf
        lengths = [len(ids_of_row) for ids_of_row, _ in left]
        np.testing.assert_array_equal(lengths, alive.sum(axis=1), err_msg=str(chain))
        np.testing.assert_array_equal(ids, np.nonzero(alive)[1], err_msg=str(chain))
        expected = processed[drawn][alive]
        np.testing.assert_array_equal(logits_left.view(np.int32), expected.view(np.int32), err_msg=str(chain))


def _masked(logits: np.ndarray, bitmask: np.ndarray) -> np.ndarray:
    bits = np.arange(logits.shape[1])
    allowed = (bitmask[:, bits // 32] >> (bits % 32).astype(np.int32)) & 1
    return np.where(allowed == 1, logits, np.float32(-np.inf))
