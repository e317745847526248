"""Random chains of built-in and foreign samplers, with requests and rows, for testing backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..arithmetic import settle
from ..contract import (
    Chain,
    Param,
    ParameterError,
    Rows,
    Sampler,
    Selection,
    Selector,
    Truncation,
    Vocabulary,
)
from ..params import SamplingParams, build_chain
from ..params.orders import NAMED
from ..registry import Registry, default_registry
from ..requests.history import History
from ..requests.slots import Slots
from ..requests.state import RequestState
from ..tokenizer import Tokenizer
from .cases import Case, make_case

Random = np.random.Generator

FAULTY_KINDS = ("extreme",)
"""Kinds of rows that give no token."""

_SMALL = 4096
"""Up to so many tokens, a vocabulary, and chains with rows for it, are kept for others who ask for them."""


class ForeignShift(Sampler):
    """Add `foreign_shift`·(id mod 5), negated by a coin, and the number of output tokens to token 0: no
    backend knows it."""

    name = "foreign_shift"
    params = (Param("foreign_shift", float, 0.0), Param("foreign_fault", bool, False))

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> list[int]:
        return []

    def accept(self, state: list[int], token_ids: Sequence[int]) -> None:
        state.extend(token_ids)

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        if rows["foreign_fault"].any():
            raise ValueError("this row fails")
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        sign = np.where(rows.draw() & np.uint64(1), -1.0, 1.0)
        shift = ((rows["foreign_shift"] * sign)[:, None] * (ids % 5)).astype(np.float32)
        length = np.array([len(state) for state in rows.states], np.float32)
        alive = logits > -np.inf
        logits += shift + np.where(ids == 0, length[:, None], np.float32(0))
        settle(logits, alive)


class ForeignCut(Truncation):
    """Keep the best token and those whose id is a multiple of `foreign_cut`: no backend knows it."""

    name = "foreign_cut"
    params = (Param("foreign_cut", int, 1, low=1, high=1000),)

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        best = logits == logits.max(axis=1, keepdims=True)
        mask: np.ndarray = best | (ids % rows["foreign_cut"][:, None] == 0)
        return mask


class ForeignChoice(Selector):
    """Choose the second best token, with a note: no backend knows it."""

    name = "foreign_choice"
    params = (Param("foreign_choice", bool, False),)

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        order = np.argsort(-logits, axis=1, kind="stable")
        several = (logits > -np.inf).sum(axis=1) > 1
        columns = np.where(several, order[:, min(1, logits.shape[1] - 1)], order[:, 0])
        return Selection(columns, (rows.draw() >> np.uint64(11)).astype(np.float64))


SHIFT, CUT, CHOICE = ForeignShift(), ForeignCut(), ForeignChoice()
FOREIGN: tuple[Sampler | Selector, ...] = (SHIFT, CUT, CHOICE)


@dataclass(frozen=True)
class ChainTrial:
    """A chain, requests for it, and a row of each kind: float32 logits [n, vocab]."""

    chain: Chain
    slots: Slots
    rows: Rows
    case: Case

    @property
    def logits(self) -> np.ndarray:
        return self.case.logits

    def __str__(self) -> str:
        settings = {name: value for given in self.case.params for name, value in given.items()}
        return f"vocabulary {self.case.vocab_size}, chain {self.chain}, params {settings}"


def vocabulary_of(size: int) -> Vocabulary:
    """Tokens with common prefixes, a, b, aa, ab, …; token 0 is EOS, token 1 a newline. A small vocabulary is
    made once."""
    return _small_vocabulary(size) if size <= _SMALL else _vocabulary(size)


def _vocabulary(size: int) -> Vocabulary:
    letters = str.maketrans("01", "ab")
    spelled = [bin(number + 2)[3:].translate(letters).encode() for number in range(size)]
    return Vocabulary(size, (0,), Tokenizer([b"</s>", b"\n", *spelled][:size], eos_token_ids=[0]))


_small_vocabulary = lru_cache(maxsize=16)(_vocabulary)


def chain_trials(vocab_sizes: Sequence[int], count: int) -> Iterator[ChainTrial]:
    """`count` random chains for every size; those of one size share their slots."""
    for size in vocab_sizes:
        slots = Slots(vocabulary_of(size), known_params_of_chains(), capacity=4)
        for number in range(count):
            drawn = (_chain_again if size <= _SMALL else _chain)(default_registry(), size, number)
            case = replace(drawn.case, logits=drawn.case.logits.copy())
            try:
                index = [
                    open_request(slots, drawn.chain, drawn.values, drawn.given, case, i)
                    for i in range(len(case))
                ]
            except ParameterError:  # ids outside a small vocabulary
                continue
            yield ChainTrial(drawn.chain, slots, Rows(slots, np.array(index, np.int64)), case)


@dataclass(frozen=True)
class _DrawnChain:
    """A random chain, all its parameters by name, those that are not neutral, and rows for it."""

    chain: Chain
    values: Mapping[str, Any]
    given: Mapping[str, Any]
    case: Case


def _chain(registry: Registry, size: int, number: int) -> _DrawnChain:
    """The chain of a number, from the parts in `registry`, which is that of the process."""
    random = np.random.default_rng([size, number])
    settings = random_settings(random)
    params = SamplingParams(**settings)
    chain, own = with_foreign(build_chain(params), number, random)
    values = values_of_chain(params, own)
    case = make_case([{**settings, **own}], size, random)
    case = case.take([i for i, kind in enumerate(case.kinds) if kind not in FAULTY_KINDS])
    return _DrawnChain(chain, values, not_neutral(values, known_params_of_chains()), case)


_chain_again = lru_cache(maxsize=128)(_chain)
"""Every law of every kit asks for the same chains. Nothing of them may be changed."""


def known_params_of_chains() -> dict[str, Param]:
    """Every registered parameter, and those of the foreign parts, by name."""
    return {**default_registry().catalogue.params, **{p.name: p for part in FOREIGN for p in part.params}}


def values_of_chain(params: SamplingParams, own: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter by name: those of the built-in parts, and `own` of the foreign ones."""
    return {**dict(params), **{p.name: p.neutral for part in FOREIGN for p in part.params}, **own}


def not_neutral(values: Mapping[str, Any], known: Mapping[str, Param]) -> dict[str, Any]:
    """The parameters of `values` that are not neutral."""
    return {name: value for name, value in values.items() if value != known[name].neutral}


def open_request(
    slots: Slots, chain: Chain, values: Mapping[str, Any], non_neutral: Mapping[str, Any], case: Case, i: int
) -> int:
    """The slot of a new request for row `i` of `case`, with a token that it drew itself; `values` are all
    parameters, `non_neutral` those that are not neutral."""
    state = RequestState(chain, History(case.prompts[i], case.outputs[i]))
    state.open(values, slots.vocabulary)
    number = slots.put(state, non_neutral, case.seeds[i])
    slots.accept(number, [0], [2.5])
    return number


def random_settings(random: Random) -> dict[str, Any]:
    """Settings from the examples of up to six built-in samplers and of one selector, in a named order."""
    registry = default_registry()
    catalogue = registry.catalogue
    examples = [
        dict(e.params) for s in catalogue.samplers.values() if registry.is_built_in(s) for e in s.examples
    ]
    selectors = [s for s in catalogue.selectors.values() if registry.is_built_in(s)]
    while True:
        settings: dict[str, Any] = {"order": str(random.choice(list(NAMED)))}
        for i in random.permutation(len(examples))[: random.integers(0, 7)]:
            settings |= examples[i]
        selector = selectors[int(random.integers(len(selectors)))]
        settings |= dict(selector.examples[0].params)
        try:
            SamplingParams(**settings)
        except ParameterError:  # two selectors, say
            continue
        return settings


def with_foreign(chain: Chain, number: int, random: Random) -> tuple[Chain, dict[str, Any]]:
    """The chain, for most of a row of numbers with a foreign part, and the parameters of that."""
    samplers: list[Sampler] = list(chain.samplers)
    selector: Selector = chain.selector
    parameters: dict[str, Any] = {}
    place = int(random.integers(len(samplers) + 1))
    if number % 4 == 0:
        samplers.insert(place, SHIFT)
        parameters["foreign_shift"] = float(random.uniform(0.1, 2))
    elif number % 4 == 1:
        samplers.insert(place, CUT)
        parameters["foreign_cut"] = int(random.integers(2, 5))
    elif number % 8 == 2:
        selector = CHOICE
        parameters["foreign_choice"] = True
    return Chain(tuple(samplers), selector), parameters
