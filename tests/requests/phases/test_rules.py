"""Where a rule of a grammar sets parameters, a request gives the tokens of one that has them there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler
from engine_sampler.backends.choose import named_backend
from engine_sampler.contract.constraints import settings_of
from engine_sampler.grammar import Grammar

from .world import BACKENDS, TOKENIZER, VOCAB, ids, row

GRAMMARS = [
    'start: (w | "{" n "}")+\nw[temperature=0.3, top_p=0.9]: /[a-d ]+/\nn[top_k=2]: /[12]+/',
    'start: w ("[" j "]" w)+\nj[temperature=1.7]: %json {"enum": [1, 2, 11, 12]}\nw: /[a-dénok ]+/',
    'start: w+\nw: "<" v ">"\nv[frequency_penalty=1.5, temperature=0.8]: /[a-e]+/ | x\nx[min_p=0.2]: "1" w',
    'start: t ">" t\nt[max_tokens=4, temperature=0.2]: /[a-n ]*/',
]
PARAMS: list[dict[str, Any]] = [
    {"temperature": 1.4},
    {"temperature": 0.9, "repetition_penalty": 1.2, "top_k": 12},
    {"temperature": 0.0, "presence_penalty": 0.6},
    {"temperature": 1.1, "min_p": 0.02, "logit_bias": {3: 1.5}},
]
PROMPT = ids(b"a", b"b", b"ok")
MOST = 16


def scheduler_of(backend: str) -> Scheduler:
    return Scheduler(VOCAB, TOKENIZER, backend=named_backend(backend))


def stepped(scheduler: Scheduler, names: list[int]) -> None:
    """One token for each of the live requests `names`."""
    live = [name for name in names if name in scheduler.request_ids]
    rows = [row(list(scheduler.record(name).token_ids)) for name in live]
    if live:
        scheduler.step(np.stack(rows), live)


def by_hand(backend: str, text: str, params: dict[str, Any], count: int) -> list[int]:
    """The tokens of requests that live for one token each, with the parameters that hold for it."""
    plain = Grammar.from_lark(text).compile(TOKENIZER)
    matcher, tokens = plain.matcher(), list[int]()
    settings = settings_of(matcher)
    assert settings is not None
    sets = [{}, *(dict(parameters) for _, parameters in settings.settings)]
    for _ in range(count):
        held = {**params, **sets[settings.present(matcher)]}
        scheduler = scheduler_of(backend)
        name = scheduler.add(
            SamplingParams(seed=5, **held), PROMPT, grammar=_Plain(plain), output_token_ids=tokens
        )
        stepped(scheduler, [name])
        record = scheduler.record(name)
        tokens = list(record.token_ids)
        if record.finish_reason is not None:
            break
        assert matcher.accept(tokens[-1])
    return tokens


class _Plain:
    """A grammar whose matchers do not tell of settings: copies of matchers are not new ones."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def matcher(self) -> Any:
        return self._compiled.matcher().fork()


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("params", PARAMS, ids=range(len(PARAMS)))
@pytest.mark.parametrize("text", GRAMMARS, ids=range(len(GRAMMARS)))
def test_each_token_is_drawn_with_the_parameters_of_its_rule(
    text: str, params: dict[str, Any], backend: str
) -> None:
    expected = by_hand(backend, text, params, MOST)
    scheduler = scheduler_of(backend)
    name = scheduler.add(SamplingParams(seed=5, **params), PROMPT, grammar=Grammar.from_lark(text))
    rng = random.Random(len(expected))
    for _ in range(4 * MOST):
        have = len(scheduler.record(name).token_ids)
        if name not in scheduler.request_ids or have >= MOST:
            break
        if have > 2 and rng.random() < 0.15:
            back = rng.randrange(1, min(have, 4))
            scheduler.rollback(name, back)
        elif rng.random() < 0.2:
            twin = scheduler.fork(name, seed=5)
            stepped(scheduler, [name, twin])
            assert scheduler.record(twin).token_ids == scheduler.record(name).token_ids
            if twin in scheduler.request_ids:
                scheduler.remove(twin)
        else:
            stepped(scheduler, [name])
        found = scheduler.record(name)
        assert list(found.token_ids) == expected[: len(found.token_ids)], found.error
    assert list(scheduler.record(name).token_ids) == expected
    assert scheduler.record(name).phase_tokens is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", GRAMMARS, ids=range(len(GRAMMARS)))
def test_drafts_leave_the_tokens_as_they_are(text: str, backend: str) -> None:
    expected = by_hand(backend, text, PARAMS[0], MOST)
    scheduler, rng = scheduler_of(backend), random.Random(3)
    name = scheduler.add(SamplingParams(seed=5, **PARAMS[0]), PROMPT, grammar=Grammar.from_lark(text))
    while name in scheduler.request_ids and len(scheduler.record(name).token_ids) < MOST:
        have = list(scheduler.record(name).token_ids)
        draft = [rng.choice([token, token, 0]) for token in expected[len(have) : len(have) + 3]]
        rows = [row([*have, *draft[:length]]) for length in range(len(draft) + 1)]
        scheduler.step(np.stack(rows), [name], draft_token_ids={name: draft})
    assert list(scheduler.record(name).token_ids)[:MOST] == expected


def test_parameters_of_rules_change_those_of_the_answer_alone() -> None:
    text = 'start: "a" w\nw[temperature=0]: /[b-d]+/'
    params = SamplingParams(
        seed=1, temperature=1.5, thinking={"start": [[0]], "end": [[1]]}, answer={"top_k": 5}, max_tokens=20
    )
    scheduler = scheduler_of("numpy")
    name = scheduler.add(params, [0], grammar=Grammar.from_lark(text))
    scheduler.accept(name, [2, 2, 1])

    def held() -> tuple[float, int]:
        phases = scheduler._requests.live[name].phases
        assert phases is not None
        return phases.state.phase.params.temperature, phases.state.phase.params.top_k

    assert held() == (1.5, 5)
    scheduler.accept(name, [0])
    assert held() == (0.0, 5)
    assert scheduler.record(name).phase_tokens == {"reasoning": 3, "answer": 1}
    scheduler.rollback(name, 2)
    assert held() == (1.5, 0)
    assert scheduler.record(name).phase_tokens == {"reasoning": 2}


def test_the_limits_of_the_scheduler_bind_rules_too() -> None:
    grammar = Grammar.from_lark("start: t\nt[top_k=50]: /a+/")
    scheduler = Scheduler(VOCAB, TOKENIZER, limits=RequestLimits(top_k=10))
    with pytest.raises(ParameterError, match=r"top_k=50 is not allowed: this scheduler's limit is 10"):
        scheduler.add(SamplingParams(), [0], grammar=grammar)
    with pytest.raises(ParameterError, match="'t', which is not allowed with use_beam"):
        Scheduler(VOCAB, TOKENIZER).add_group(SamplingParams(use_beam_search=True, n=2), [0], grammar=grammar)
