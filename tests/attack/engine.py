"""A serving engine under attack: ordinary requests decode step by step while hostile clients join and leave.

Clients send from a thread of their own, as a server's do. The logits of a row are the same in every step, so
that a neighbour's tokens follow from its seed alone and can be compared with those of a quiet run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine_sampler import ParameterError, SamplingParams, Scheduler, StepResult
from engine_sampler.grammar import Grammar, GrammarCompiler, GrammarError
from engine_sampler.messages import MessageParser
from engine_sampler.scheduler import RequestError

from .clients import Body, Client
from .clock import Stopwatch
from .vocabulary import tokenizer

CLIENT_ROWS = 4
"""Rows for the clients' requests."""
LIFETIME = 40
"""Steps after which a client's request is removed."""
WARM_UP = 10
"""Steps before a client comes, in which a new scheduler gets its memory."""
SETTINGS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1}
REFUSALS = (ParameterError, GrammarError, RequestError)
"""What a server answers with an error of its own."""
QUIET: Client = lambda random, size: SETTINGS  # noqa: E731


class NeighbourHarmed(AssertionError):
    """A request of another client was changed by an attack, or the step raised."""


@dataclass
class Outcome:
    """What a run has shown: times in seconds; `tokens` are the neighbours', a list for each step.

    own  the steps' times without those in which other programs had the processor (see `clock`).
    """

    steps: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    joins: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)

    def extend(self, other: Outcome) -> None:
        """Add the times of another run."""
        self.steps += other.steps
        self.own += other.own
        self.joins += other.joins

    def milliseconds(self, share: float) -> float:
        """A quantile of the steps' own times."""
        return float(np.quantile(self.own, share)) * 1e3

    def whole(self, share: float) -> float:
        """A quantile of the steps' whole times, in milliseconds."""
        return float(np.quantile(self.steps, share)) * 1e3


class Engine:
    """A scheduler with `neighbours` ordinary requests, and room for a few of a client's, whose grammars are
    compiled by `compiler`, or in `add` without one."""

    def __init__(
        self, size: int, neighbours: int, seed: int, compiler: GrammarCompiler | None = None
    ) -> None:
        random = np.random.default_rng(seed)
        self.size, self.seed = size, seed
        self.logits = random.normal(0, 2.2, (neighbours + CLIENT_ROWS, size)).astype(np.float32)
        self.logits[:, random.choice(size, 40, replace=False)] += 9
        self.logits[:, -1] = -9  # EOS
        self.groups: dict[Any, list[Any]] = {}
        """The siblings of each of the client's requests that has some."""
        self.scheduler = Scheduler(size, tokenizer(size), grammar_compiler=compiler)
        self.neighbours = [
            self.scheduler.add(SamplingParams(seed=i, **SETTINGS), range(100), request_id=f"neighbour {i}")
            for i in range(neighbours)
        ]

    def run(self, client: Client, steps: int, requests: int) -> Outcome:
        """Decode for at least `steps` steps, and until a client has sent all its `requests` and they have
        started.

        Raises `NeighbourHarmed`.
        """
        outcome = Outcome()
        random = np.random.default_rng(self.seed)
        bodies = [client(random, self.size) for _ in range(requests)]
        ages: dict[Any, int] = {}
        for _ in range(WARM_UP):
            self._step(Outcome(), ages, outcome.tokens)
        done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        sender = threading.Thread(target=self._send, args=(bodies, outcome, done), daemon=True)
        sender.start()
        while len(outcome.steps) < steps or sender.is_alive() or self.scheduler.waiting_ids:
            self._step(outcome, ages, outcome.tokens)
        sender.join()
        if fault := done.get():
            raise NeighbourHarmed("a client's request raised what no server expects") from fault
        for request_id in [i for i in self.scheduler.request_ids if i not in self.neighbours]:
            self.scheduler.remove(request_id)
        return outcome

    def continue_quietly(self, outcome: Outcome, steps: int) -> None:
        """Go on with the neighbours alone until `outcome`, a quiet run's, has the tokens of `steps` steps."""
        while len(outcome.tokens) < steps:
            self._step(Outcome(), {}, outcome.tokens)

    def _send(self, bodies: Sequence[Body], outcome: Outcome, done: Any) -> None:
        fault = None
        try:
            for body in bodies:
                start = time.perf_counter()
                try:
                    asked = {key: value for key, value in body.items() if key != "captured"}
                    prompt = body.get("prompt", range(100))
                    self._add(SamplingParams.from_dict(asked), prompt, body.get("captured"))
                except REFUSALS as refusal:
                    outcome.refusals.append(str(refusal))
                outcome.joins.append(time.perf_counter() - start)
        except BaseException as error:
            fault = error
        done.put(fault)

    def _add(self, params: SamplingParams, prompt: Sequence[int], captured: str | None) -> None:
        parser = None
        if captured is not None:
            parser = MessageParser(tokenizer=tokenizer(self.size), grammar=Grammar.from_lark(captured))
        if params.use_beam_search or (params.best_of or params.n) > 1:
            group = self.scheduler.add_group(params, prompt, parser=parser)
            self.groups.update(dict.fromkeys(group, group))
        else:
            self.scheduler.add(params, prompt)

    def _step(self, outcome: Outcome, ages: dict[Any, int], tokens: list[list[int]]) -> None:
        for request_id in self._old(ages):
            outcome.ends.append(self.scheduler.remove(request_id).finish_reason or "")
        requests = self._client_requests()
        for request_id in requests:
            ages[request_id] = ages.get(request_id, 0) + 1
        logits, ids = self._logits_for(len(requests)), self.neighbours + requests
        stopwatch = Stopwatch()
        try:
            result = self.scheduler.step(logits, ids)
        except Exception as error:
            raise NeighbourHarmed("a step raised for all requests") from error
        whole, own = stopwatch.read()
        outcome.steps.append(whole)
        outcome.own.append(own)
        tokens.append(self._neighbours_tokens(result))
        outcome.ends += [str(e) for e in result.finish_reasons[len(self.neighbours) :] if e]

    def _old(self, ages: dict[Any, int]) -> Iterator[Any]:
        requests = self._client_requests()
        for request_id in [i for i in self.scheduler.request_ids if i not in self.neighbours]:
            if ages.get(request_id, 0) >= LIFETIME or request_id not in requests:
                ages.pop(request_id, None)
                self.groups.pop(request_id, None)
                yield request_id

    def _client_requests(self) -> list[Any]:
        """The requests of the client that have rows: the first ones, and those of their groups."""
        live = [i for i in self.scheduler.request_ids if i not in self.neighbours]
        first = {i for request_id in live[:CLIENT_ROWS] for i in self.groups.get(request_id, [request_id])}
        return [i for i in live if i in first]

    def _logits_for(self, client_rows: int) -> np.ndarray:
        """The neighbours' rows and this many others, some of which are equal if there are many."""
        if client_rows <= CLIENT_ROWS:
            return self.logits[: len(self.neighbours) + client_rows]
        others = len(self.neighbours) + np.arange(client_rows) % CLIENT_ROWS
        return self.logits[[*range(len(self.neighbours)), *others]]

    def _neighbours_tokens(self, result: StepResult) -> list[int]:
        for i, request_id in enumerate(self.neighbours):
            if result.finish_reasons[i]:
                raise NeighbourHarmed(f"{request_id} ended: {result.errors[i] or result.finish_reasons[i]}")
        return [int(token) for token in result.token_ids[: len(self.neighbours)]]


def expect_unharmed(quiet: Outcome, outcome: Outcome) -> None:
    """Raise `NeighbourHarmed` if a neighbour's tokens differ from those of the quiet run, which must be at
    least as long."""
    assert len(outcome.tokens) <= len(quiet.tokens), "there is no quiet run of this length to compare with"
    for step, (expected, found) in enumerate(zip(quiet.tokens, outcome.tokens, strict=False)):
        if expected != found:
            row = next(i for i, token in enumerate(expected) if token != found[i])
            raise NeighbourHarmed(f"step {step}: neighbour {row} drew {found[row]}, not {expected[row]}")
