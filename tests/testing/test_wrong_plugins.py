"""The kits find every wrong plugin of the collection, by the law that it breaks, and pass the right ones.

A quick run tries every fourth of them, the other laws of the kit on a few, and some of the right ones, which
`test_methods` tries too; ENGINE_SAMPLER_TEST_ROUNDS=2 tries everything on all.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Any
from zlib import crc32

import pytest

from engine_sampler.testing import failing_laws
from engine_sampler.testing.laws import problem_with

from . import wrong
from .wrong.collection import ANY, COLLECTION, Wrong
from .wrong.right import ATTRIBUTES, kit_of
from .wrong.row_functions import Counting, FlipInC

for module in pkgutil.iter_modules(wrong.__path__):
    importlib.import_module(f"{wrong.__name__}.{module.name}")


THOROUGH = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) > 1
SPECIFIC = [name for name, case in sorted(COLLECTION.items()) if f"test_{ANY}" not in case.also]
"""The plugins that break no laws but those which they name."""


SMALL: dict[str, Any] = {} if THOROUGH else {"sequences": 1, "largest": 300}

GENERAL = {
    "test_requests_beside_others_do_as_alone",
    "test_random_steps_are_those_of_the_reference",
    "test_surroundings_do_not_matter",
}
"""Laws that may find any mistake: they compare everything with a model, or carry it to another process."""


def kit_for(case: Wrong, **more: Any) -> type:
    attributes: dict[str, Any] = {**more, **case.kit}
    if attributes.pop("called", False):
        attributes["called"] = case.plugin()
    return kit_of(case.plugin, **attributes)


def tried() -> list[str]:
    """All of them, or every fourth, whatever others are added."""
    return [name for name in sorted(COLLECTION) if THOROUGH or not crc32(name.encode()) % 4]


@pytest.mark.parametrize("name", tried())
def test_a_wrong_plugin_is_found_by_the_law_that_it_breaks(name: str) -> None:
    case = COLLECTION[name]
    problem = problem_with(kit_for(case), case.law)
    assert problem is not None, "nothing found"
    assert problem, "the failure says nothing"
    assert case.says in problem


@pytest.mark.parametrize("name", SPECIFIC[:: 1 if THOROUGH else 32])
def test_a_wrong_plugin_breaks_no_other_law(name: str) -> None:
    case = COLLECTION[name]
    assert set(failing_laws(kit_for(case, **SMALL))) - GENERAL <= {case.law, *case.also}


RIGHT = [*ATTRIBUTES, FlipInC]


@pytest.mark.parametrize("plugin", RIGHT[:: 1 if THOROUGH else 4], ids=lambda plugin: plugin.__name__)
def test_a_right_plugin_breaks_no_law(plugin: type) -> None:
    assert failing_laws(kit_of(plugin, **SMALL)) == {}


def test_a_right_row_function_with_a_state_breaks_no_law_but_has_no_example() -> None:
    assert set(failing_laws(kit_of(Counting, **SMALL))) == {"test_examples_hold"}


def test_the_collection_is_large_and_covers_the_laws() -> None:
    assert len(COLLECTION) >= 200
    kits = {kit_of(case.plugin).__bases__[0] for case in COLLECTION.values()}
    laws = {law for kit in kits for law in dir(kit) if law.startswith("test_")}
    assert laws - {case.law for case in COLLECTION.values()} == NOT_ALONE


NOT_ALONE = {
    # Needs torch.
    "test_tensors_get_tensors",
}
"""Laws that no plugin of the collection is named for."""
