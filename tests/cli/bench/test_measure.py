"""What `engine-sampler bench` times, and the table that it makes of that."""

from __future__ import annotations

import pytest

from engine_sampler.cli.bench import Measurement, machine, markdown, measure
from engine_sampler.cli.bench.cases import CASES, CHAIN, LEAST_ROUNDS, PASS, count_of, medians, spelled
from engine_sampler.cli.bench.peers import PEERS, installed
from engine_sampler.cli.bench.rows import batch


def test_every_case_is_timed_with_one_row_and_with_all() -> None:
    measured = list(measure(512, 2, 0.0))
    assert len(measured) == count_of(2)
    for rows in (1, 2):
        names = [measurement.name for measurement in measured if measurement.rows == rows]
        assert names[:2] == [PASS, CHAIN]
        assert set(CASES) < set(names)
    assert all(measurement.seconds > 0 for measurement in measured)
    assert all(m.passes is not None and m.passes > 0 for m in measured if m.name in CASES)


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_draws_a_token_for_each_row(name: str) -> None:
    pytest.importorskip(PEERS[name][0])
    peer = dict(installed())[name](batch(600, 3), CASES[CHAIN])
    assert len(peer()) == 3


def test_calls_take_turns() -> None:
    order: list[str] = []
    found = medians({name: lambda name=name: order.append(name) for name in "ab"}, 0.0)
    assert order == ["a", "b"] * (LEAST_ROUNDS + 1)
    assert found.keys() == {"a", "b"}


@pytest.mark.parametrize("size", [300, 2000])
def test_the_vocabulary_has_every_byte_and_no_token_twice(size: int) -> None:
    tokenizer = spelled(size)
    tokens = tokenizer.token_bytes
    assert len(set(tokens)) == len(tokens) == size
    assert {bytes([byte]) for byte in range(256)} <= set(tokens)
    assert list(tokenizer.eos_token_ids) == [size - 1]


def test_the_table_has_a_row_for_each_name_and_two_columns_for_each_number_of_rows() -> None:
    found = [
        Measurement("ours", 1, 12e-6, passes=1.5),
        Measurement("theirs", 1, 1.2e-3, ratio=100.0),
        Measurement("ours", 64, 3.21e-3, passes=2.0),
    ]
    assert list(markdown(found, 131_072)) == [
        "| one step, 131,072 tokens | 1 row, µs | passes | 64 rows, µs | passes |",
        "|---|---:|---:|---:|---:|",
        "| ours | 12.0 | 1.50 | 3,210 | 2.00 |",
        "| theirs | 1,200 | 100 × our chain |  |  |",
    ]


def test_the_machine_is_one_line_with_the_backend_and_the_versions() -> None:
    line = machine()
    assert "\n" not in line
    for part in ("backend ", "engine-sampler ", "Python ", "numpy "):
        assert part in line
