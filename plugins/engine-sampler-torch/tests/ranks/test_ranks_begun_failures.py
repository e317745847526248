"""Steps in halves fail on all ranks together, wherever one of them does, and none waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from engine_sampler_torch.ranks import RankError
from engine_sampler_torch.ranks.batch_sharded.answers import Details
from rank_pool import Place, RankPool
from test_ranks_begun import Halves
from test_ranks_failures import FAILING, LONE_CALLS, WRONG_INPUTS

from engine_sampler import BackendError, Scheduler


def fails_together(engine: Halves, call: Callable[[], Any], failing: Callable[[], Any] | None = None) -> str:
    """What `call` raises on all ranks, of which one calls `failing`; nothing has changed."""
    with pytest.raises(RankError) as raised:
        failing() if failing is not None and engine.fails else call()
    assert raised.value.result is None
    assert list(raised.value.reasons) == [FAILING]
    return str(raised.value)


# --- before the logits move ----------------------------------------------------------------------


def wrong_input(place: Place, name: str, announced: bool) -> str:
    """One rank has wrong logits: all learn of it when they begin, or when they finish what was announced."""
    engine = Halves(place)
    engine.step()
    shard = place.shard(engine.shards, engine.logits())
    inputs = WRONG_INPUTS[name][0](shard) if engine.fails else shard
    if announced:
        engine.all_ranks.announce()
        begun = engine.all_ranks.begin(inputs)
        message = fails_together(engine, begun.finish)
    else:
        message = fails_together(engine, lambda: engine.all_ranks.begin(inputs))
    engine.step()
    return message


@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("name", ["a row less", "another type"])
def test_wrong_logits_on_one_rank_raise_on_all(ranks: RankPool, name: str, announced: bool) -> None:
    (message,) = set(ranks.run(3, wrong_input, name, announced))
    assert WRONG_INPUTS[name][1].split("\\")[0] in message


def tokens_beside_a_failure(place: Place) -> list[bool]:
    """Which tokens are on the device if a rank has had no logits to give."""
    engine = Halves(place)
    engine.step()
    shard = place.shard(engine.shards, engine.logits())
    engine.all_ranks.announce()
    begun = engine.all_ranks.begin(None if engine.fails else shard)
    known = (begun.token_ids_on_device >= 0).tolist()
    fails_together(engine, engine.all_ranks.announce)
    with pytest.raises(RuntimeError, match="the step is over: it has been given up"):
        begun.finish()
    engine.step()
    return known


def test_a_failed_rank_has_no_tokens_on_the_device_and_the_next_message_says_why(ranks: RankPool) -> None:
    known = [i % 3 != FAILING for i in range(6)]
    assert ranks.run(3, tokens_beside_a_failure) == [known] * 3


# --- while a rank samples ------------------------------------------------------------------------


def failing_half(place: Place, half: str, error: BaseException) -> str:
    """The share of one rank fails; the others have drawn theirs."""
    engine = Halves(place)
    engine.step()
    logits = engine.logits()
    wanted = engine.one.step(logits).token_ids.tolist()
    shard = place.shard(engine.shards, logits)
    target = engine.all_ranks.local if half == "begin" else engine.all_ranks.local._runner
    with patch.object(target, half, side_effect=error) if engine.fails else nullcontext():
        begun = engine.all_ranks.begin(shard)
        interrupted = engine.fails and not isinstance(error, Exception)
        with pytest.raises(type(error) if interrupted else RankError) as raised:
            begun.finish()
    told = raised.value.__cause__ if interrupted else raised.value
    expected = [-1 if i % 3 == FAILING else wanted[i] for i in range(6)]
    if not interrupted:
        assert raised.value.result.token_ids.tolist() == expected
    if half == "begin":
        assert begun.token_ids_on_device.tolist() == expected
    again = engine.all_ranks.step(shard[[1, 4]], [1, 4])
    assert again.token_ids.tolist() == [wanted[1], wanted[4]]
    engine.step()
    return str(told)


@pytest.mark.parametrize("half", ["begin", "finish"])
@pytest.mark.parametrize("error", [BackendError("it is gone"), MemoryError("no room"), KeyboardInterrupt()])
def test_a_rank_whose_half_fails_leaves_the_others_tokens(
    ranks: RankPool, half: str, error: BaseException
) -> None:
    (message,) = set(ranks.run(3, failing_half, half, error))
    assert message.startswith(f"rank 1: {type(error).__name__}: {error}")


def failing_everywhere(place: Place, half: str) -> None:
    engine = Halves(place)
    logits = engine.logits()
    target = engine.all_ranks.local if half == "begin" else engine.all_ranks.local._runner
    with patch.object(target, half, side_effect=BackendError("it is gone")):
        begun = engine.begin(logits)
        with pytest.raises(BackendError, match="it is gone"):
            begun.finish()
    assert engine.begin(logits).finish().token_ids.tolist() == engine.one.step(logits).token_ids.tolist()


@pytest.mark.parametrize("half", ["begin", "finish"])
def test_ranks_whose_halves_all_fail_raise_what_one_would(ranks: RankPool, half: str) -> None:
    ranks.run(3, failing_everywhere, half)


def failing_later(place: Place) -> list[str]:
    """One rank fails after it has drawn, in what follows."""
    engine = Halves(place)
    begun = engine.begin(engine.logits())
    broken = patch.object(Details, "packed", side_effect=MemoryError("no room"))
    with broken if engine.fails else nullcontext(), pytest.raises(RankError, match="rank 1: MemoryError"):
        begun.finish()
    shard = place.shard(engine.shards, engine.logits())
    return [fails_together(engine, lambda: engine.all_ranks.begin(shard)) for _ in range(2)]


def failing_between(place: Place) -> list[str]:
    """The owner of a request fails while a token is accepted."""
    engine = Halves(place)
    begun = engine.begin(engine.logits())
    with patch.object(Scheduler, "accept", side_effect=MemoryError("no room")):
        if engine.fails:
            with pytest.raises(MemoryError):
                engine.all_ranks.accept(1, [2])
        else:
            engine.all_ranks.accept(1, [2])
    return [fails_together(engine, begun.finish)]


@pytest.mark.parametrize("fails", [failing_later, failing_between])
def test_a_rank_that_has_lost_its_requests_makes_all_steps_fail(
    ranks: RankPool, fails: Callable[[Place], list[str]]
) -> None:
    for messages in ranks.run(3, fails):
        assert set(messages) == {"rank 1: RuntimeError: this rank has failed before: MemoryError: no room"}


# --- ranks that do different things --------------------------------------------------------------

BETWEEN: dict[str, Callable[[Halves], Any]] = {
    **{name: lambda engine, call=call: call(engine.all_ranks) for name, call in LONE_CALLS.items()},
    "step": lambda engine: engine.step_zeros(engine.all_ranks),
    "begin": lambda engine: engine.begin(engine.logits()),
    "announce": lambda engine: (engine.all_ranks.announce(), engine.all_ranks.record(0)),
}


def lone_call_between(place: Place, name: str) -> str:
    """One rank does something else than finish its step, which it has or has not given up before."""
    engine = Halves(place)
    engine.step()
    messages = []
    for gives_up in (False, True):
        begun = engine.begin(np.zeros((6, 40), np.float32))
        if gives_up and engine.fails:
            begun.give_up()
        messages.append(fails_together(engine, begun.finish, lambda: BETWEEN[name](engine)))
        begun.give_up()
    engine.rng = np.random.default_rng(3)
    engine.step()
    return "\n".join(messages)


@pytest.mark.parametrize("name", BETWEEN)
def test_a_call_that_one_rank_makes_in_place_of_finish_is_named(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, lone_call_between, name))
    first, second = message.split("\n")
    assert second == f"rank 1: it calls {name}, and rank 0 finish: every rank makes the same calls"
    is_refused = name in ("step", "begin", "forced_tokens")
    assert first.startswith("rank 1: RuntimeError: a step has begun" if is_refused else second)


def lone_call_in_place_of_begin(place: Place, name: str) -> str:
    """All have announced a step, which one rank does not begin."""
    engine = Halves(place)
    engine.step()
    engine.all_ranks.announce()
    shard = place.shard(engine.shards, np.zeros((6, 40), np.float32))

    def finished() -> None:
        engine.all_ranks.begin(shard).finish()

    message = fails_together(engine, finished, lambda: BETWEEN[name](engine))
    engine.rng = np.random.default_rng(3)
    engine.step()
    return message


@pytest.mark.parametrize("name", [*LONE_CALLS, "step", "announce"])
def test_a_call_that_one_rank_makes_in_place_of_begin_is_named(ranks: RankPool, name: str) -> None:
    (message,) = set(ranks.run(3, lone_call_in_place_of_begin, name))
    own = "step as announced" if name == "step" else name
    assert message.startswith(f"rank 1: it calls {own}, and rank 0 begin as announced")


def lone_begin(place: Place, announced: bool) -> str:
    """One rank begins the step that the others do at once."""
    engine = Halves(place)
    engine.step()
    if announced:
        engine.all_ranks.announce()
    shard = place.shard(engine.shards, np.zeros((6, 40), np.float32))

    def halves() -> None:
        engine.all_ranks.begin(shard).finish()

    message = fails_together(engine, lambda: engine.all_ranks.step(shard), halves)
    engine.step()
    return message


@pytest.mark.parametrize("announced", [False, True])
def test_a_step_that_one_rank_alone_begins_is_named(ranks: RankPool, announced: bool) -> None:
    (message,) = set(ranks.run(3, lone_begin, announced))
    suffix = " as announced" if announced else ""
    assert message.startswith(f"rank 1: it calls begin{suffix}, and rank 0 step{suffix}")


def dropped(place: Place) -> str:
    """The engine of one rank is interrupted between, and loses what it has begun."""
    engine = Halves(place)
    engine.step()
    logits = np.zeros((6, 40), np.float32)

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            _interrupted(engine.begin(logits))
        engine.begin(logits)

    message = fails_together(engine, lambda: engine.begin(logits).finish(), interrupted)
    engine.step()
    return message


def _interrupted(begun: Any) -> None:
    raise KeyboardInterrupt


def test_a_step_that_one_rank_drops_is_named(ranks: RankPool) -> None:
    (message,) = set(ranks.run(3, dropped))
    assert message.startswith("rank 1: it calls begin, and rank 0 finish")
