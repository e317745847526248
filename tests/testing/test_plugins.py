"""`check_plugin` runs the kit that fits, with what an installed plugin declares."""

from __future__ import annotations

import time
from typing import Any

import pytest

from engine_sampler.base.packaged import grammar_names
from engine_sampler.cli.main import main
from engine_sampler.registry import CORE_PARAMS, PluginStatus, Registry
from engine_sampler.testing.plugins import KINDS, Search, check_plugin

from ..conftest import ROUNDS
from ..registry.test_loading import Plugin
from .briefly import broken_by, searched_briefly
from .wrong.backends import ScoresNaN
from .wrong.drafters import UndoesNothing
from .wrong.grammars import AllowsEmptyTokens
from .wrong.observers import TakesTheTokens
from .wrong.right import Automaton, Balanced, Budget, Echo, Last, Near, Plain, Tokens
from .wrong.truncations import Resurrects

MASKS, NEUTRAL = "the_mask_is_what_accept_takes", "neutral_values_change_nothing"


class SmallBudget(Budget):
    """Ends an output when the sum of its token ids reaches `budget`."""

    examples = ({"budget": 60},)


class Reclusive(Plain):
    """Cannot be used here."""

    name = "reclusive"
    reason = "there is no such device"


def registry_with(*samplers: Any, **others: Any) -> Registry:
    """A registry with one plugin, "mine"."""
    registry = Registry(CORE_PARAMS)
    registry.register(Plugin(*samplers, **others), "mine")
    return registry


def outcomes(name: str, registry: Registry, *only: str) -> dict[str, dict[str, str]]:
    """The outcome of every law, by object."""
    found = check_plugin(name, registry, Search(only))
    return {one.name: {result.name: result.outcome for result in one.results} for one in found}


def test_a_sampler_is_checked_with_the_parameters_of_its_examples() -> None:
    found = outcomes("near", registry_with(Near()))["near"]
    assert set(found.values()) == {"passed"}


def test_a_sampler_may_be_without_a_neutral_value_in_apply() -> None:
    registry = Registry(CORE_PARAMS)
    assert outcomes("tfs", registry, NEUTRAL) == {"tfs": {NEUTRAL: "passed"}}
    assert outcomes("top_k", registry, NEUTRAL) == {"top_k": {NEUTRAL: "not promised"}}


def test_a_wrong_sampler_fails_by_the_name_of_the_law() -> None:
    [checked] = check_plugin("near", registry_with(Resurrects()), Search(["removed_tokens_stay_removed"]))
    [result] = checked.results
    assert (result.name, result.outcome) == ("removed_tokens_stay_removed", "failed")
    assert "is back" in result.detail


@pytest.mark.parametrize(
    ("name", "others", "law", "outcome"),
    [
        ("last", {}, "a_surviving_token_is_chosen", "passed"),
        ("budget", {"criteria": [SmallBudget()]}, "drafts_change_nothing", "passed"),
        ("budget", {"criteria": [Budget()]}, "drafts_change_nothing", "failed"),  # it has no examples
        ("plain", {"backends": [Plain()]}, "the_declaration_is_sound", "passed"),
        ("plain", {"backends": [ScoresNaN()]}, "the_declaration_is_sound", "failed"),
        ("words", {"grammars": {"words": Automaton()}}, MASKS, "passed"),
        ("words", {"grammars": {"words": AllowsEmptyTokens()}}, "tokens_without_text_are_masked", "failed"),
        ("echo", {"drafters": [Echo()]}, "rollback_undoes_accept", "passed"),
        ("echo", {"drafters": [UndoesNothing()]}, "rollback_undoes_accept", "failed"),
        ("Tokens", {"observers": [Tokens()]}, "no_event_makes_it_fail", "passed"),
        ("TakesTheTokens", {"observers": [TakesTheTokens()]}, "what_it_is_shown_is_only_read", "failed"),
    ],
)
def test_every_kind_has_its_kit(name: str, others: dict[str, Any], law: str, outcome: str) -> None:
    registry = registry_with(*([Last()] if name == "last" else []), **others)
    assert outcomes(name, registry, law) == {name: {law: outcome}}


def test_the_texts_of_a_grammar_are_found_by_chance() -> None:
    law = "whole_texts_are_accepted_in_any_tokens"
    registry = registry_with(
        grammars={"words": "start: /[a-c]{2,4}/", "never": 'start: "a" start | "b" | "c" start'}
    )
    assert outcomes("words", registry, law) == {"words": {law: "passed"}}
    other = "other_texts_are_refused"
    assert outcomes("words", registry, other) == {"words": {other: "not promised"}}


def test_the_name_of_a_plugin_stands_for_all_that_it_registers() -> None:
    registry = registry_with(Near(), Last(), observers=[Tokens()])
    assert list(outcomes("mine", registry, "examples_hold")) == ["Tokens", "near", "last"]


def test_built_in_parts_and_grammars_can_be_checked_too() -> None:
    registry = Registry(CORE_PARAMS)
    for name, law in (
        ("infill", "removed_tokens_stay_removed"),
        ("logit_bias", "a_token_is_left"),
        ("stop", "some_outputs_end_by_it"),
        ("numpy", "supports_gives_a_bool_and_the_same_one_again"),
        ("csv", "it_can_be_registered"),
    ):
        assert outcomes(name, registry, law) == {name: {law: "passed"}}


BUILT_IN = Registry(CORE_PARAMS).catalogue
PARTS = [own for kind in KINDS for own in getattr(BUILT_IN, kind)] + list(grammar_names())
TRIED = PARTS[:: 1 if ROUNDS > 1 else 4]
"""All of them, in a quick run every fourth: their own tests try each."""


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("name", TRIED)
def test_every_built_in_part_keeps_the_laws_however_long_they_are_tried(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched_briefly(monkeypatch)
    assert broken_by(name, Registry(CORE_PARAMS)) == {}


ENDS = "some_outputs_end_by_it"


@pytest.mark.parametrize("name", BUILT_IN.stopping_criteria)
def test_a_criterion_that_is_called_on_no_arrays_passes_with_seconds_too(name: str) -> None:
    arguments = ["check", name, "--seconds", "0.02", "--only", "rows_are_answered_one_by_one"]
    assert main([*arguments, "--only", "tensors_get_tensors"]) == 0


def test_that_a_criterion_ends_no_random_output_is_not_promised_unless_it_names_texts() -> None:
    late = type("Late", (SmallBudget,), {"examples": ({"budget": 10**9},), "__doc__": "Ends late."})
    never = type("Never", (late,), {"texts": ("abc",), "__doc__": "Ends late, it says by abc."})
    for budget, outcome in ((SmallBudget(), "passed"), (late(), "not promised"), (never(), "failed")):
        [checked] = check_plugin("budget", registry_with(criteria=[budget]), Search([ENDS]))
        [result] = checked.results
        assert result.outcome == outcome
        assert (result.detail == "") == (outcome == "passed")


def test_a_criterion_that_balances_brackets_passes_every_law() -> None:
    found = outcomes("balanced", registry_with(criteria=[Balanced()]))["balanced"]
    assert set(found.values()) == {"passed"}
    without = type("Without", (Balanced,), {"texts": (), "__doc__": "Names no texts."})
    found = outcomes("balanced", registry_with(criteria=[without()]), ENDS)["balanced"]
    assert found[ENDS] in ("passed", "not promised")


def test_a_library_has_checks_of_its_own() -> None:
    registry = Registry(CORE_PARAMS)
    if registry.catalogue.backends["native"].reason:
        pytest.skip("there are no C kernels")
    assert outcomes("native", registry, "rows") == {"native": {"rows": "passed"}}


def test_a_backend_that_cannot_be_used_here_says_why() -> None:
    [checked] = check_plugin("reclusive", registry_with(backends=[Reclusive()]), Search())
    [result] = checked.results
    assert (result.outcome, result.detail) == ("not promised", "there is no such device")


def test_a_plugin_that_failed_to_load_fails_with_the_reason() -> None:
    registry = Registry(CORE_PARAMS)
    registry.plugins.append(PluginStatus("broken", "some-broken", "1.0", "failed", "ImportError: no"))
    for name in ("broken", "some-broken"):
        assert outcomes(name, registry) == {"broken": {"loads": "failed"}}


@pytest.mark.parametrize(
    ("name", "search", "reason"),
    [
        ("neer", Search(), "is called 'neer', nor is it a file; did you mean 'near'"),
        ("near", Search(["nosuch"]), "--only nosuch is not allowed: one of a_fork_is_independent,"),
    ],
)
def test_what_cannot_be_checked_is_an_error(name: str, search: Search, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_plugin(name, registry_with(Near()), search)


def test_a_kit_goes_on_for_the_seconds_that_it_is_given() -> None:
    search = Search(["removed_tokens_stay_removed"], seconds=0.3, seed=7)
    before = time.process_time()
    [checked] = check_plugin("near", registry_with(Near()), search)
    assert [result.outcome for result in checked.results] == ["passed"]
    assert time.process_time() - before >= 0.3
