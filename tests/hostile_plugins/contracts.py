"""The contracts, each with a sound plugin of which one method is broken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import Scheduler, Tokenizer
from engine_sampler.backends.library.header import contract as c_contract
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import (
    Backend,
    Drafter,
    Param,
    Sampler,
    Selection,
    Selector,
    StoppingCriteria,
    TextCriteria,
    TextMatcher,
    Truncation,
    hookimpl,
)

from ..engines import TOKENIZER, VOCAB, ToyMatcher, registered, registered_plugin
from .cases import MARK, Case, loop

SWITCH = (Param("hostile", bool, False),)


class Plain:
    """The methods that samplers, selectors and criteria share."""

    def new_state(self, *arguments: Any) -> list[int]:
        return []

    def accept(self, state: list[int], token_ids: Any, *more: Any) -> None:
        state += token_ids

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]

    def fork(self, state: list[int]) -> list[int]:
        return state.copy()


class PlainSampler(Plain, Sampler):
    name = "hostile_sampler"
    after = "min_p"
    params = SWITCH

    def check(self, params: Any) -> None:
        pass

    def resolve(self, params: Any, vocabulary: Any) -> Any:
        return 1

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        logits += 0.5


class LazySampler(PlainSampler):
    lazy = True

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        assert all(isinstance(state, list) for state in rows.states)


class PreparingSampler(PlainSampler):
    def prepare(self, rows: Any, work: Any) -> None:
        assert len(rows.states) == 1


@c_contract().callback("es_row_function")
def _nothing(row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
    return 0


class SamplerInC(PlainSampler):
    row_function = int(c_contract().cast("uintptr_t", _nothing))

    def row_state(self, state: Any) -> int:
        return 0

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        pass


class PlainTruncation(Plain, Truncation):
    name = "hostile_truncation"
    after = "min_p"
    params = SWITCH

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return logits > -30

    def keep_columns(self, row: np.ndarray, rows: Any) -> Any:
        return None


class PlainSelector(Plain, Selector):
    name = "hostile_selector"
    params = SWITCH

    def check(self, params: Any) -> None:
        pass

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        return Selection(logits.argmax(axis=1), np.zeros(len(logits)))


class PlainCriterion(Plain, StoppingCriteria):
    name = "hostile_criterion"

    def watch(self, *arguments: Any) -> Any:
        return None

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        state += token_ids
        return None


class CalledCriterion:
    def ends(self, input_ids: Any, scores: Any) -> Any:
        return [False]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return self.ends(input_ids, scores)


class PlainMatcher(TextMatcher):
    start = 0

    def advance(self, state: Any, data: bytes) -> tuple[Hashable, Any]:
        return state + len(data), None

    def held(self, state: Any) -> int:
        return 0


class PlainTextCriterion(TextCriteria):
    name = "hostile_text"

    def __init__(self) -> None:
        self.made = PlainMatcher()

    def matcher(self, params: Any, vocabulary: Any) -> Any:
        return self.made


class PlainGrammar:
    """A matcher of a grammar, around one that is sound."""

    def __init__(self, case: Case, method: str) -> None:
        self.case, self.method, self.inner = case, method, loop()
        self.inner.table = {"start": dict.fromkeys(range(40), "start")}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("case", "method", "inner"):
            raise AttributeError(name)
        found = getattr(self, f"_{name}") if name in ("fork", "forced_tokens") else getattr(self.inner, name)
        return self.case.broken(found) if name == self.method else found

    def _fork(self) -> PlainGrammar:
        child = PlainGrammar(self.case, self.method)
        child.inner = self.inner.fork()
        return child

    def _forced_tokens(self, work: Any = None) -> list[int]:
        return []


class BoundedGrammar(PlainGrammar):
    """The same as a bounded matcher."""

    def __init__(self, case: Case, method: str) -> None:
        super().__init__(case, method)
        self.inner = BoundedLoop(self.inner.table)


class BoundedLoop(ToyMatcher):
    bounded = True

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Any = None) -> None:
        super().fill_bitmask(bitmask, row)

    def accept(self, token_id: int, work: Any = None) -> bool:
        return super().accept(token_id)


class EndlessVocabulary(Tokenizer):
    """A tokenizer without EOS: whether a text is over is then asked of its grammar."""

    def __init__(self) -> None:
        super().__init__([TOKENIZER.text_bytes(t) for t in range(VOCAB)])


class PlainBackend(Backend):
    """The NumPy backend behind the contract."""

    name = "hostile_backend"

    def __init__(self) -> None:
        self.host = NumpyBackend()

    def compile(self, chain: Any) -> Any:
        return self.host.compile(chain)

    def run(self, batch: Any) -> None:
        self.host.run(batch)

    def apply(self, plan: Any, logits: np.ndarray, rows: Any) -> None:
        self.host.apply(plan, logits, rows)

    def select(self, plan: Any, logits: np.ndarray, rows: Any) -> Selection:
        return self.host.select(plan, logits, rows)

    def logprobs(self, logits: Any, token_ids: np.ndarray, top_n: int) -> Any:
        return self.host.logprobs(logits, token_ids, top_n)


class PlainObserver:
    name = "hostile_observer"

    def request_added(self, request_id: Any, params: Any) -> None:
        pass

    def step_finished(self, result: Any) -> None:
        pass

    def request_finished(self, record: Any) -> None:
        pass


class MarkedTokenizer(Tokenizer):
    """A tokenizer of which only the bytes of one token are broken."""

    broken: Callable[..., Any]

    def text_bytes(self, token_id: int, *more: Any) -> bytes:
        if token_id == MARK:
            found: bytes = self.broken(token_id, *more)
            return found
        return super().text_bytes(token_id, *more)


# --- every method of every contract ----------------------------------------------------------------------


@dataclass
class FaultyMethod:
    """A contract and one of its methods.

    prepare   sets the case up.
    isolated  whether the other requests do not use the plugin.
    outside   whether it is called outside of all schedulers, where it may use any of them.
    """

    contract: str
    method: str
    prepare: Callable[[Case, str], None]
    isolated: bool = True
    outside: bool = False

    def __str__(self) -> str:
        return f"{self.contract}.{self.method}"


def _breaks(part: Any, case: Case, method: str) -> Any:
    """`part` with a broken method, which its own class has, so that it counts as overridden."""
    own = type(type(part).__name__, (type(part),), {})
    broken = case.broken(getattr(part, method))
    setattr(own, method, lambda self, *arguments, **keywords: broken(*arguments, **keywords))
    part.__class__ = own
    return part


def _registered(kind: type[Any]) -> Callable[[Case, str], None]:
    def prepare(case: Case, method: str) -> None:
        part = _breaks(kind(), case, method)
        case.plugged = lambda: registered(part)
        case.add = lambda scheduler, params: scheduler.add(
            params.replace(hostile=True), [1], request_id="faulty", output_token_ids=[5]
        )

    return prepare


def _passed(make: Callable[[Case, str], Mapping[str, Any]]) -> Callable[[Case, str], None]:
    def prepare(case: Case, method: str) -> None:
        case.add = lambda scheduler, params: scheduler.add(
            params, [1], request_id="faulty", output_token_ids=[5], **make(case, method)
        )

    return prepare


def _text(case: Case, method: str) -> Mapping[str, Any]:
    criterion = PlainTextCriterion()
    if method == "matcher":
        _breaks(criterion, case, method)
    elif method == "start":
        broken = case.broken(lambda: 0)
        criterion.made.__class__ = type("Unstarted", (PlainMatcher,), {"start": property(lambda _: broken())})
    else:
        _breaks(criterion.made, case, method)
    return {"stopping_criteria": [criterion]}


def _backend(case: Case, method: str) -> None:
    case.backend = _breaks(PlainBackend(), case, method)
    case.add = lambda scheduler, params: scheduler.add(params, [1], request_id="faulty")


def _observer(case: Case, method: str) -> None:
    observer = _breaks(PlainObserver(), case, method)

    class Plugin:
        @hookimpl
        def register_observers(self, register: Any) -> None:
            register(observer)

    case.plugged = lambda: registered_plugin(Plugin())
    case.add = lambda scheduler, params: scheduler.add(params, [1], request_id="faulty")


class PlainDrafter(Plain, Drafter):
    name = "hostile_drafter"

    def draft(self, state: list[int], text: Any, count: int) -> list[int]:
        return state[-1:] * count


def _drafter(case: Case, method: str) -> None:
    drafter = _breaks(PlainDrafter(), case, method)

    class Plugin:
        @hookimpl
        def register_drafters(self, register: Any) -> None:
            register(drafter)

    case.plugged = lambda: registered_plugin(Plugin())
    case.add = lambda scheduler, params: scheduler.add(
        params.replace(drafter="hostile_drafter"), [1], request_id="faulty", output_token_ids=[5]
    )


def _grammar_without_eos(case: Case, method: str) -> None:
    tokenizer = EndlessVocabulary()
    case.make = lambda size, _, **keywords: Scheduler(size, tokenizer, **keywords)
    _GRAMMAR(case, method)


def _tokenizer(case: Case, method: str) -> None:
    tokenizer = MarkedTokenizer([TOKENIZER.text_bytes(t) for t in range(40)], [39])
    tokenizer.broken = case.broken(lambda token_id, *more: b"?")
    case.make = lambda size, _, **keywords: Scheduler(size, tokenizer, **keywords)
    case.add = lambda scheduler, params: scheduler.add(params, [1], request_id="faulty")


def _in_c(case: Case, method: str) -> None:
    _registered(SamplerInC)(case, method)
    inner = case.plugged

    @contextlib.contextmanager
    def plugged() -> Iterator[None]:
        with inner():
            yield

    case.plugged = plugged


STATEFUL = ("new_state", "accept", "rollback", "fork")
_CRITERION = _passed(lambda case, method: {"stopping_criteria": [_breaks(PlainCriterion(), case, method)]})
_CALLED = _passed(lambda case, method: {"stopping_criteria": [_breaks(CalledCriterion(), case, method)]})
_GRAMMAR = _passed(lambda case, method: {"grammar": PlainGrammar(case, method)})
_BOUNDED = _passed(lambda case, method: {"grammar": BoundedGrammar(case, method)})

METHODS: tuple[FaultyMethod, ...] = (
    *(FaultyMethod("sampler", m, _registered(PlainSampler)) for m in (*STATEFUL, "resolve", "apply")),
    FaultyMethod("sampler", "check", _registered(PlainSampler), outside=True),
    *(FaultyMethod("lazy sampler", m, _registered(LazySampler)) for m in ("new_state", "accept", "fork")),
    FaultyMethod("preparing sampler", "prepare", _registered(PreparingSampler)),
    *(FaultyMethod("sampler in C", m, _in_c) for m in (*STATEFUL, "row_state")),
    *(
        FaultyMethod("truncation", m, _registered(PlainTruncation))
        for m in (*STATEFUL, "keep", "keep_columns")
    ),
    *(FaultyMethod("selector", m, _registered(PlainSelector)) for m in (*STATEFUL, "select")),
    FaultyMethod("selector", "check", _registered(PlainSelector), outside=True),
    *(FaultyMethod("criterion", m, _CRITERION) for m in ("new_state", "watch", "check", "rollback", "fork")),
    FaultyMethod("called criterion", "ends", _CALLED),
    *(FaultyMethod("text criterion", m, _passed(_text)) for m in ("matcher", "start", "advance", "held")),
    *(
        FaultyMethod("constraint", m, _GRAMMAR)
        for m in (
            "fill_bitmask",
            "accept",
            "rollback",
            "fork",
            "is_terminated",
            "forced_tokens",
        )
    ),
    *(FaultyMethod("bounded constraint", m, _BOUNDED) for m in ("fill_bitmask", "accept", "forced_tokens")),
    FaultyMethod("constraint without EOS", "is_accepting", _grammar_without_eos),
    *(FaultyMethod("backend", m, _backend, isolated=False) for m in ("run", "compile", "apply")),
    *(FaultyMethod("drafter", m, _drafter) for m in (*STATEFUL, "draft")),
    *(FaultyMethod("observer", m, _observer) for m in ("request_added", "step_finished", "request_finished")),
    FaultyMethod("tokenizer", "text_bytes", _tokenizer),
)
"""Every method of every contract."""
