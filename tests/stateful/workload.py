"""What a scheduler is tried with: a vocabulary, a model, and requests of every kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Tokenizer
from engine_sampler.contract import Vocabulary
from engine_sampler.grammar import prepare
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.plugin.constraints import constraint_of, matcher_of
from engine_sampler.params import takes_grammar
from engine_sampler.registry import default_registry, structured_in

from ..random_chains import SELECTORS, random_settings
from .plugins import CRITERIA, GRAMMARS

Random = np.random.Generator

PIECES = [b"</s>", b"\n", b"a", b"b", b"aa", b"ab", b"ba", b"bb", b"c", b"d", b" ", b"bca", b"", b"a"]
PIECES += [b"0", b"1", b"2", b"-", b",", b":", b'"', b"{", b"}", b'{"', b'":', b"true", b"B", b"x" * 9]
PIECES += [b"\xc3", b"\xa9", "é".encode(), b"\xe2\x82", b"\xac", "€".encode(), b"\xf0\x9f", b"\x98\x80b"]
PIECES += [b"a\xc3", b"\xa9a", b"\xff", b"<sp>", b"</t>"]
HALVES = [
    i
    for i, piece in enumerate(PIECES)
    if piece[-1:] and piece[-1] >= 0x80 and piece.decode(errors="ignore") != piece.decode(errors="replace")
]
"""Tokens that may end within a character."""
EOS, SPECIAL, EOT = 0, len(PIECES) - 2, len(PIECES) - 1
VOCAB = len(PIECES) + 3
"""The last ids are tokens that the tokenizer lacks."""

ENGINES = ("reference", "native") if native.load_library() is not None else ("reference",)
BACKENDS = tuple(n for n in ("numpy", "native") if not default_registry().catalogue.backends[n].reason)


@functools.cache
def tokenizer_for(engine: str, eos: tuple[int, ...] = (EOS, EOT), padding: int = 0) -> Tokenizer:
    """A tokenizer whose grammars run on `engine`, with `padding` more tokens that have no text."""
    tokenizer = Tokenizer([*PIECES, *[b""] * padding], eos, [SPECIAL])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINE_SAMPLER_MASK_ENGINE", engine)
        prepare(tokenizer)
    return tokenizer


# --- the model -----------------------------------------------------------------------------------


def model_row(token_ids: Sequence[int]) -> np.ndarray:
    """Float32 logits [vocab], read-only, a function of the length and the last two tokens.

    Their values are also exact in float16 and bfloat16. Many are equal.
    """
    return _row(len(token_ids), *token_ids[-2:])


@functools.lru_cache(maxsize=1 << 15)
def _row(*key: int) -> np.ndarray:
    random = np.random.default_rng(key)
    width = random.choice([0.5, 2.0, 3.5])
    row = random.normal(0, width, VOCAB)
    row[2:12] += 3
    row[[EOS, EOT]] -= 3
    if key[0] % 5 == 0:
        row[random.integers(0, VOCAB, 8)] = -np.inf
    if key[0] % 7 == 0:
        row[random.integers(2, 12)] += 8
    grid = 1 if key[0] % 3 == 0 else 8
    rounded: np.ndarray = (np.clip(np.round(row * grid) / grid, -15, 15) - 0.0).astype(np.float32)
    rounded[row == -np.inf] = -np.inf
    rounded.flags.writeable = False
    return rounded


FAULTS = (np.nan, np.inf, -np.inf)
"""A NaN or +inf somewhere, or −inf everywhere."""


def faulty_row(random: Random) -> np.ndarray:
    row = np.zeros(VOCAB, np.float32)
    fault = random.choice(FAULTS)
    row[slice(None) if fault == -np.inf else random.integers(VOCAB)] = fault
    return row


# --- requests ---------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": [0, 12, -1, "é"]}},
    "required": ["a"],
    "additionalProperties": False,
}
STRUCTURES: Sequence[Mapping[str, Any]] = (
    {"regex": "(ab|ba|é)*c?"},
    {"regex": "a+b{2,3}|x{9}"},
    {"choice": ["abba", "ab", "bca€", "aab"]},
    {"json_schema": SCHEMA},
    {"json_object": True},
    {"grammar": 'start: "a" start "b" | "\\n"'},
    {"regex": "(ab?|\n)*", "grammar_bias": 2.0},
)

STOPS = ("ab", "ba", "abc", "bca", "aab", "éa", "€", "b\n", "aabb", "d", "abab", "a a", "<sp>", "\ufffd")
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "a[bc]d?": ("ab", "ac", "abd", "acd"),
    "b(a|dd)c": ("bac", "bddc"),
    "é{1,2}b": ("éb", "ééb"),
    "(?i)cab|ca": ("ca", "cab", "Ca", "cA", "CA", *(f"{c}{a}{b}" for c in "cC" for a in "aA" for b in "bB")),
    "[01]{2}|b[01]{2}": tuple(f"{b}{x}{y}" for b in ("", "b") for x in "01" for y in "01"),
    "d( ?)b": ("db", "d b"),
}
"""Each pattern with all texts that it matches."""


@dataclass(frozen=True)
class Order:
    """The parameters of a request.

    grammar, criteria  names in `GRAMMARS` and `CRITERIA`.
    """

    params: SamplingParams
    prompt: tuple[int, ...] = ()
    grammar: str | None = None
    criteria: tuple[str, ...] = ()
    position: int | None = None

    def matcher(self, vocabulary: Vocabulary) -> Any:
        """A matcher for the grammar of the request or its parameters; None without one."""
        if self.grammar is not None:
            return GRAMMARS[self.grammar]()
        return matcher_of(constraint_of(self.params, vocabulary), vocabulary) if self.is_structured else None

    @property
    def is_structured(self) -> bool:
        """Whether its parameters set a grammar that constrains it."""
        return bool(structured_in(self.params)) and not takes_grammar(self.params)

    @property
    def is_masked(self) -> bool:
        return self.grammar is not None or self.is_structured

    @property
    def learns(self) -> bool:
        """Whether its selector, or a criterion, learns from what it draws."""
        watches = self.params.deepconf_threshold > 0
        return bool(self.params.mirostat) or self.params.adaptive_target >= 0 or watches

    def extras(self) -> dict[str, Any]:
        """New objects for `Scheduler.add`."""
        return {
            "grammar": None if self.grammar is None else GRAMMARS[self.grammar](),
            "stopping_criteria": [CRITERIA[name]() for name in self.criteria],
        }


def _some(random: Random, values: Sequence[Any], most: int) -> list[Any]:
    picked = random.choice(len(values), int(random.integers(1, most + 1)), replace=False)
    return [values[i] for i in picked]


def _endings(random: Random, longest: int) -> dict[str, Any]:
    """Settings that end a request."""
    choices: list[Callable[[], dict[str, Any]]] = [
        lambda: {"stop": _some(random, STOPS, 3)},
        lambda: {"stop": _some(random, STOPS, 6), "min_tokens": int(random.integers(1, 9))},
        lambda: {"stop": _some(random, STOPS, 3), "stop_regex": _some(random, list(PATTERNS), 2)},
        lambda: {"stop": _some(random, STOPS, 2), "include_stop_str_in_output": True},
        lambda: {"stop_regex": _some(random, list(PATTERNS), 2)},
        lambda: {"stop_token_ids": _some(random, range(2, VOCAB), 3)},
        lambda: {"min_tokens": int(random.integers(1, 12))},
        lambda: {"repetition_detection": {"max_pattern_size": int(random.integers(1, 4)),
                                          "min_count": int(random.integers(2, 4))}},
        lambda: {"repetition_detection": {"max_pattern_size": 1}},
        lambda: {"max_length": int(random.integers(1, 40))},
        lambda: {"assistant_confidence_threshold": float(random.choice([0.001, 0.02]))},
        lambda: {"deepconf_threshold": float(random.choice([3.8, 4.2])), "deepconf_window_size": 4},
        lambda: {"ignore_eos": True},
        lambda: {"skip_special_tokens": False},
        lambda: {"max_time": 1e6},
        lambda: {"weary": float(random.choice([0.5, 1.0, 1.5, 3.0])), "order": "llama.cpp"},
        lambda: {"logprobs": int(random.integers(-1, 4)),
                 "logprobs_mode": _some(random, ["raw", "penalized", "processed"], 3)},
        lambda: {"logprobs": 1},
        lambda: {"return_sampling_mask": int(random.integers(-1, 9))},
        lambda: {"logprob_token_ids": [3, 1, 17], "return_sampling_mask": True,
                 "logprobs_mode": _some(random, ["raw", "penalized", "processed"], 3)},
    ]  # fmt: skip
    settings: dict[str, Any] = {"max_tokens": int(random.integers(longest // 4, longest))}
    for i in random.permutation(len(choices))[: random.integers(0, 6)]:
        settings |= choices[i]()
    return settings


def _phases(random: Random) -> list[dict[str, Any]]:
    """Phases in a circle, with markers and numbers of tokens at which one ends."""
    changes = [{"temperature": 0.5}, {"frequency_penalty": 0.3}, {"logit_bias": {3: 1.5}}, {"top_k": 4}, {}]
    listed: list[dict[str, Any]] = []
    for i in range(int(random.integers(2, 5))):
        phase: dict[str, Any] = {"tokens": int(random.integers(1, 9)), "params": changes[random.integers(5)]}
        if random.random() < 0.5:
            phase["until"] = _some(random, ["ab", "b", "ba", "cad", [2, 3]], 2)
        listed.append({**phase, "then": i + 1})
    listed[-1]["then"] = 0
    return listed


def random_order(random: Random, longest: int, ends: bool, kept: int) -> Order:
    """A request of any kind, with up to `longest` tokens of output; `ends`: whether there is EOS; the bits of
    `kept` say which of its own settings stay."""
    without = [
        "infill",
        "grammar_bias",
        *(["allowed_token_ids", "bad_words"] if random.random() < 0.8 else []),
    ]
    settings: dict[str, Any] = {}
    if random.random() < 0.6:
        settings = random_settings(random, VOCAB, without=without)
    elif random.random() < 0.4:
        settings = dict(SELECTORS[str(random.choice(["mirostat", "mirostat_v2", "adaptive_p"]))])
    if ends and random.random() < 0.1:
        settings |= {"infill": True, "mirostat": 0, "adaptive_target": -1, "temperature": 1.0}
    settings |= _endings(random, longest)
    settings = {name: value for i, (name, value) in enumerate(settings.items()) if kept >> i % 16 & 1}
    seed = int(random.integers(2**63))
    grammar = None
    if random.random() < 0.3:
        settings |= STRUCTURES[int(random.integers(len(STRUCTURES)))]
    elif random.random() < 0.2:
        grammar = str(random.choice(list(GRAMMARS)))
    if random.random() < 0.2 and "grammar_bias" not in settings:
        settings["phases"] = _phases(random)
    criteria = tuple(_some(random, list(CRITERIA), 2)) if random.random() < 0.3 else ()
    position = int(random.choice([0, 5, 2**33])) if random.random() < 0.1 else None
    prompt = [*random.integers(0, VOCAB, random.integers(0, 8)).tolist()]
    while prompt and prompt[-1] in HALVES:  # of characters, which outputs continue: test_detokenizer.py
        prompt.pop()
    return Order(SamplingParams(**settings, seed=seed), tuple(prompt), grammar, criteria, position)


def group_params(random: Random, params: SamplingParams) -> SamplingParams:
    """`params` for siblings, or for a beam search."""
    n = int(random.integers(2, 4))
    if random.random() < 0.5:
        return params.replace(n=n, best_of=None if random.random() < 0.3 else n + int(random.integers(0, 2)))
    plain = {"logprobs": None, "mirostat": 0, "adaptive_target": -1, "repetition_detection": None}
    plain |= {
        "logprob_token_ids": None,
        "return_sampling_mask": 0,
        "deepconf_threshold": 0.0,
        "ras_win_len": 0,
    }
    penalty, early = float(random.choice([0.0, 1.0, 2.0])), random.choice(["yes", "no", "never"])
    beams = {"use_beam_search": True, "phases": (), "n": 1, "beam_width": n, "length_penalty": penalty}
    stopping = {"yes": True, "no": False}.get(early, "never")
    return params.replace(**plain, **beams, early_stopping=stopping)
