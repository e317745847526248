"""Schedulers with a request of every kind, and the calls that are interrupted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import RequestLimits, SamplingParams, Scheduler

from ..stateful.plugins import CRITERIA, GRAMMARS
from ..stateful.workload import VOCAB, model_row, tokenizer_for

Call = Callable[[Scheduler], Any]

REQUESTS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Callable[[], Any]]]] = {
    "plain": ({"temperature": 0.8, "top_k": 10, "stop": ["abba", "zz"]}, {}),
    "mirostat": ({"mirostat": 2, "mirostat_tau": 3.0}, {}),
    "adaptive": ({"adaptive_target": 0.3, "repetition_penalty": 1.2, "dry_multiplier": 0.8}, {}),
    "logprobs": (
        {
            "logprobs": 2,
            "logprobs_mode": ("raw", "penalized"),
            "frequency_penalty": 0.3,
            "prompt_logprobs": 1,
            "return_sampling_mask": True,
            "logprob_token_ids": [3, 5],
        },
        {},
    ),
    "regex": ({"regex": "[ab0-9 ]*c", "min_tokens": 2}, {}),
    "keys": ({"json_schema": {"type": "object", "minProperties": 3}}, {}),
    "thinking": (
        {
            "thinking": {"start": "ab", "end": ["c", "ba"], "starts_inside": True, "eos": "close"},
            "thinking_token_budget": 4,
            "answer": {"temperature": 0.5, "frequency_penalty": 0.2},
            "stop": ["abba"],
        },
        {},
    ),
    "thoughts": (
        {
            "thinking": {"start": [[8, 9], "a"], "end": "b", "message": "a"},
            "thinking_token_budget": 2,
            "regex": "[ab0-9 ]*c",
        },
        {},
    ),
    "table": ({}, {"grammar": GRAMMARS["table"]}),
    "bias": ({"regex": "(ab?|\n)*", "grammar_bias": 2.0}, {}),
    "eager": ({"weary": 0.5, "order": "llama.cpp"}, {}),
    "bans": ({"banned_strings": ["a", "b", "c"], "banned_regex": ["0."], "repetition_penalty": 1.1}, {}),
    "banned thoughts": (
        {
            "thinking": {"start": "ab", "end": ["c", "ba"], "starts_inside": True},
            "banned_strings": ["a", "0"],
            "regex": "[ab0-9 ]*c",
        },
        {},
    ),
    "criteria": (
        {
            "repetition_detection": {"max_pattern_size": 2, "min_count": 3},
            "assistant_confidence_threshold": 0.001,
            "deepconf_threshold": 0.1,
            "deepconf_window_size": 2,
        },
        {"stopping_criteria": lambda: [CRITERIA["tally"](), CRITERIA["reader"]()]},
    ),
}


def scene(backend: str, engine: str) -> Scheduler:
    """A scheduler with all `REQUESTS`, siblings that compete, and a suspended request."""
    scheduler = Scheduler(VOCAB, tokenizer_for(engine), backend=backend, limits=RequestLimits(logprobs=VOCAB))
    for seed, (name, (settings, extras)) in enumerate(REQUESTS.items()):
        params = SamplingParams(seed=seed, max_tokens=24, **settings)
        scheduler.add(params, [3, 4], request_id=name, **{key: make() for key, make in extras.items()})
    scheduler.add_group(
        SamplingParams(seed=50, n=1, best_of=2, max_tokens=20), [5], request_ids=["one", "two"]
    )
    scheduler.add(SamplingParams(seed=51, max_tokens=9), [6], request_id="paused")
    scheduler.suspend("paused")
    return scheduler


def beams(backend: str, engine: str) -> Scheduler:
    """A scheduler with two beam searches and another request."""
    scheduler = Scheduler(VOCAB, tokenizer_for(engine), backend=backend, limits=RequestLimits(logprobs=VOCAB))
    for seed, settings in enumerate(({"stop": ["ab"]}, {"regex": "(ab|ba|d)*c"})):
        params = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=7, seed=seed, **settings)
        scheduler.add_group(params, [3, seed], request_ids=[f"{seed}a", f"{seed}b"])
    scheduler.add(SamplingParams(seed=60, max_tokens=12), [6], request_id="beside")
    return scheduler


def rows_of(
    scheduler: Scheduler, request_ids: Sequence[Any], drafts: Mapping[Any, Sequence[int]] | None = None
) -> np.ndarray:
    """The logits of these requests and their drafts."""
    rows = []
    for request_id in request_ids:
        record = scheduler.record(request_id)
        history = [*record.prompt_token_ids, *record.token_ids]
        guesses = [] if drafts is None else [*drafts.get(request_id, ())]
        rows += [model_row([*history, *guesses[:i]]) for i in range(len(guesses) + 1)]
    return np.array(rows, np.float32).reshape(-1, VOCAB)


def step(scheduler: Scheduler, drafts: Mapping[Any, Sequence[int]] | None = None) -> Any:
    """One step of all live requests."""
    live = scheduler.request_ids
    known = None if drafts is None else {i: d for i, d in drafts.items() if i in live}
    return scheduler.step(rows_of(scheduler, live, known), live, known)


def step_with_trees(scheduler: Scheduler, trees: Mapping[Any, tuple[list[int], list[int]]]) -> Any:
    """One step of all live requests, some of which have trees of drafts."""
    live, rows = scheduler.request_ids, []
    for request_id in live:
        record = scheduler.record(request_id)
        texts = [[*record.prompt_token_ids, *record.token_ids]]
        for token, parent in zip(*trees.get(request_id, ((), ())), strict=True):
            texts.append([*texts[parent + 1], token])
        rows += [model_row(text) for text in texts]
    known = {i: tree for i, tree in trees.items() if i in live}
    return scheduler.step(np.array(rows, np.float32).reshape(-1, VOCAB), live, draft_trees=known)


def run_to_end(scheduler: Scheduler) -> None:
    while scheduler.request_ids:
        step(scheduler)


def facts(scheduler: Scheduler) -> dict[Any, Any]:
    """Everything that a call which has not been done must leave as it was."""
    requests, slots = scheduler._requests, scheduler._requests.slots
    state: dict[Any, Any] = {"ids": (scheduler.request_ids, set(requests.suspended), list(requests.groups))}
    for request_id, request in requests.known.items():
        history, text = request.state.history, request.text
        state[request_id] = [
            (request.finish_reason, request.stop_reason, request.error, request.seed, request.backlog),
            request.prompt_scoring and request.prompt_scoring.done,
            (history.token_ids.tolist(), history.output_notes.tobytes(), copy.copy(request.raw_logprobs)),
            text and (text.deltas.copy(), text.held, text._taken),
            request.bans and (request.bans.rewinds, request.bans.certain),
            (int(slots.positions[request.slot]), int(slots.seeds[request.slot]))
            if request.slot >= 0
            else None,
        ]
    return state


def outcomes(scheduler: Scheduler) -> dict[Any, Any]:
    """How every request ends."""
    run_to_end(scheduler)
    records = [request.record() for request in scheduler._requests.known.values()]
    return {r.request_id: (r.token_ids, r.text, r.finish_reason, r.stop_reason, r.error) for r in records}


CALLS: Sequence[tuple[str, Call]] = (
    ("a step", step),
    ("prepare", lambda s: s.prepare()),
    ("a prepared step", step),
    ("accept", lambda s: s.accept("plain", [7, 8, 3])),
    ("accept under a grammar", lambda s: s.accept("table", [3, 4])),
    ("accept with a criterion", lambda s: s.accept("criteria", [11])),
    ("rollback with a criterion", lambda s: s.rollback("criteria", 2)),
    ("add", lambda s: s.add(SamplingParams(seed=70, regex="[ab]*", max_tokens=6), [9], request_id="late")),
    (
        "add a group",
        lambda s: s.add_group(SamplingParams(seed=71, n=2, max_tokens=5), [9], request_ids=["x", "y"]),
    ),
    ("drafts", lambda s: step(s, {"plain": [7, 8], "regex": [2], "mirostat": [3, 3, 3], "bans": [5, 6]})),
    ("rollback", lambda s: s.rollback("mirostat", 2)),
    ("rollback under a grammar", lambda s: s.rollback("regex", 1)),
    ("rollback with bans", lambda s: s.rollback("bans", 1)),
    ("rollback of a plugin", lambda s: s.rollback("eager", 1)),
    ("fork", lambda s: s.fork("adaptive", new_request_id="child", seed=5)),
    ("fork under a grammar", lambda s: s.fork("keys", new_request_id="twin", seed=6)),
    ("score the prompt", lambda s: s.score_prompt("logprobs", model_row([3])[None])),
    ("suspend", lambda s: s.suspend("logprobs")),
    ("resume", lambda s: s.resume("paused")),
    ("another step", step),
    ("resume another", lambda s: s.resume("logprobs")),
    ("process", lambda s: s.process(rows_of(s, s.request_ids))),
    ("remove", lambda s: s.remove("x")),
    ("forced tokens", lambda s: s.forced_tokens("keys")),
    ("explain", lambda s: s.explain()),
    (
        "trees",
        lambda s: step_with_trees(s, {"plain": ([7, 8, 9], [-1, -1, 1]), "regex": ([2, 3, 2], [-1, -1, 1])}),
    ),
    ("draft", lambda s: s.draft(None, 4, ("grammar", "ngram"))),
    ("rollback behind a draft", lambda s: s.rollback("regex", 1)),
    ("draft again", lambda s: s.draft(None, 4, ("grammar", "ngram"))),
    *((f"step {n}", step) for n in range(3)),
)
"""What is called, in this order."""

BEAMS: Sequence[tuple[str, Call]] = (
    *((f"step {n}", step) for n in range(4)),
    ("remove", lambda s: s.remove("0a")),
    *((f"step {n}", step) for n in range(4, 8)),
)
