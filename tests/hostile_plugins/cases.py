"""One case: a scheduler with three sound requests and a plugin that misbehaves in one method."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.registry.loading import PluginError

from ..engines import EOS, TOKENIZER, VOCAB, ToyMatcher, outcome, repeated_once, rows_for
from ..stateful.checks import expect_sound
from . import catalogue

REFUSALS = (ParameterError, RequestError)
MARK = 38
"""A token that only the faulty request draws."""

SOUND = {
    "plain": SamplingParams(seed=1, max_tokens=7, logit_bias={EOS: -100.0, MARK: -100.0}),
    "text": SamplingParams(
        seed=2,
        max_tokens=7,
        stop=["zz", "<12><11>"],
        logit_bias={EOS: -100.0, MARK: -100.0},
        mirostat=2,
        repetition_penalty=1.2,
        logprobs=1,
    ),
    "grammar": SamplingParams(seed=3, max_tokens=7, logit_bias={EOS: -100.0, MARK: -100.0}, top_k=9),
}
"""The requests whose results must not depend on the faulty request."""


def loop() -> ToyMatcher:
    return ToyMatcher({"start": dict.fromkeys(range(30), "start")})


Behaviour = Callable[["Case", Callable[..., Any], tuple[Any, ...]], Any]
"""What a broken method does: it gets the case, the right method and its arguments."""


@dataclass
class Case:
    """One run: the method that `break_` breaks behaves as `behaviour` from its call number `after` on.

    add  adds the faulty request, whose id is "faulty".
    """

    add: Callable[[Scheduler, SamplingParams], Any]
    behaviour: Behaviour
    after: int
    backend: Any
    make: Callable[..., Scheduler] = Scheduler
    plugged: Callable[[], AbstractContextManager[None]] = nullcontext
    scheduler: Scheduler = field(init=False)
    calls: int = 0
    outcome: str = "nothing"

    def broken(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`method`, but from the call number `after` on it misbehaves."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls += 1
            if self.calls <= self.after:
                return method(*arguments, **keywords)
            return self.behaviour(self, functools.partial(method, **keywords), arguments)

        return call

    def run(self, expected: dict[str, Any], isolated: bool = True) -> None:
        """Everything that an engine may do with the faulty request; the others end as `expected`."""
        try:
            plugged = self.plugged()
            plugged.__enter__()
        except (PluginError, GeneratorExit):
            self.outcome = "refused"
            return
        with contextlib.ExitStack() as stack:
            stack.push(plugged)
            self.scheduler = self.make(VOCAB, TOKENIZER, backend=self.backend)
            for name, params in SOUND.items():
                grammar = loop() if name == "grammar" else None
                self.scheduler.add(params, [1, 2], request_id=name, grammar=grammar)
            self._try(
                lambda: self.add(self.scheduler, SamplingParams(seed=4, max_tokens=12, ignore_eos=True))
            )
            for _ in range(2):
                self._step()
            self._use()
            for _ in range(9):
                self._step()
            for request_id in self.scheduler.request_ids:
                if request_id not in SOUND:
                    self._try(lambda i=request_id: self.scheduler.remove(i))
            expect_sound(self.scheduler)
            self._note()
        found = {name: outcome(self.scheduler.record(name)) for name in SOUND}
        assert not isolated or found == expected, f"a neighbour has changed: {found} for {expected}"

    def _step(self) -> None:
        scheduler = self.scheduler
        live = scheduler.request_ids
        rows = rows_for(scheduler, live)
        for i, name in enumerate(live):
            if name not in SOUND:
                rows[i, MARK] = 30
        given = rows.copy()
        result = repeated_once(lambda: scheduler.step(rows, live))
        assert np.array_equal(rows, given, equal_nan=True), "the logits have changed"
        assert result.request_ids == live
        assert len(result.token_ids) == len(live)
        for i, name in enumerate(live):
            assert -1 <= result.token_ids[i] < VOCAB
            assert (result.errors[i] is None) == (result.finish_reasons[i] != "error")
            assert result.text[i] is None or type(result.text[i]) is str
            assert name in SOUND or result.token_ids[i] >= 0 or result.finish_reasons[i] is not None

    def _use(self) -> None:
        """Every other public call, for the faulty request."""
        scheduler, row = self.scheduler, np.zeros((1, VOCAB), np.float32)
        for call in (
            lambda: scheduler.draft(["faulty"], 4),
            lambda: scheduler.fork("faulty", new_request_id="twin"),
            lambda: scheduler.rollback("twin", 1),
            lambda: scheduler.draft(["twin"], 4),
            lambda: scheduler.forced_tokens("faulty"),
            lambda: scheduler.process(row, ["faulty"]),
            lambda: scheduler.prepare(["faulty"]),
            scheduler.explain,
            lambda: scheduler.accept("faulty", [3, 4]),
            lambda: scheduler.step(np.zeros((3, VOCAB), np.float32), ["faulty"], [[3, 4]]),
            lambda: scheduler.suspend("faulty"),
            lambda: scheduler.resume("faulty"),
            lambda: scheduler.record("faulty"),
        ):
            self._try(call)

    def _try(self, call: Callable[[], Any]) -> None:
        try:
            repeated_once(call)
        except REFUSALS:
            self.outcome = "refused"

    def _note(self) -> None:
        """What has become of the faulty request."""
        records = (self.scheduler.record(i) for i in self.scheduler._requests.known if i not in SOUND)
        if any(record.finish_reason == "error" for record in records):
            self.outcome = "ended"


# --- behaviours ----------------------------------------------------------------------------------


def behaviours() -> Iterator[tuple[str, Behaviour]]:
    for name, value in catalogue.values():
        yield f"returns {name}", lambda case, method, arguments, value=value: value  # type: ignore[misc]
    for i, make in enumerate(catalogue.EXCEPTIONS):
        yield f"raises {i}", functools.partial(_raise, make)
        yield f"raises {i} afterwards", functools.partial(_raise_afterwards, make)
    yield "spoils its arguments", _spoil
    yield "spoils its arguments afterwards", _spoil_afterwards
    yield "spoils what it returns", _spoil_result
    for name, call in REENTRIES.items():
        yield f"calls {name}", functools.partial(_reenter, call, False)
        yield f"calls {name} and fails", functools.partial(_reenter, call, True)


def _raise(make: Callable[[], BaseException], case: Case, method: Any, arguments: Any) -> Any:
    raise make()


def _raise_afterwards(make: Callable[[], BaseException], case: Case, method: Any, arguments: Any) -> Any:
    method(*arguments)
    raise make()


def _spoil(case: Case, method: Any, arguments: Any) -> Any:
    for argument in arguments:
        catalogue.spoil(argument)
    return method(*arguments)


def _spoil_afterwards(case: Case, method: Any, arguments: Any) -> Any:
    result = method(*arguments)
    for argument in arguments:
        catalogue.spoil(argument)
    return result


def _spoil_result(case: Case, method: Any, arguments: Any) -> Any:
    result = copy.copy(method(*arguments))
    catalogue.spoil(result)
    return result


def _reenter(call: Callable[[Scheduler], Any], strict: bool, case: Case, method: Any, arguments: Any) -> Any:
    try:
        call(case.scheduler)
    except (RuntimeError, ValueError):
        if strict:
            raise
    return method(*arguments)


def _add_many(scheduler: Scheduler) -> None:
    if len(scheduler.request_ids) < 10:
        for _ in range(70):
            scheduler.add(SamplingParams(seed=5, max_tokens=2))


REENTRIES: dict[str, Callable[[Scheduler], Any]] = {
    "step": lambda s: s.step(np.zeros((1, VOCAB), np.float32), ["plain"]),
    "step for all": lambda s: s.step(np.zeros((len(s.request_ids), VOCAB), np.float32)),
    "process": lambda s: s.process(np.zeros((1, VOCAB), np.float32), ["text"]),
    "fork": lambda s: s.fork("faulty"),
    "rollback": lambda s: s.rollback("faulty", 1),
    "prepare": lambda s: s.prepare(),
    "forced_tokens": lambda s: s.forced_tokens("faulty"),
    "explain": lambda s: s.explain(),
    "remove": lambda s: s.remove("faulty"),
    "accept": lambda s: s.accept("faulty", [3]) if len(s.record("faulty").token_ids) < 9 else None,
    "add": lambda s: s.add(SamplingParams(max_tokens=2)) if len(s.request_ids) < 10 else None,
    "add of 70": _add_many,
    "record": lambda s: s.record("plain"),
}
"""What a plugin may call on the scheduler that is calling it."""
