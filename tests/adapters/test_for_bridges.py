"""What bridges into engines share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RowSampler
from engine_sampler.adapters.for_bridges import PeerError, PeerPlaces, parameters_among, tokens_beside


class Engine:
    name = "own"

    def draw(self, logits: Any, rows: Any) -> str:
        return f"{self.name}: {logits} {rows}"


@pytest.fixture
def places() -> PeerPlaces:
    return PeerPlaces("the engine")


def test_places_that_look_as_expected_are_accepted(places: PeerPlaces) -> None:
    places.check([(SimpleNamespace(Engine=Engine), {"Engine.draw": "self logits rows", "Engine.name": ""})])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("draw", "self logits"),
        ("draw", "self rows logits"),
        ("lost", "self"),
        ("lost.more", ""),
        ("name.x", ""),
    ],
)
def test_what_has_changed_is_named(places: PeerPlaces, name: str, parameters: str) -> None:
    expected = {"draw": "self logits rows"} | {name: parameters}
    with pytest.raises(PeerError, match=rf"^the engine has changed, and keeps what it has: {name}$"):
        places.check([(Engine, expected)])


def test_a_module_that_is_not_there_is_named(places: PeerPlaces) -> None:
    assert places.module("json.decoder").__name__ == "json.decoder"
    with pytest.raises(PeerError, match=r"keeps what it has: json\.lost: No module named 'json\.lost'"):
        places.module("json.lost")


def test_what_was_replaced_comes_back(places: PeerPlaces) -> None:
    before = vars(Engine).copy()
    places.replace(Engine, "name", "mine")
    places.replace(Engine, "draw", lambda self, logits: "nothing")
    assert Engine().draw(1) == "nothing"  # type: ignore[call-arg]
    assert places.is_replaced(Engine, "name")
    places.put_back()
    assert dict(vars(Engine)) == dict(before)
    assert not places.is_replaced(Engine, "name")


def test_a_method_is_followed_with_its_result_and_its_arguments(places: PeerPlaces) -> None:
    calls: list[Any] = []
    engine = Engine()
    places.follow(Engine, "draw", lambda *arguments, **keywords: calls.append((arguments, keywords)))
    assert engine.draw(1, rows=2) == "own: 1 2"
    assert calls == [(("own: 1 2", engine, 1), {"rows": 2})]
    places.put_back()
    engine.draw(3, 4)
    assert len(calls) == 1


REQUEST = SimpleNamespace(top_p=0.9)


def among(extra: dict[str, Any]) -> dict[str, Any]:
    return parameters_among(extra, REQUEST, "The engine", "extra", others=["seed"])


def test_parameters_among_those_of_others_are_found() -> None:
    assert among({"min_p": 0.1, "target_token": 3, "top_k": None}) == {"min_p": 0.1}


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"top_p": 0.5}, "top_p is not allowed in extra: The engine has it itself, outside"),
        ({"seed": 5}, "seed is not allowed in extra"),
        ({"min_p": 2.0}, "min_p=2.0 is not allowed"),
        ({"n": 100_000}, "n=100000"),
    ],
)
def test_parameters_that_are_not_allowed_are_refused(extra: dict[str, Any], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        among(extra)


def test_tokens_of_rows_without_faults_are_those_that_were_drawn() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (3, 9)).astype(np.float32)
    drawn = RowSampler(9).step(logits, [*"abc"], {"temperature": [0.0] * 3})
    assert tokens_beside(drawn, logits).tolist() == logits.argmax(1).tolist()


def test_a_faulty_row_gets_the_likeliest_token_that_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor([[0.0, 1.0, 2.0], [float("nan"), 5.0, 4.0], [1.0, 2.0, 3.0], [9.0, 1.0, 1.0]])
    columns = {"temperature": [0.0] * 3}
    drawn = RowSampler(3).step(logits, [*"abc"], columns, draft_token_ids=[[], [], [0]])
    assert tokens_beside(drawn, logits).tolist() == [2, 1, 2, -1]
