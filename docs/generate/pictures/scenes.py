"""What the pictures of samplers show: rows of twelve words, settings, and a history where it matters.

A sampler without an entry is shown with the parameters of its class's first example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.contract import Sampler, Selector

SHARES = {
    "peaked": (0.58, 0.17, 0.08, 0.05, 0.035, 0.025, 0.018, 0.014, 0.011, 0.008, 0.006, 0.003),
    "flat": (0.13, 0.12, 0.11, 0.105, 0.1, 0.09, 0.085, 0.08, 0.07, 0.05, 0.04, 0.02),
}
"""The probabilities of the twelve words, the likeliest first."""

LIFT = 4.0
"""Added to every logit: likely words have positive logits, as those of a model do."""

END = "end"
PLAIN = ("the", "a", "his", "her", "it", "one", "no", "cat", "sea", "sun", ".", END)


@dataclass(frozen=True)
class Scene:
    """What one picture shows: a line of two panels for each of `settings`.

    words    the vocabulary, in the order of the rows.
    history  the words so far, prompt and output.
    written  how many of them are output.
    spaced   whether words begin with a space, as in a text; otherwise they are pieces that join.
    """

    settings: tuple[Mapping[str, Any], ...]
    words: tuple[str, ...] = PLAIN
    history: tuple[str, ...] = ()
    spaced: bool = True
    written: int = 0

    @property
    def tokenizer(self) -> Tokenizer:
        """A token for each word; `END` ends the text."""
        space = " " if self.spaced else ""
        texts = [word if word in (END, ".") else space + word for word in self.words]
        ends = [self.words.index(END)] if END in self.words else []
        return Tokenizer([text.encode() for text in texts], ends)

    @property
    def history_ids(self) -> dict[str, list[int]]:
        """Prompt and output as token ids."""
        ids = [self.words.index(word) for word in self.history]
        begin = len(ids) - self.written
        return {"prompt_token_ids": ids[:begin], "output_token_ids": ids[begin:]}


def rows() -> dict[str, np.ndarray]:
    """The logits of both rows, float32 [12]."""
    return {name: (np.log(shares) + LIFT).astype(np.float32) for name, shares in SHARES.items()}


def scene_of(part: Sampler | Selector) -> Scene:
    """The scene of a sampler or selector."""
    return SCENES.get(part.name) or Scene((dict(part.examples[0].params),))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SCENES: Mapping[str, Scene] = {
    # masks and biases
    "allowed_token_ids": Scene(({"allowed_token_ids": [0, 3, 4, 8]},)),
    "bad_words": Scene(
        ({"bad_words": ["his", "on it"]},),
        _words("the it his her a one no cat sea on . end"),
        _words("cat on"),
    ),
    "ignore_eos": Scene(({"ignore_eos": True},), _words("the end a his her it one no cat sea sun .")),
    "min_tokens": Scene(({"min_tokens": 3},), _words("the end a his her it one no cat sea sun .")),
    "logit_bias": Scene(({"logit_bias": {0: -2.0, 3: 1.5, 5: float("-inf")}},)),
    "sequence_bias": Scene(
        ({"sequence_bias": [[[7, 4], 2.0], [[3], -1.5]]},),
        _words("the it his her on one no cat sea a . end"),
        _words("cat"),
    ),
    "suppress_tokens": Scene(({"suppress_tokens": [1, 4], "begin_suppress_tokens": [0]},)),
    "forced_tokens": Scene(({"forced_bos_token_id": 4},), history=("sun",)),
    "grammar_bias": Scene(
        ({"grammar_bias": 2.0, "choice": ["yes", "no"]},),
        _words("I y yes It ye no n The A One . end"),
        (),
        False,
    ),
    # penalties
    "penalties": Scene(
        ({"repetition_penalty": 1.5}, {"frequency_penalty": 0.8, "penalty_scope": "all"}),
        _words("the cat mat dog sat on and it a ran . end"),
        _words("the cat sat on the mat and the"),
    ),
    "no_repeat_ngram": Scene(
        ({"no_repeat_ngram_size": 2},),
        _words("cat mat dog sun sat on and it a the . end"),
        _words("the cat sat on the mat and the"),
    ),
    "dry": Scene(
        ({"dry_multiplier": 0.8, "dry_allowed_length": 1},),
        _words("on under by near in and it a the cat sat ran"),
        _words("the cat sat on a cat ran by the cat sat"),
    ),
    "no_repeat_ngram_window": Scene(
        ({"no_repeat_ngram_size": 2, "no_repeat_ngram_window": 6},),
        _words("cat mat dog sun sat on and it a the . end"),
        _words("the cat the sun sat on the mat and the"),
    ),
    "encoder_repetition_penalty": Scene(
        ({"encoder_repetition_penalty": 1.5},),
        _words("the cat mat dog sat on and it a ran . end"),
        _words("a dog ran on"),
    ),
    "normalize": Scene(
        ({"repetition_penalty_normalize": True, "repetition_penalty": 1.5},),
        history=_words("his cat"),
    ),
    "exponential_decay_length_penalty": Scene(
        ({"exponential_decay_length_penalty": [2, 1.6]},),
        _words("the a end her it one no cat sea sun . his"),
        _words("the cat sea sun her cat"),
        written=6,
    ),
    "lz_penalty": Scene(
        ({"lz_penalty": 0.5, "lz_penalty_ngram": 2},),
        _words("on under by near in and it a the cat sat ran"),
        _words("the cat sat on a cat ran by the cat sat"),
        written=11,
    ),
    "repetition_ngram": Scene(
        ({"repetition_ngram_size": 2, "repetition_ngram_threshold": 3},),
        _words("the a his her it one no end cat sea sun ."),
        _words("no cat no cat no cat"),
        written=6,
    ),
    # truncations
    "top_p_decay": Scene(
        ({"top_p": 0.9, "top_p_decay": 0.8, "top_p_reset_ids": [10]},),
        history=_words("the sun . a cat"),
        written=5,
    ),
    "xtc_protected": Scene(
        ({"xtc_probability": 1.0, "xtc_protected_ids": [0]},),
    ),
    "tfs": Scene(({"tfs": 0.9},)),
    "typical_p": Scene(({"typical_p": 0.5},)),
    "xtc": Scene(({"xtc_probability": 1.0, "xtc_threshold": 0.07},)),
    "infill": Scene(({"infill": True},), _words("in int i if for x y z ( ) . end"), (), False),
    # shape
    "temperature": Scene(({"temperature": 0.5}, {"temperature": 2.0}, {"dynatemp_range": 0.9})),
    "temperature_schedule": Scene(
        ({"temperature_schedule": [[0, 0.5], [4, 1.5]]},), history=_words("the sun her cat"), written=4
    ),
    "skew": Scene(({"skew": 0.7}, {"skew": -0.7})),
    # selectors
    "repetition_aware": Scene(({"ras_win_len": 6, "ras_win_max_num_repeat": 1, "top_k": 3},)),
    "mirostat": Scene(({"mirostat": 1, "mirostat_tau": 1.5},)),
    "mirostat_v2": Scene(({"mirostat": 2, "mirostat_tau": 1.5},)),
    "adaptive_p": Scene(({"adaptive_target": 0.1},)),
}
