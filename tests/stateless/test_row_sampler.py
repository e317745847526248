"""`RowSampler`: whatever an engine's rows do, each draws what its request alone would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RowSampler, SamplingParams, Scheduler
from engine_sampler.arithmetic import child_seed
from engine_sampler.contract import Param, Sampler
from tests.engines import registered
from tests.random_chains import ROUNDS, tokenizer
from tests.stateless.row_worlds import KEYS, LOGITS, SIZE, World, bits_of

# --- the law --------------------------------------------------------------------------------------


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("size", [3, 40, 700])
def test_each_row_draws_what_its_request_alone_draws(size: int, backend: str) -> None:
    """Requests arrive, leave, move, change their parameters, go back, and get tokens from elsewhere; rows
    fail; some steps have masks, some have drafts."""
    world = World(size, size)
    sampler = RowSampler(size, tokenizer(size), backend=backend)
    for _ in range(30 * ROUNDS):
        world.change()
        requests, random = world.requests, world.random
        drafts = world.drafts() if random.random() < 0.3 else [[] for _ in requests]
        rows = len(requests) + sum(map(len, drafts))
        logits, mask = world.logits(rows), None
        if random.random() < 0.4:
            mask = world.mask(rows)
        drawn = sampler.step(
            logits,
            [request.key for request in requests],
            world.columns(),
            prompts=[request.prompt for request in requests],
            outputs=[request.output for request in requests],
            mask=mask if mask is None or random.random() < 0.5 else bits_of(mask),
            draft_token_ids=drafts if any(drafts) else None,
        )
        first = 0
        for i, request in enumerate(requests):
            end = first + 1 + len(drafts[i])
            part = None if mask is None else mask[first:end]
            tokens, is_faulty = request.alone(logits[first:end], drafts[i], part)
            context = f"{request.settings} {request.output} {drawn.errors[i]}"
            assert drawn.token_ids[first:end].tolist() == tokens, context
            assert (drawn.errors[i] is not None) == is_faulty, context
            request.output += drawn.tokens(i)
            first = end


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_rows_that_stay_draw_what_a_scheduler_draws(backend: str) -> None:
    """Selectors that learn from their draws included."""
    settings: list[dict[str, Any]] = [
        {"mirostat": 2, "mirostat_tau": 3.0},
        {"adaptive_target": 0.3},
        {"temperature": 0.0, "repetition_penalty": 1.5},
        {"mirostat": 1},
        {"dry_multiplier": 1.0, "dry_allowed_length": 1},
        {},
    ]
    scheduler, sampler = Scheduler(SIZE, backend=backend), RowSampler(SIZE, backend=backend)
    for i, given in enumerate(settings):
        scheduler.add(SamplingParams(**given, seed=i))
    params = [SamplingParams(**given, seed=i) for i, given in enumerate(settings)]
    outputs: list[list[int]] = [[] for _ in settings]
    random = np.random.default_rng(1)
    for step in range(40):
        logits = random.normal(0, 3, LOGITS.shape).astype(np.float32)
        drawn = sampler.step(logits, KEYS, params=params, outputs=outputs if step % 2 else None)
        np.testing.assert_array_equal(drawn.token_ids, scheduler.step(logits).token_ids)
        for output, token_id in zip(outputs, drawn.token_ids.tolist(), strict=True):
            output.append(token_id)


def test_columns_may_be_arrays_lists_and_what_numpy_reads() -> None:
    expected = RowSampler(SIZE).step(LOGITS, KEYS, {"temperature": [0.5] * 6, "seed": [3] * 6}).token_ids
    for dtype in (np.float32, np.float16, np.float64):
        columns = {"temperature": np.full(6, 0.5, dtype), "seed": np.full(6, 3, np.int32)}
        np.testing.assert_array_equal(RowSampler(SIZE).step(LOGITS, KEYS, columns).token_ids, expected)


def test_an_array_that_changes_in_place_is_noticed() -> None:
    sampler, temperature = RowSampler(SIZE), np.ones(6)
    sampler.step(LOGITS, KEYS, {"temperature": temperature}, outputs=[[]] * 6)
    temperature[2] = 0.0
    drawn = sampler.step(LOGITS, KEYS, {"temperature": temperature}, outputs=[[]] * 6)
    assert drawn.token_ids[2] == LOGITS[2].argmax()


def test_the_parameters_of_rows_may_be_objects_that_columns_change() -> None:
    greedy, other = SamplingParams(temperature=0.0), SamplingParams(temperature=5.0)
    sampler = RowSampler(SIZE)
    best = LOGITS.argmax(axis=1).tolist()
    assert sampler.step(LOGITS, KEYS, params=greedy).token_ids.tolist() == best
    assert sampler.step(LOGITS, KEYS, params=[greedy] * 6).token_ids.tolist() == best
    columns = {"temperature": [0.0] * 6}
    assert sampler.step(LOGITS, KEYS, columns, params=other).token_ids.tolist() == best


# --- what stays ----------------------------------------------------------------------------------


class Counted(Sampler):
    """Counts how many states it makes."""

    name = "counted"
    params = (Param("counted", float, 0.0),)

    def __init__(self) -> None:
        self.made = 0

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[int]:
        self.made += 1
        return []

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        pass


def test_nothing_is_built_again_while_a_batch_stays_and_a_changed_row_costs_that_row() -> None:
    counted = Counted()
    with registered(counted):
        sampler, outputs = RowSampler(SIZE), [[] for _ in KEYS]
        columns = {"counted": np.arange(1.0, 7.0)}
        for _ in range(5):
            drawn = sampler.step(LOGITS, KEYS, columns, outputs=outputs)
            for output, token_id in zip(outputs, drawn.token_ids.tolist(), strict=True):
                output.append(token_id)
        assert counted.made == 6
        sampler.step(LOGITS[::-1], KEYS[::-1], {"counted": columns["counted"][::-1]}, outputs=outputs[::-1])
        assert counted.made == 6
        columns["counted"][3] = 9.0
        sampler.step(LOGITS, KEYS, columns, outputs=outputs)
        assert counted.made == 7
        sampler.step(LOGITS[:5], KEYS[:5], {"counted": columns["counted"][:5]}, outputs=outputs[:5])
        sampler.step(LOGITS, KEYS, columns, outputs=outputs)
        assert counted.made == 8


class NoLook(list[int]):
    """A list whose beginning must not be read."""

    def __iter__(self) -> Any:
        raise AssertionError("it is read as a whole")

    def __getitem__(self, place: Any) -> Any:
        first = place.start if isinstance(place, slice) else place
        assert first < 0 or first >= len(self) - 32, "its beginning is read"
        return list.__getitem__(self, place)


def test_a_list_that_grows_is_read_at_its_end_alone() -> None:
    sampler = RowSampler(SIZE)
    output: Any = [1, 2] * 5000
    sampler.step(LOGITS[:1], "a", outputs=[output])
    output = NoLook(output)
    sampler._rows["a"].output = output  # as if it had been given before
    for step in range(20):
        tokens = sampler.step(LOGITS[:1], "a", outputs=[output]).tokens(0)
        output.extend(tokens if step % 3 else [3, 4, 5])
        if step % 5 == 4:
            del output[-2:]


def test_what_has_been_drawn_counts_where_no_output_is_given() -> None:
    sampler, scheduler = RowSampler(SIZE), Scheduler(SIZE)
    params = SamplingParams(seed=1, frequency_penalty=0.5)
    scheduler.add(params, [1, 2])
    for step in range(10):
        drawn = sampler.step(LOGITS[:1], ["a"], params=params, prompts=None if step else [[1, 2]])
        assert drawn.token_ids.tolist() == scheduler.step(LOGITS[:1]).token_ids.tolist()
    params = params.replace(temperature=0.5)  # keeps the tokens
    again = Scheduler(SIZE)
    again.add(params, [1, 2], output_token_ids=scheduler.record(0).token_ids)
    drawn = sampler.step(LOGITS[:1], ["a"], params=params)
    assert drawn.token_ids.tolist() == again.step(LOGITS[:1]).token_ids.tolist()


# --- faults ---------------------------------------------------------------------------------------


def test_a_faulty_row_is_reported_and_goes_on() -> None:
    sampler, scheduler = RowSampler(SIZE), Scheduler(SIZE)
    params = SamplingParams(seed=4, mirostat=2)
    scheduler.add(params)
    faulty = LOGITS.copy()
    faulty[0] = np.nan
    for step in range(8):
        drawn = sampler.step(faulty if step % 3 == 1 else LOGITS, KEYS, params=params)
        assert drawn.errors[1:] == [None] * 5
        if step % 3 == 1:
            assert drawn.token_ids[0] == -1
            assert "nan" in str(drawn.errors[0])
        else:
            assert drawn.errors[0] is None
            assert drawn.token_ids[0] == scheduler.step(LOGITS[:1]).token_ids[0]


def test_nothing_ends_a_row() -> None:
    sampler = RowSampler(SIZE, eos_token_ids=[7])
    only = np.full((1, SIZE), -np.inf, np.float32)
    only[0, 7] = 0
    for _ in range(5):
        assert sampler.step(only, ["a"], {"stop_token_ids": [[7]]}).token_ids.tolist() == [7]
    free = np.zeros((1, SIZE), np.float32)
    free[0, 7] = 9
    drawn = sampler.step(free, ["b"], {"min_tokens": [3], "temperature": [0.0]})
    assert drawn.token_ids.tolist() == [0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"temperature": [-1.0]}, "temperature=-1.0 is not allowed"),
        ({"logit_bias": [{99: 1.0}]}, "99"),
        ({"top_p": [float("nan")]}, "top_p"),
        ({"mirostat": [1], "adaptive_target": [0.5]}, "several selectors"),
    ],
)
def test_a_row_with_wrong_parameters_is_reported_alone(columns: dict[str, list[Any]], message: str) -> None:
    columns = {name: [None, *values, None] for name, values in columns.items()}
    sampler = RowSampler(SIZE, seed=1)
    expected = RowSampler(SIZE, seed=1).step(LOGITS[:3], KEYS[:3]).token_ids
    for outputs in (None, [[], [], []], [[], [], []]):
        drawn = sampler.step(LOGITS[:3], KEYS[:3], columns, outputs=outputs)
        assert message in str(drawn.errors[1])
        assert drawn.token_ids[1] == -1
        assert drawn.errors[0] is drawn.errors[2] is None
        if outputs is None:
            assert drawn.token_ids[[0, 2]].tolist() == expected[[0, 2]].tolist()
    assert sampler.step(LOGITS[:3], KEYS[:3], outputs=[[], [], []]).errors == [None] * 3


@pytest.mark.parametrize("output", [[SIZE], [-1], [0.5], ["a"], [[1]], [1, None]])
def test_a_row_with_wrong_tokens_is_reported_alone(output: Any) -> None:
    sampler = RowSampler(SIZE)
    for _ in range(2):
        drawn = sampler.step(LOGITS[:2], KEYS[:2], outputs=[[1], [2, *output]])
        assert drawn.errors[0] is None
        assert drawn.errors[1] is not None
    assert sampler.step(LOGITS[:2], KEYS[:2], outputs=[[1], [2]]).errors == [None] * 2


@pytest.mark.parametrize(
    "name", ["max_tokens", "stop", "n", "logprobs", "regex", "max_time", "best_of", "skip_special_tokens"]
)
def test_columns_that_rows_cannot_have_are_refused(name: str) -> None:
    sampler = RowSampler(SIZE)
    with pytest.raises(ParameterError, match=name):
        sampler.step(LOGITS, KEYS, {name: [1] * 6})
    assert sampler.step(LOGITS, KEYS).errors == [None] * 6


def test_parameters_of_whole_requests_are_reported() -> None:
    params = [
        SamplingParams(max_tokens=3),
        SamplingParams(regex="a"),
        SamplingParams(thinking={"start": [1], "end": [2]}),
    ]
    drawn = RowSampler(SIZE).step(LOGITS[:3], KEYS[:3], params=params)
    assert [error is not None for error in drawn.errors] == [True] * 3
    for given in params:
        with pytest.raises(ParameterError, match="not allowed"):
            RowSampler.check(given)
    RowSampler.check(SamplingParams(mirostat=2, min_tokens=3, stop_token_ids=[1], seed=3))


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((LOGITS, KEYS[:5]), {}),
        ((LOGITS, ["a"] * 6), {}),
        ((LOGITS, [[]] * 6), {}),
        ((LOGITS[0], KEYS), {}),
        ((LOGITS, KEYS, {"temperature": [1.0]}), {}),
        ((LOGITS, KEYS, {"temperature": np.ones((6, 1))}), {}),
        ((LOGITS, KEYS, {"temprature": [1.0] * 6}), {}),
        ((LOGITS, KEYS, [1.0] * 6), {}),
        ((LOGITS, KEYS), {"params": [SamplingParams()]}),
        ((LOGITS, KEYS), {"params": [{}] * 6}),
        ((LOGITS, KEYS), {"prompts": [[1]]}),
        ((LOGITS, KEYS), {"outputs": [[1]]}),
        ((LOGITS, KEYS), {"mask": np.ones((5, SIZE), bool)}),
        ((LOGITS, KEYS), {"mask": np.ones((6, SIZE - 1), bool)}),
        ((LOGITS, KEYS), {"mask": np.ones((6, SIZE), np.int64)}),
        ((LOGITS, KEYS), {"draft_token_ids": [[1]] * 6}),
        ((LOGITS, KEYS), {"draft_token_ids": {"z": [1]}}),
        ((LOGITS[:2], ["a"]), {"draft_token_ids": [[SIZE]]}),
        ((LOGITS, KEYS), {"logprobs": -2}),
        ((LOGITS, KEYS), {"logprobs": 1, "logprobs_mode": "raw"}),
        ((LOGITS, KEYS), {"logprob_token_ids": [[1]]}),
        ((LOGITS, KEYS), {"logprob_token_ids": [[SIZE]] * 6}),
    ],
)
def test_wrong_arguments_change_nothing(arguments: Any, keywords: dict[str, Any]) -> None:
    sampler, other = RowSampler(SIZE, seed=3), RowSampler(SIZE, seed=3)
    for _ in range(2):
        sampler.step(LOGITS, KEYS), other.step(LOGITS, KEYS)
        with pytest.raises((ValueError, TypeError)):
            sampler.step(*arguments, **keywords)
        np.testing.assert_array_equal(
            sampler.step(LOGITS, KEYS).token_ids, other.step(LOGITS, KEYS).token_ids
        )


class Interrupted(Sampler):
    """Raises KeyboardInterrupt when told to."""

    name = "interrupted"
    params = (Param("interrupted", bool, False),)
    due = False

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[int]:
        return []

    def _raise(self) -> None:
        if Interrupted.due:
            Interrupted.due = False
            raise KeyboardInterrupt

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        self._raise()

    def accept(self, state: list[int], token_ids: Any) -> None:
        self._raise()


@pytest.mark.parametrize("with_outputs", [True, False])
def test_a_step_that_is_interrupted_can_be_repeated(with_outputs: bool) -> None:
    with registered(Interrupted()):
        sampler, calm = RowSampler(SIZE, seed=2), RowSampler(SIZE, seed=2)
        params = [SamplingParams(interrupted=i % 2 == 0, frequency_penalty=0.5) for i in range(6)]
        outputs: list[list[int]] = [[] for _ in KEYS]
        for step in range(12):
            arguments = {"params": params, "outputs": outputs if with_outputs else None}
            Interrupted.due = False
            expected = calm.step(LOGITS, KEYS, **arguments).token_ids
            Interrupted.due = step % 2 == 1
            if Interrupted.due:
                with pytest.raises(KeyboardInterrupt):
                    sampler.step(LOGITS, KEYS, **arguments)
            drawn = sampler.step(LOGITS, KEYS, **arguments)
            np.testing.assert_array_equal(drawn.token_ids, expected)
            for output, token_id in zip(outputs, expected.tolist(), strict=True):
                output.append(token_id)


# --- seeds ----------------------------------------------------------------------------------------


def test_rows_without_a_seed_get_children_of_the_samplers_seed_in_order_of_arrival() -> None:
    sampler, other = RowSampler(SIZE, seed=8), RowSampler(SIZE, seed=8)
    sampler.step(LOGITS[:2], ["a", "b"])
    other.step(LOGITS[:1], ["x"])
    first, second = sampler.step(LOGITS[:2], ["a", "b"]), other.step(LOGITS[:2], ["x", "y"])
    assert first.seeds == second.seeds == [child_seed(8, 1), child_seed(8, 2)]
    assert len({*RowSampler(SIZE).step(LOGITS, KEYS).seeds}) == 6
    assert sampler.step(LOGITS[:2], ["a", "b"], {"seed": [5, None]}).seeds == [5, child_seed(8, 2)]


# --- other logits ---------------------------------------------------------------------------------


def test_logits_may_be_wider_read_only_and_of_half_precision() -> None:
    wide = np.concatenate([LOGITS, np.full((6, 3), 9.0, np.float32)], axis=1).astype(np.float16)
    wide.flags.writeable = False
    drawn = RowSampler(SIZE, seed=1).step(wide, KEYS, logprobs=1, mask=np.ones((6, SIZE + 3), bool))
    expected = RowSampler(SIZE, seed=1).step(LOGITS.astype(np.float16), KEYS)
    np.testing.assert_array_equal(drawn.token_ids, expected.token_ids)


def test_no_rows_draw_nothing_whatever_parameters_they_have() -> None:
    sampler = RowSampler(SIZE)
    for params in ([], SamplingParams(), [], None):
        assert not len(sampler.step(LOGITS[:0], [], params=params).token_ids)


def test_no_rows_draw_nothing() -> None:
    sampler = RowSampler(SIZE)
    assert sampler.step(LOGITS, KEYS).errors == [None] * 6
    assert sampler.step(LOGITS[:0], [], logprobs=1).token_ids.tolist() == []
    assert sampler.vocab_size == SIZE
    assert sampler.backend is not None
