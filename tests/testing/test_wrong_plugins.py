"""The kits find every wrong plugin of the collection, by the law that it breaks, and pass the right ones."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from engine_sampler.testing import failing_laws

from . import wrong
from .wrong.collection import ANY, COLLECTION, Wrong
from .wrong.right import ATTRIBUTES, kit_of
from .wrong.row_functions import Counting, FlipInC

for module in pkgutil.iter_modules(wrong.__path__):
    importlib.import_module(f"{wrong.__name__}.{module.name}")


def laws_broken_by(case: Wrong) -> dict[str, str]:
    attributes: dict[str, Any] = dict(case.kit)
    if attributes.pop("called", False):
        attributes["called"] = case.plugin()
    return failing_laws(kit_of(case.plugin, **attributes))


@pytest.mark.parametrize("name", COLLECTION)
def test_a_wrong_plugin_is_found_by_the_law_that_it_breaks(name: str) -> None:
    case = COLLECTION[name]
    broken = laws_broken_by(case)
    assert case.law in broken, f"nothing found but {sorted(broken)}"
    assert broken[case.law], "the failure says nothing"
    assert case.says in broken[case.law]
    if f"test_{ANY}" not in case.also:
        assert set(broken) <= {case.law, *case.also}


@pytest.mark.parametrize("plugin", [*ATTRIBUTES, FlipInC], ids=lambda plugin: plugin.__name__)
def test_a_right_plugin_breaks_no_law(plugin: type) -> None:
    assert failing_laws(kit_of(plugin)) == {}


def test_a_right_row_function_with_a_state_breaks_no_law_but_has_no_example() -> None:
    assert set(failing_laws(kit_of(Counting))) == {"test_examples_hold"}


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
