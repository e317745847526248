"""Every method that a plugin may define is called by the kit of its contract."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from engine_sampler import contract
from engine_sampler.contract import (
    Backend,
    BoundedMatcher,
    Drafter,
    Matcher,
    Sampler,
    Selector,
    StoppingCriteria,
    TextCriteria,
    TextMatcher,
    Truncation,
)
from engine_sampler.registry import EVENTS
from engine_sampler.testing import failing_laws

from .wrong.right import (
    AtWord,
    BoundedSteps,
    Budget,
    Echo,
    Last,
    Near,
    Plain,
    Steps,
    Tokens,
    Toll,
    Word,
    kit_of,
)
from .wrong.row_functions import Counting


class BudgetOfItsOwn(Budget):
    """Ends an output when the sum of its token ids reaches `budget`, or 40 without parameters."""

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return {"most": params.get("budget", 40), "tokens": []}


TRIED: tuple[tuple[type, tuple[type, ...]], ...] = (
    (Sampler, (Toll, Counting)),
    (Truncation, (Near,)),
    (Selector, (Last,)),
    (StoppingCriteria, (BudgetOfItsOwn,)),
    (TextCriteria, (AtWord,)),
    (TextMatcher, (Word,)),
    (Matcher, (Steps,)),
    (BoundedMatcher, (BoundedSteps,)),
    (Backend, (Plain,)),
    (Drafter, (Echo,)),
)
"""What plugins subclass, and right plugins with which every method is tried."""

GIVEN = {
    *("BackendError", "Batch", "Chain", "ConstraintError", "DeferredBackend", "DraftedText", "Example"),
    "GrammarMeasures",
    *("Group", "LogprobsRequest", "LookAhead", "Param", "ParameterError", "PreparedMasks", "Rows"),
    "TokenLogprob",
    *("Selection", "SlotEntry", "SlotTable", "Stateful", "StepMeasures", "StopVerdict", "TextMatch"),
    *("TextState", "UnfinishedError", "Vocabulary", "Watch", "Work"),
}
"""What plugins are given, return or raise; `Stateful` is a part of the others."""

UNTRIED = {"AnswerParser", "BytewiseLanguage", "Compiled", "ConstraintReader", "NoTokenLeft"}
"""What readers of constraints subclass: no kit knows which constraints a reader takes; that of matchers tries
what they make. And the kind of an error, which is a text."""


def methods_of(base: type) -> set[str]:
    """The public methods and properties of a contract, without those of a contract that it extends."""
    above = {cls for other, _ in TRIED if other in base.__mro__[1:] for cls in other.__mro__}
    classes = [cls for cls in reversed(base.__mro__[:-1]) if cls not in above]
    own = {name: value for cls in classes for name, value in vars(cls).items()}
    kinds = (property, functools.cached_property)
    return {
        name
        for name, value in own.items()
        if (not name.startswith("_") or name == "__call__")
        and (callable(value) or isinstance(value, kinds))
        and not isinstance(value, type)
    }


def counted(plugin: type, names: set[str], called: set[str]) -> type:
    """A subclass of `plugin` that notes which of its methods are called."""

    def noting(name: str) -> Any:
        inherited = getattr(plugin, name, None)
        if isinstance(inherited, property):
            get: Any = inherited.fget
            return property(lambda self: called.add(name) or get(self))
        if not callable(inherited):
            called.add(name)
            return inherited

        @functools.wraps(inherited)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return inherited(self, *args, **kwargs)

        return method

    body = {name: noting(name) for name in names if hasattr(plugin, name)}
    return type(plugin.__name__, (plugin,), {**body, "__doc__": plugin.__doc__, "__module__": __name__})


def calls(base: type, plugin: type) -> Iterator[str]:
    """The methods of `base` that the kit of `plugin` calls."""
    called: set[str] = set()
    optional = {"prepare"} - set(vars(plugin))  # who defines it must count work
    made = counted(plugin, methods_of(base) - optional, called)
    if base is TextMatcher:
        made = type("AtCounted", (AtWord,), {"kind": made, "__doc__": "Ends at a word."})
    attributes: dict[str, Any] = {"sequences": 1, "vocab_sizes": (17,), "largest": 64, "chains": 2}
    if base is StoppingCriteria:
        attributes["called"] = made()
    broken = failing_laws(kit_of(made, **attributes))
    assert set(broken) <= {"test_examples_hold"}, broken
    yield from called


@pytest.mark.parametrize(("base", "plugins"), TRIED, ids=lambda value: getattr(value, "__name__", ""))
def test_every_method_of_a_contract_is_tried(base: type, plugins: tuple[type, ...]) -> None:
    # A criterion sees its tokens in `check`, and no `accept`.
    called = {name for plugin in plugins for name in calls(base, plugin)}
    assert methods_of(base) - called == ({"accept"} if base is StoppingCriteria else set())


def test_every_event_is_shown_to_an_observer() -> None:
    shown: set[str] = set()
    methods = {event: lambda self, *values, event=event: shown.add(event) for event in EVENTS}
    assert failing_laws(kit_of(type("All", (Tokens,), methods))) == {}
    assert shown == set(EVENTS)


def test_every_class_of_the_contracts_is_sorted() -> None:
    classes = {name for name in contract.__all__ if isinstance(getattr(contract, name), type)}
    assert classes == GIVEN | UNTRIED | {base.__name__ for base, _ in TRIED}
