"""The serving engine runs real models for all threads, and what fails ends the requests that it concerns."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.cli.serve.engine import BusyError, ServingEngine, Update
from engine_sampler.scheduler import RequestId
from engine_sampler.session import Session

from .serving import demo, eventually

BYTES = Tokenizer([bytes([byte]) for byte in range(256)] + [b"</s>"], [256])
ENDLESS = SamplingParams(ignore_eos=True)


class Flat(Session):
    """Every byte is as likely; what `faults` holds is raised in a forward pass, one after the other."""

    def __init__(self, max_requests: int | None = None) -> None:
        super().__init__(Scheduler(257, BYTES, limits=RequestLimits.none()), max_requests)
        self.faults: list[Exception] = []
        self.batches: list[int] = []
        self.forgotten: list[RequestId] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def encode(self, prompt: str) -> list[int]:
        return BYTES.encode(prompt)

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        self.may_go_on.wait(30)
        self.batches.append(len(contexts))
        if self.faults:
            raise self.faults.pop(0)
        return np.zeros((len(contexts), 257), np.float32)

    def forget(self, request_id: RequestId) -> None:
        self.forgotten.append(request_id)


class Transformers(Flat):
    """A small random model of transformers: rows are padded, nothing is cached."""

    def __init__(self) -> None:
        super().__init__()
        self.torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        self.torch.manual_seed(0)
        shape = {"n_positions": 256, "n_embd": 16, "n_layer": 1, "n_head": 2}
        config = transformers.GPT2Config(vocab_size=257, **shape)
        self.model = transformers.GPT2LMHeadModel(config).eval()  # a new model drops values at random

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        rows = list(contexts.values())
        width = max(map(len, rows))
        ids = self.torch.tensor([row + [0] * (width - len(row)) for row in rows])
        with self.torch.no_grad():
            logits = self.model(ids).logits
        return logits[range(len(rows)), [len(row) - 1 for row in rows]]


def running(session: Session, **options: Any) -> Iterator[ServingEngine]:
    engine = ServingEngine(session, **options)
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture
def engine() -> Iterator[ServingEngine]:
    yield from running(Flat())


def updates(engine: ServingEngine, params: SamplingParams, *prompts: str) -> Iterator[Update]:
    """The updates of requests, until all of them have ended."""
    outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
    live = len(engine.add(params, [engine.session.encode(prompt) for prompt in prompts], outbox.put))
    while live:
        update = outbox.get(timeout=30)
        live -= update.finish_reason is not None
        yield update


def text(engine: ServingEngine, params: SamplingParams, prompt: str = "The class") -> str:
    return "".join(update.text for update in updates(engine, params, prompt))


def test_the_engine_serves_the_embedded_model() -> None:
    kinds = [
        SamplingParams(max_tokens=30, seed=1),
        SamplingParams(max_tokens=50, stop=[" the"], temperature=0.7),
        SamplingParams(max_tokens=60, json_schema={"enum": ["one", 2]}),
        SamplingParams(max_tokens=20, regex="(yes|no)"),
    ]
    for engine in running(demo().session):
        with ThreadPoolExecutor(len(kinds)) as clients:
            texts = list(clients.map(lambda params: text(engine, params), kinds * 3))  # noqa: B023
        assert not engine.scheduler.request_ids
    for kind, written in enumerate(texts):
        if kind % 4 == 0:
            assert written == texts[0]
        elif kind % 4 == 1:
            assert " the" not in written
        elif kind % 4 == 2:
            assert json.loads(written) in ("one", 2)
        else:
            assert written in ("yes", "no")


def test_the_engine_serves_a_transformers_model() -> None:
    for engine in running(Transformers()):
        params = SamplingParams(max_tokens=40, seed=3, regex="[a-z ]{5,20}[.]")
        texts = [text(engine, params) for _ in range(2)]
        assert texts[0] == texts[1]
        assert re.fullmatch("[a-z ]{5,20}[.]", texts[0])


def test_requests_share_steps_up_to_the_size_of_a_batch() -> None:
    for engine in running(session := Flat(max_requests=3), max_batch=64):
        ended = [
            one for one in updates(engine, SamplingParams(n=2, max_tokens=4), "a", "b") if one.finish_reason
        ]
        assert sorted(one.number for one in ended) == [0, 1, 2, 3]
        assert max(session.batches) == 3


def test_the_text_of_a_request_does_not_depend_on_the_others(engine: ServingEngine) -> None:
    params = SamplingParams(max_tokens=30, seed=5)
    alone = text(engine, params)
    with ThreadPoolExecutor(8) as clients:
        assert set(clients.map(lambda _: text(engine, params), range(16))) == {alone}


def test_a_failing_model_ends_the_requests_of_its_step_and_the_engine_goes_on(engine: ServingEngine) -> None:
    session = engine.session
    assert isinstance(session, Flat)
    for fault in (MemoryError("device"), ValueError("a secret path"), RuntimeError()):
        session.faults.append(fault)
        (last,) = updates(engine, SamplingParams(max_tokens=3), "a")
        assert (last.finish_reason, last.error) == ("error", f"the model failed: {type(fault).__name__}")
    assert len(text(engine, SamplingParams(max_tokens=3, seed=1, regex="[a-z]*"))) <= 3
    assert not engine.scheduler.request_ids
    assert len(session.forgotten) == 4


def test_logits_of_a_wrong_shape_are_a_failure_of_the_model(
    engine: ServingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.session, "forward", lambda contexts: np.zeros((9, 257), np.float32))
    (last,) = updates(engine, SamplingParams(max_tokens=3), "a")
    assert last.finish_reason == "error"


def test_a_row_that_is_faulty_ends_its_request_alone(
    engine: ServingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(contexts: Mapping[RequestId, list[int]]) -> Any:
        return np.array(
            [[np.nan if context == [97] else 0] * 257 for context in contexts.values()], np.float32
        )

    monkeypatch.setattr(engine.session, "forward", forward)
    ended = {
        one.number: one
        for one in updates(engine, SamplingParams(max_tokens=3), "a", "b")
        if one.finish_reason
    }
    assert [ended[number].finish_reason for number in (0, 1)] == ["error", "length"]
    assert "nan" in (ended[0].error or "")


def test_a_model_that_cannot_even_forget_stops_the_engine_and_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("the device is gone")

    session = Flat()
    monkeypatch.setattr(session, "forward", broken)
    monkeypatch.setattr(session, "forget", broken)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    engine = ServingEngine(session)
    outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
    engine.add(ENDLESS, [[1], [2]], outbox.put)
    engine.start()
    assert {outbox.get(timeout=30).finish_reason for _ in range(2)} == {"error"}
    assert eventually(lambda: engine.is_stopped)
    with pytest.raises(BusyError, match="stopped"):
        engine.add(ENDLESS, [[1]], outbox.put)


def test_a_client_that_goes_ends_its_requests_alone(engine: ServingEngine) -> None:
    outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
    ids = engine.add(ENDLESS.replace(n=2), [[1]], outbox.put)
    assert outbox.get(timeout=30).token_ids
    engine.cancel(ids)
    engine.cancel(ids)
    assert text(engine, SamplingParams(max_tokens=3))
    assert eventually(lambda: not engine.scheduler.request_ids)
    given = [outbox.get_nowait() for _ in range(outbox.qsize())]
    assert [one.finish_reason for one in given if one.finish_reason] == ["abort", "abort"]


def test_stopping_ends_all_requests_with_an_error() -> None:
    engine = ServingEngine(Flat())
    engine.start()
    stream = updates(engine, ENDLESS, "a")
    next(stream)
    engine.stop()
    assert [one.error for one in stream if one.finish_reason] == ["the engine has stopped"]


def test_what_is_not_allowed_changes_nothing(engine: ServingEngine) -> None:
    with pytest.raises(ParameterError, match="prompt_token_ids"):
        engine.add(ENDLESS, [[1], [999]], print)
    with pytest.raises(ParameterError, match="logprobs"):  # the limits of clients
        engine.add(SamplingParams(logprobs=200), [[1]], print)
    assert eventually(lambda: not engine.scheduler.request_ids)


def test_a_request_ends_even_if_neither_it_nor_the_model_has_a_limit() -> None:
    for engine in running(Flat(), max_length=20):
        assert [one.finish_reason for one in updates(engine, ENDLESS, "abc")][-1] == "length"


def test_more_than_the_engine_holds_is_refused() -> None:
    for engine in running(session := Flat(), max_live=3):
        session.may_go_on.clear()
        outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
        engine.add(ENDLESS.replace(n=2), [[1]], outbox.put)
        with pytest.raises(BusyError, match="busy"):
            engine.add(ENDLESS.replace(n=2), [[1]], outbox.put)
        session.may_go_on.set()


def test_updates_never_give_what_a_ban_takes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Checked(Flat):
        rewound = 0

        def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
            for request_id, context in contexts.items():
                record = self.scheduler.record(request_id)
                assert context == record.prompt_token_ids + record.token_ids
            rows = np.full((len(contexts), 257), -20, np.float32)
            rows[:, list(b"abcd ")] = 0
            return rows

        def rewind(self, request_id: RequestId, length: int) -> None:
            self.rewound += 1

    params = SamplingParams(max_tokens=60, seed=2, logprobs=0, banned_strings=["abc", "d a", "cc"])
    for engine in running(session := Checked()):
        sent = list(updates(engine, params, "x"))
        plain = list(updates(engine, params.replace(banned_strings=["#"]), "x"))
    tokens = [token for update in sent for token in update.token_ids]
    written = "".join(update.text for update in sent)
    assert written == BYTES.decode(tokens)
    assert not [ban for ban in params.banned_strings if ban in written]
    assert len(tokens) == 60
    for update in sent:
        table = update.reported.logprobs
        drawn = [] if table is None else [int(table.token_ids[row, 0]) for row in update.rows]
        assert drawn == [*update.token_ids]
    assert session.rewound
    assert all(len(update.token_ids) == 1 for update in plain)
