"""What the host runs in place of a backend: the same tokens, and one word to observers for each reason."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import LogitRows
from engine_sampler.backends.host_run import HostRun, members_of
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, Group

from ..engines import observed
from ..random_chains import random_rows

N, SIZE = 6, 40


@pytest.fixture
def group() -> Group:
    params = SamplingParams(repetition_penalty=1.4, top_k=9, temperature=0.7)
    chain, rows = random_rows(np.random.default_rng(1), params, N, SIZE)
    return Group(chain, np.arange(N)[::-1].copy(), rows)


def batch_of(group: Group) -> Batch:
    logits = LogitRows(np.random.default_rng(2).normal(0, 2, (N, SIZE)).astype(np.float32), SIZE)
    return Batch(logits, [group], np.full(N, -1), np.full(N, np.nan), [None] * N)


def expected(group: Group) -> Batch:
    batch = batch_of(group)
    NumpyBackend().run(batch)
    return batch


def test_the_rows_it_is_given_get_their_tokens_and_no_others(group: Group) -> None:
    batch, which = batch_of(group), np.array([1, 4])
    HostRun("far").run(batch, [members_of(group, which)], "declined")
    rows = group.index[which]
    np.testing.assert_array_equal(batch.token_ids[rows], expected(group).token_ids[rows])
    assert (np.delete(batch.token_ids, rows) == -1).all()


def test_a_chain_goes_on_from_the_step_that_it_has_come_to(group: Group) -> None:
    before, batch = batch_of(group), batch_of(group)
    before.groups = [members_of(group, np.arange(N))]
    before.groups[0].want_processed = True
    before.groups[0].plan = type(group.plan)(group.plan.samplers[:2], group.plan.selector)
    NumpyBackend().run(before)
    HostRun("far").resume(batch, group, 2, before.survivors, "unsupported")
    np.testing.assert_array_equal(batch.token_ids, expected(group).token_ids)


def test_observers_hear_of_a_step_once_for_each_reason(group: Group) -> None:
    host, batch = HostRun("far"), batch_of(group)
    with observed("rows_on_host") as seen:
        for members in ([0], [3, 5]):
            host.run(batch, [members_of(group, members)], "declined")
        host.run(batch, [group], None)
        host.run(batch, [group], "unsupported")
        assert not seen
        host.tell()
        host.tell()
    assert seen == [("far", 3, "declined"), ("far", N, "unsupported")]


def test_a_row_that_ends_with_an_error_is_not_counted(group: Group) -> None:
    host, batch = HostRun("far"), batch_of(group)
    logits = np.zeros((N, SIZE), np.float32)
    logits[2] = np.nan
    batch.logits = LogitRows(logits, SIZE)
    host.run(batch, [group], "declined")
    assert batch.errors[2]
    assert host.rows == {"declined": N - 1}
