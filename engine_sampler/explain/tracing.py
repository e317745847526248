"""The effect of each step of a chain on one row of logits, as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import RowFault, checked_row, log_sum_exp, top_columns
from ..backends.choose import best_backend, named_backend, runner_of
from ..base.errors import INTERRUPTIONS, failure
from ..contract import (
    Backend,
    BackendError,
    Chain,
    ParameterError,
    Rows,
    Sampler,
    Selector,
    Vocabulary,
    bitmask_words,
    unpack_bitmask,
)
from ..grammar.plugin.constraints import constraint_of, matcher_of
from ..params import SamplingParams, build_chain, takes_grammar
from ..registry import default_registry, structured_in
from ..requests.history import History, Notes, TokenIds
from ..requests.slots import Slots
from ..requests.state import RequestState
from ..tokenizer import Tokenizer
from .labels import token_text


class TopToken(NamedTuple):
    """One of the likeliest tokens after a step."""

    token_id: int
    text: str
    probability: float


@dataclass(frozen=True)
class TraceStep:
    """The row after one step of the chain.

    name           the sampler or selector; "logits" for the row as given, "mirostat cut" for what a selector
                   leaves to choose from, with the figures that decide it as settings.
    role           "logits", "edit", "penalty", "warp" or "selector".
    backend        the backend that ran it, or "Python" or "C row function" for a plugin's sampler within a
                   compiled backend; "" for the row as given.
    settings       the step's own parameters that are not neutral.
    candidates     tokens left; `removed` is how many this step removed.
    kept_mass      the probability of the survivors before this step.
    entropy_bits   the entropy of the distribution that is left.
    top            the likeliest tokens, best first.
    token_id       the selector's choice, else None.
    probabilities  float64 [vocab], the whole distribution; all on one token after the selector.
    """

    name: str
    role: str
    backend: str
    settings: dict[str, Any]
    candidates: int
    removed: int
    kept_mass: float
    entropy_bits: float
    top: list[TopToken]
    token_id: int | None = None
    probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


def trace(
    logits_row: Any,
    params: SamplingParams,
    *,
    prompt_token_ids: TokenIds = (),
    output_token_ids: TokenIds = (),
    output_notes: Notes | None = None,
    tokenizer: Tokenizer | None = None,
    eos_token_ids: Iterable[int] = (),
    top: int = 10,
    backend: str | Backend = "auto",
) -> list[TraceStep]:
    """Run the chain of `params` on one row [vocab], step by step on the whole row.

    The first step is the row as given, the last the selector's choice. Without a seed in `params`
    the seed is 0. `output_notes` are the "notes" of `Scheduler.export`, one for each token of the output:
    mirostat and adaptive_target need them. `top` is how many of the likeliest tokens each step lists; the
    EOS ids are the tokenizer's unless given. The row is only read.

    Raises `ParameterError` for ids outside the vocabulary, ValueError for a row that gives no
    token, with the reason, and for arguments that are not allowed.
    """
    if top < 1:
        raise ValueError(f"top={top} is not allowed: at least 1")
    row = np.asarray(logits_row, np.float32)
    if row.ndim != 1 or not len(row):
        raise ValueError(f"logits have shape {row.shape}; allowed is one row, [vocab]")
    eos = tuple(eos_token_ids) or (tokenizer.eos_token_ids if tokenizer else ())
    notes = None if output_notes is None else np.array(output_notes, np.float64)
    if notes is not None and notes.shape != (len(output_token_ids),):
        raise ValueError(f"output_notes have shape {notes.shape}: one for each of output_token_ids is needed")
    slot = RequestState(build_chain(params), History(prompt_token_ids, output_token_ids, notes))
    rows = _one_row(slot, params, Vocabulary(len(row), eos, tokenizer))
    try:
        tracing = _Trace(checked_row(row).copy(), params, rows, top)
        return tracing.run(slot.chain, _chosen(backend), _mask(params, rows, output_token_ids))
    except RowFault as fault:
        raise ValueError(str(fault)) from None


def probabilities(row: np.ndarray) -> np.ndarray:
    """The softmax of one row of logits [m], float64."""
    return np.exp(row.astype(np.float64) - log_sum_exp(row))


def notable_tokens(steps: Sequence[TraceStep], n: int) -> list[int]:
    """At most `n` token ids to follow through all steps, the likeliest in the given row first.

    They are those with the greatest probability at any step, and the chosen token.
    """
    start, chosen = steps[0].probabilities, steps[-1].token_id
    best = {token.token_id: 0.0 for step in steps for token in step.top}
    for token_id in best:
        best[token_id] = max(float(step.probabilities[token_id]) for step in steps)
    ids = sorted(best, key=lambda t: (t != chosen, -best[t], t))[:n]
    return sorted(ids, key=lambda t: (-start[t], t))


def _drawn(runner: Backend, plan: Any, row: np.ndarray, rows: Rows) -> int:
    """The token that the selector of `plan` draws. Raises `BackendError` if it is none of those left."""
    try:
        token_id = int(runner.select(plan, row[None].copy(), rows).columns[0])
        is_left = 0 <= token_id < len(row) and row[token_id] > -np.inf
    except (RowFault, BackendError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise BackendError(failure(f"backend {runner.name}", error)) from error
    if not is_left:
        raise BackendError(f"backend {runner.name} failed: it drew token {token_id}, which is not left")
    return token_id


class _Trace:
    """A row in progress, and the steps recorded so far."""

    def __init__(self, row: np.ndarray, params: SamplingParams, rows: Rows, top: int) -> None:
        self.row = row
        self.params = params
        self.rows = rows
        self.top = top
        self.steps: list[TraceStep] = []

    def run(self, chain: Chain, backend: Backend, bitmask: np.ndarray | None) -> list[TraceStep]:
        self.record("logits", "logits")
        if bitmask is not None:
            self.row[~unpack_bitmask(bitmask[0], len(self.row))] = -np.inf
            self.rows = self.rows.under(bitmask)
            if self.row.max() == -np.inf:
                raise RowFault("the grammar leaves no token")
            names = structured_in(self.params)
            self.record("grammar", "edit", settings={name: self.params[name] for name in names})
        for sampler in chain.samplers:
            runner = runner_of(backend, sampler, chain)
            runner.apply(runner.compile(Chain((sampler,), chain.selector)), self.row[None], self.rows)
            if self.row.max() == -np.inf:
                raise RowFault(f"{sampler.name} leaves no token")
            self.record(sampler.name, sampler.role, runner.runs_as(sampler), self.settings(sampler))
        self.select(chain.selector, runner_of(backend, chain.selector, chain))
        return self.steps

    def select(self, selector: Selector, runner: Backend) -> None:
        self.cut(selector, runner)
        plan = runner.compile(Chain((), selector))
        token_id = _drawn(runner, plan, self.row, self.rows)
        others = np.arange(len(self.row)) != token_id
        self.row[others] = -np.inf
        self.record(selector.name, "selector", runner.runs_as(selector), self.settings(selector), token_id)

    def cut(self, selector: Selector, runner: Backend) -> None:
        """Record what the selector may choose, if it leaves out tokens by a rule of its own. The row keeps
        them, since the selector cuts it again."""
        limited = selector.candidates(self.row[None], self.rows.bind(selector))
        if limited is None:
            return
        kept, figures = limited
        whole, self.row = self.row, np.where(kept[0], self.row, np.float32(-np.inf))
        settings = {name: float(values[0]) for name, values in figures.items()}
        self.record(f"{selector.name} cut", "warp", runner.runs_as(selector), settings)
        self.row = whole

    def settings(self, part: Sampler | Selector) -> dict[str, Any]:
        return {p.name: self.params[p.name] for p in part.params if p.name in self.params.given}

    def record(
        self,
        name: str,
        role: str,
        backend: str = "",
        settings: dict[str, Any] | None = None,
        token_id: int | None = None,
    ) -> None:
        p = probabilities(self.row)
        alive = self.row > -np.inf
        candidates = int(alive.sum())
        last = self.steps[-1] if self.steps else None
        removed = last.candidates - candidates if last else 0
        tokenizer = self.rows.vocabulary.tokenizer
        best = top_columns(self.row, min(self.top, candidates)).tolist()
        self.steps.append(
            TraceStep(
                name=name,
                role=role,
                backend=backend,
                settings=settings or {},
                candidates=candidates,
                removed=removed,
                kept_mass=float(last.probabilities[alive].sum()) if last and removed else 1.0,
                entropy_bits=_entropy_bits(p),
                top=[TopToken(t, token_text(tokenizer, t), float(p[t])) for t in best],
                token_id=token_id,
                probabilities=p,
            )
        )


def _mask(params: SamplingParams, rows: Rows, output_token_ids: TokenIds) -> np.ndarray | None:
    """The tokens that the grammar of `params` allows after the output, int32 [1, words]; None if no grammar
    masks."""
    vocabulary = rows.vocabulary
    if takes_grammar(params) or (constraint := constraint_of(params, vocabulary)) is None:
        return None
    matcher = matcher_of(constraint, vocabulary)
    for token_id in output_token_ids:
        if not matcher.accept(int(token_id)):
            raise ParameterError(f"output_token_ids: the grammar refuses token {token_id}")
    bitmask = np.zeros((1, bitmask_words(vocabulary.size)), np.int32)
    matcher.fill_bitmask(bitmask, 0)
    return bitmask


def _entropy_bits(p: np.ndarray) -> float:
    positive = p[p > 0]
    return abs(float((positive * np.log2(positive)).sum()))


def _one_row(slot: RequestState, params: SamplingParams, vocabulary: Vocabulary) -> Rows:
    """`slot` as the only row of a step."""
    slot.open(params, vocabulary)
    slots = Slots(vocabulary, default_registry().catalogue.params, capacity=1)
    number = slots.put(slot, params.given, params.seed or 0)
    return Rows(slots, np.array([number], np.int64))


def _chosen(backend: str | Backend) -> Backend:
    return named_backend(backend) or best_backend("cpu")
