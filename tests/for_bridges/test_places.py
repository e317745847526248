"""The places of an engine at which a bridge puts objects of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

import pytest

from engine_sampler.for_bridges import PeerError, PeerPlaces, overriding


class Engine:
    name = "own"

    def draw(self, logits: Any, rows: Any) -> str:
        return f"{self.name}: {logits} {rows}"


@pytest.fixture
def places() -> PeerPlaces:
    return PeerPlaces("the engine", "a-bridge")


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
    with pytest.raises(
        PeerError, match=rf"^a-bridge cannot be used beside the engine: other signatures of {name}"
    ):
        places.check([(Engine, expected)])


def test_a_module_that_is_not_there_is_named(places: PeerPlaces) -> None:
    assert places.module("json.decoder").__name__ == "json.decoder"
    with pytest.raises(PeerError, match=r"beside the engine: No module named 'json\.lost'"):
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


def test_what_is_replaced_stays_until_it_is_put_back(places: PeerPlaces) -> None:
    own = Engine.name
    for name in ("mine", "another"):
        places.replace(Engine, "name", name)
    assert Engine.name == "mine"
    places.put_back()
    assert Engine.name == own


def test_a_function_that_is_followed_keeps_its_signature(places: PeerPlaces) -> None:
    places.follow(Engine, "draw", lambda *arguments: None)
    places.check([(SimpleNamespace(Engine=Engine), {"Engine.draw": "self logits rows"})])
    places.put_back()


class Abstract(ABC):
    @abstractmethod
    def draw(self, logits: Any) -> Any: ...

    @abstractmethod
    def reset(self) -> None: ...

    def other(self) -> str:
        return "own"


class Mine(Abstract):
    def draw(self, logits: Any) -> Any:
        return logits

    def reset(self) -> None:
        pass

    def other(self, more: int = 0) -> str:
        return "mine"


def test_what_overrides_must_have_the_signature_of_what_it_overrides(places: PeerPlaces) -> None:
    abstract = overriding(Mine, "Abstract")
    assert abstract == {"Abstract.draw": "self logits", "Abstract.reset": "self"}
    places.check([(__name__, abstract)])
    with pytest.raises(PeerError, match=r"Abstract\.other"):
        places.check([(__name__, overriding(Mine, "Abstract", "draw other"))])
