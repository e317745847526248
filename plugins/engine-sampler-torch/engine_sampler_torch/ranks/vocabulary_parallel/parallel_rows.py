"""`ParallelRows`: what vocabulary-parallel sampling needs to know of the requests of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Chain, ParameterError, SamplingParams, Vocabulary
from engine_sampler.arithmetic import GREEDY_BELOW, LN_2, draw64, log2_64
from engine_sampler.for_backends import build_chain, sibling_count, structured_in

from ..exchange import digest
from .edits import SparseEdits, bias_edits, penalty_edits, penalty_windows

MOST_CANDIDATES = 128
"""The greatest top_k, and how many candidates a rank offers."""

_EDITS = ("logit_bias", "penalties")
_CUTS = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True, eq=False)
class Stage:
    """Samplers that run together, at most one of each row; None for one that no row has there.

    scale   float32 [n, 1], the factor of temperature; 1 for rows without it.
    depth   float64 [n, 1], ln(min_p); −inf for rows without it.
    top_k   (rows, k), int64 [m] both.
    top_p   (rows int64 [m], `ShareCut` for them).
    """

    scale: np.ndarray | None
    depth: np.ndarray | None
    top_k: tuple[np.ndarray, np.ndarray] | None
    top_p: tuple[np.ndarray, ShareCut] | None


@dataclass(frozen=True, eq=False)
class ShareCut:
    """top_p and its rule: p float64 [m]; reach and crossing bool [m], as in `samplers.top_p`."""

    p: Any
    reach: Any
    crossing: Any

    def on(self, device: torch.device) -> ShareCut:
        """As tensors."""
        return ShareCut(*(torch.from_numpy(a).to(device) for a in (self.p, self.reach, self.crossing)))

    def take(self, which: Tensor) -> ShareCut:
        """Some of the rows of tensors."""
        return ShareCut(*(a.index_select(0, which) for a in (self.p, self.reach, self.crossing)))


class ParallelRows:
    """The requests of a batch, row by row; made by `VocabularyParallelSampler.rows`.

    count      how many there are.
    seeds      uint64 [count].
    positions  int64 [count], the index of the token being drawn.
    greedy     bool [count], rows that take the best token.
    stages     the samplers, in an order that all chains have in common.
    bias, penalties  edits of this rank's tokens.
    bitmask    int32 [count, ceil(vocab / 32)], which tokens are allowed, or None. It may be replaced before
               every step.
    """

    def __init__(
        self,
        params: Sequence[SamplingParams],
        vocabulary: Vocabulary,
        columns: range,
        seeds: np.ndarray,
        prompts: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        positions: np.ndarray,
    ) -> None:
        self.count = len(params)
        self.seeds, self.positions = seeds, positions
        self.bitmask: Any = None
        self._columns, self._params, self._vocabulary = columns, params, vocabulary
        chains = [checked_chain(p) for p in params]
        self.greedy = np.array([chain.selector.name == "greedy" for chain in chains], bool)
        self.stages = _stages(chains, params)
        self.bias = bias_edits(params, vocabulary, columns)
        self._windows = penalty_windows(params, vocabulary, prompts, outputs)
        self.penalties: tuple[SparseEdits, SparseEdits] = penalty_edits(self._windows, columns)

    def accept(self, token_ids: Sequence[int] | np.ndarray | Tensor) -> None:
        """Add one token to each row, as `sample` gave them; −1 adds none."""
        tokens = np.asarray(token_ids.cpu() if isinstance(token_ids, Tensor) else token_ids, np.int64)
        if tokens.shape != (self.count,):
            raise ValueError(f"token_ids have shape {tokens.shape}; allowed is [{self.count}], one per row")
        given = tokens >= 0
        self._vocabulary.check_ids("token_ids", tokens[given].tolist())
        self.positions = self.positions + given
        if self._windows:
            for row, penalized in self._windows.items():
                if given[row]:
                    penalized.extend(int(tokens[row]))
            self.penalties = penalty_edits(self._windows, self._columns)

    def draws(self) -> np.ndarray:
        """64 random bits for each row, as int64 [count]."""
        return draw64(self.seeds, self.positions, 0).view(np.int64)

    def digest(self) -> int:
        """A number that stands for all that decides the tokens, except the values of the bitmask."""
        arrays = [self.seeds, self.positions, self.greedy]
        for stage in self.stages:
            arrays += [a for a in (stage.scale, stage.depth) if a is not None]
            arrays += stage.top_k or ()
            if stage.top_p is not None:
                rows, cut = stage.top_p
                arrays += [rows, cut.p, cut.reach, cut.crossing]
        for penalized in self._windows.values():
            arrays += penalized.counted()
        return digest(repr(self.bitmask is None), *(a.tobytes() for a in arrays))


def checked_chain(params: SamplingParams) -> Chain:
    """The chain that decides a token of `params`; raises `ParameterError` for what needs whole rows."""
    if sibling_count(params) > 1 or params["use_beam_search"]:
        raise _refused("several siblings, or a beam search,")
    names = structured_in(params.given)
    if names:
        raise _refused(f"{names[0]}={params[names[0]]!r:.40}", "give its masks as `bitmask`, or")
    for name in ("thinking", "phases"):
        if params[name]:
            raise _refused(f"{name}={params[name]!r:.40}")
    if params["logprobs"] is not None:
        raise _refused(f"logprobs={params['logprobs']}")
    chain: Chain = build_chain(params).for_choice()
    for i, sampler in enumerate(chain.samplers):
        if sampler.name not in (*_EDITS, *_CUTS):
            raise _refused(f"the sampler {sampler.name}")
        if sampler.name in _EDITS and any(s.name in _CUTS for s in chain.samplers[:i]):
            raise _refused(f"the order {params['order']!r}, with {sampler.name} after a truncation,")
    if chain.selector.name not in ("greedy", "dist"):
        raise _refused(f"the selector {chain.selector.name}")
    active = {sampler.name for sampler in chain.samplers}
    if "top_k" in active and params["top_k"] > MOST_CANDIDATES:
        raise _refused(f"top_k={params['top_k']}", f"at most {MOST_CANDIDATES}, or")
    if "temperature" in active and params["dynatemp_range"] > 0:
        raise _refused(f"dynatemp_range={params['dynatemp_range']}")
    if active & {"top_p", "min_p"} and params["min_keep"] > 1:
        raise _refused(f"min_keep={params['min_keep']}")
    if "penalties" in active and params["repetition_penalty_slope"]:
        raise _refused(f"repetition_penalty_slope={params['repetition_penalty_slope']}")
    return chain


def _refused(what: str, instead: str = "") -> ParameterError:
    hint = f"{instead} use" if instead else "use"
    return ParameterError(
        f"{what} is not allowed in vocabulary-parallel sampling: {hint} BatchShardedScheduler"
    )


def _stages(chains: Sequence[Chain], params: Sequence[SamplingParams]) -> list[Stage]:
    """The truncations and temperatures of the chains, each in its order. A greedy row needs none."""
    cuts = [
        [] if chain.selector.name == "greedy" else [s.name for s in chain.samplers if s.name in _CUTS]
        for chain in chains
    ]
    return [_stage(names, params) for names in aligned(cuts)]


def aligned(cuts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Stages in which every row has at most one of its samplers, in its own order, and "" where it waits.

    Rows wait for each other before what needs messages, so that all of them share these: a top_p of whole
    rows first, and then the top_k, after which a row is short and needs none.
    """
    left = [list(names) for names in cuts]
    short = [False] * len(left)
    stages = []
    while any(left):
        kind = min(_turn(names, short[i]) for i, names in enumerate(left) if names)
        which = [bool(names) and _turn(names, short[i]) == kind for i, names in enumerate(left)]
        stages.append([left[i].pop(0) if goes else "" for i, goes in enumerate(which)])
        short = [was or name == "top_k" for was, name in zip(short, stages[-1], strict=True)]
    return stages


def _turn(names: Sequence[str], short: bool) -> int:
    """When a row's next sampler runs, among those of other rows: first what needs no messages."""
    if short or names[0] not in ("top_p", "top_k"):
        return 0
    return 1 if names[0] == "top_p" else 2


def _stage(names: Sequence[str], params: Sequence[SamplingParams]) -> Stage:
    """One stage, in which row i has the sampler `names`[i], "" for none."""
    which = {name: [i for i, own in enumerate(names) if own == name] for name in _CUTS}

    def given(name: str, param: str, dtype: type) -> np.ndarray:
        return np.array([params[i][param] for i in which[name]], dtype)

    def column(name: str, own: np.ndarray, neutral: float, dtype: type) -> np.ndarray | None:
        if not which[name]:
            return None
        values: np.ndarray = np.full((len(names), 1), neutral, dtype)
        values[which[name], 0] = own
        return values

    temperature = np.maximum(given("temperature", "temperature", np.float64), GREEDY_BELOW)
    scale = column("temperature", (1.0 / temperature).astype(np.float32), 1.0, np.float32)
    depth = column("min_p", log2_64(given("min_p", "min_p", np.float64)) * LN_2, -np.inf, np.float64)
    rules = [params[i]["top_p_cut"] for i in which["top_p"]]
    share = ShareCut(
        given("top_p", "top_p", np.float64),
        np.array([rule == "reach" for rule in rules], bool),
        np.array([rule != "below" for rule in rules], bool),
    )
    top_k = np.array(which["top_k"], np.int64), given("top_k", "top_k", np.int64)
    top_p = np.array(which["top_p"], np.int64), share
    return Stage(scale, depth, top_k if len(top_k[0]) else None, top_p if len(top_p[0]) else None)
