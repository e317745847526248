"""The objects that a plugin may register, and the errors for others, which leave no trace."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import (
    Backend,
    Param,
    Sampler,
    Selection,
    Selector,
    StoppingCriteria,
    Truncation,
    hookimpl,
)
from engine_sampler.params import SamplingParams
from engine_sampler.registry import CORE_PARAMS, PluginError, Registry, default_registry, loading
from engine_sampler.registry.catalogue import RESERVED


class Shift(Sampler):
    """Add a number to every logit."""

    name = "shift"
    params = (Param("shift", float, neutral=0.0, low=-10, high=10),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        logits += rows["shift"].astype(np.float32)[:, None]


class First(Selector):
    """Choose the first column."""

    name = "first"
    params = (Param("first", bool, neutral=False),)

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        return Selection(np.zeros(len(logits), np.int64))


class Never(StoppingCriteria):
    """Never stop."""

    name = "never"

    def check(self, state: Any, token_ids: Any, text: str) -> None:
        return None


class Slow(Backend):
    """Runs nothing."""

    name = "slow"

    def run(self, batch: Any) -> None:
        pass


class Listener:
    """Observes finished requests."""

    def request_finished(self, record: Any) -> None:
        pass


class Plugin:
    """Registers objects with the hook of their kind."""

    def __init__(self, *samplers: Any, **others: Any) -> None:
        self.samplers, self.others = samplers, others

    @hookimpl
    def register_samplers(self, register: Callable[[Any], None]) -> None:
        for sampler in self.samplers:
            register(sampler)

    @hookimpl
    def register_stopping_criteria(self, register: Callable[[Any], None]) -> None:
        for criterion in self.others.get("criteria", ()):
            register(criterion)

    @hookimpl
    def register_backends(self, register: Callable[[Any], None]) -> None:
        for backend in self.others.get("backends", ()):
            register(backend)

    @hookimpl
    def register_grammars(self, register: Callable[[str, Any], None]) -> None:
        for name, grammar in self.others.get("grammars", {}).items():
            register(name, grammar)

    @hookimpl
    def register_drafters(self, register: Callable[[Any], None]) -> None:
        for drafter in self.others.get("drafters", ()):
            register(drafter)

    @hookimpl
    def register_observers(self, register: Callable[[Any], None]) -> None:
        for observer in self.others.get("observers", ()):
            register(observer)


@pytest.fixture
def registry() -> Registry:
    """The built-ins alone, apart from the registry of this process."""
    return Registry(CORE_PARAMS)


def variant(base: type, **attributes: Any) -> Any:
    """An object of a subclass of `base` with some attributes replaced."""
    return type("Variant", (base,), attributes)()


def test_built_ins_come_through_the_hooks_and_are_listed(registry: Registry) -> None:
    assert [(p.name, p.state) for p in registry.plugins] == [
        ("engine_sampler.samplers", "loaded"),
        ("engine_sampler.stopping", "loaded"),
        ("engine_sampler.drafters", "loaded"),
        ("engine_sampler.backends", "loaded"),
        ("engine_sampler.grammar.plugin", "loaded"),
    ]
    assert "samplers/min_p" in registry.plugins[0].provides
    assert registry.catalogue.origins["params/min_p"] == registry.plugins[0].origin


def test_one_plugin_may_register_objects_of_every_kind(registry: Registry) -> None:
    plugin = Plugin(
        Shift(),
        First(),
        criteria=[Never()],
        backends=[Slow()],
        grammars={"g": "text"},
        observers=[Listener()],
    )
    status = registry.register(plugin, "everything")
    assert status.state == "loaded"
    assert status.provides == (
        "samplers/shift",
        "selectors/first",
        "stopping_criteria/never",
        "backends/slow",
        "grammars/g",
        "observers/Listener",
    )
    assert registry.plugins[-1] is status
    assert registry.catalogue.params["shift"].high == 10


def test_a_separate_registry_does_not_affect_that_of_the_process(registry: Registry) -> None:
    registry.register(Plugin(Shift()))
    assert "shift" not in default_registry().catalogue.samplers


def test_a_catalogue_that_was_read_before_is_unchanged(registry: Registry) -> None:
    before = registry.catalogue
    registry.register(Plugin(Shift()))
    assert "shift" not in before.samplers
    assert "shift" in registry.catalogue.samplers


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (
            Plugin(Shift),
            "Shift'> is registered but is not a Sampler or Selector object: register Shift(), not the class",
        ),
        (Plugin(grammars={"ab": None}), "register('ab') is not allowed: register(name, grammar)"),
        (Plugin(Never()), "is registered but is not a Sampler or Selector object"),
        (Plugin(criteria=[Shift()]), "is registered but is not a StoppingCriteria object"),
        (Plugin(backends=["slow"]), "'slow' is registered but is not a Backend object"),
        (
            Plugin(observers=[object()]),
            "is not an observer: it has none of request_added, first_token, request_s",
        ),
        (Plugin(grammars={"a b": ""}), "a grammar has name='a b'; it must be an identifier"),
        (Plugin(variant(Shift, api=2)), "Variant has api=2; this version takes 1"),
        (Plugin(variant(Sampler)), "Variant has name=None; it must be an identifier"),
        (Plugin(variant(Shift, name="my shift")), "Variant has name='my shift'; it must be an identifier"),
        (Plugin(variant(Sampler, name="shift")), "Variant has no method apply"),
        (Plugin(variant(Truncation, name="shift")), "Variant has no method keep"),
        (Plugin(variant(Selector, name="first")), "Variant has no method select"),
        (Plugin(criteria=[variant(StoppingCriteria, name="never")]), "Variant has no method check"),
        (Plugin(backends=[variant(Backend, name="slow")]), "Variant has no method run"),
        (Plugin(variant(Shift, role="mask")), "Variant has role='mask'; allowed are edit, penalty, warp"),
        (
            Plugin(variant(Shift, cost=3)),
            "Variant has cost=3; allowed are pass, select, sort, history, bytes",
        ),
        (
            Plugin(variant(Shift, takes_grammar=True)),
            "Variant has takes_grammar and role='warp'; allowed is edit",
        ),
        (
            Plugin(variant(Shift, params=("shift",))),
            "Variant has 'shift' among its params, which is not a Param",
        ),
        (
            Plugin(variant(Shift, params=(Param("a-b", float, 0.0),))),
            "a parameter of Variant has name='a-b'; it must be an identifier",
        ),
        *(
            (
                Plugin(variant(Shift, params=(Param(name, float, 0.0),))),
                f"Variant has a parameter named '{name}', which SamplingParams cannot have",
            )
            for name in ("self", "replace", "items", "given", "parameters", "class", "_given", "__dir__")
        ),
        (
            Plugin(variant(Shift, params=(Param("shift", float, 11.0, high=10),))),
            "neutral value of Variant is refused: shift=11.0 is not allowed: a finite number of at most 10",
        ),
        (
            Plugin(variant(Shift, params=(Param("shift", object, [], convert=tuple),))),
            r"shift: the neutral value [] is not in normal form",
        ),
        (Plugin(Shift(), Shift()), "samplers/shift is declared by both this process and this process"),
        (Plugin(variant(Shift, name="dist")), "samplers/dist is declared by both engine-sampler"),
        (Plugin(variant(First, name="top_k")), "selectors/top_k is declared by both engine-sampler"),
        (
            Plugin(variant(Shift, params=(Param("seed", int, 0),))),
            "params/seed is declared by both engine-sampler",
        ),
        (Plugin(variant(Shift, is_active=lambda self, params: True)), "shift is on at neutral parameters"),
        (Plugin(variant(First, is_active=lambda self, params: True)), "first is on at neutral parameters"),
        (Plugin(variant(Shift, check=lambda self, params: 1 / 0)), "ZeroDivisionError: division by zero"),
        (
            Plugin(variant(Shift, after="nosuch")),
            "shift has after='nosuch', which no plugin registers",
        ),
        (Plugin(variant(Shift, after="min_q")), "which no plugin registers; did you mean 'min_p'"),
        (
            Plugin(variant(Shift, after="logit_bias")),
            "shift has after='logit_bias', an edit: edits come before all others",
        ),
        (
            Plugin(variant(Shift, role="edit", after="min_p")),
            "shift has role='edit' and after='min_p': edits come before all others",
        ),
        (
            Plugin(variant(Shift, instead_of="nosuch")),
            "shift has instead_of='nosuch', which no plugin registers",
        ),
        (
            Plugin(variant(Shift, instead_of="penalties")),
            "shift has role='warp' and instead_of='penalties': both must be penalties",
        ),
        (Plugin(variant(Shift, after="shift")), "shift → shift: samplers follow each other by `after`"),
        (
            Plugin(
                variant(Shift, after="slide"),
                variant(Shift, name="slide", params=(Param("slide", float, 0.0),), after="shift"),
            ),
            "shift → slide → shift: samplers follow each other",
        ),
        (SimpleNamespace(register_samplers=print), "implements no hook"),
        ("engine_sampler", "'engine_sampler' implements no hook"),
    ],
)
def test_wrong_objects_are_refused_with_the_reason_and_leave_no_trace(
    registry: Registry, plugin: Any, reason: str
) -> None:
    before, listed = registry.catalogue, list(registry.plugins)
    with pytest.raises(PluginError) as raised:
        registry.register(plugin)
    assert reason in str(raised.value)
    assert registry.catalogue is before
    assert registry.plugins == listed


def test_a_misspelt_hook_is_refused(registry: Registry) -> None:
    class Misspelt:
        @hookimpl
        def register_sampler(self, register: Any) -> None:
            register(Shift())

    with pytest.raises(
        PluginError, match=r"unknown hook 'register_sampler'.*; hooks are register_samplers, "
    ):
        registry.register(Misspelt())


def test_a_hook_with_a_misspelt_argument_is_refused(registry: Registry) -> None:
    class Misspelt:
        @hookimpl
        def register_samplers(self, registrar: Any) -> None:
            registrar(Shift())

    with pytest.raises(PluginError, match="registrar"):
        registry.register(Misspelt())


def test_a_second_plugin_with_the_same_objects_is_refused_and_the_first_stays(registry: Registry) -> None:
    first = Shift()
    registry.register(Plugin(first), "one")
    with pytest.raises(PluginError, match=r"plugin two .*: samplers/shift is declared by both"):
        registry.register(Plugin(Shift()), "two")
    assert registry.catalogue.samplers["shift"] is first


def test_the_name_of_a_refused_plugin_is_free_for_another(registry: Registry) -> None:
    with pytest.raises(PluginError):
        registry.register(Plugin(variant(Shift, api=2)), "one")
    assert registry.register(Plugin(Shift()), "one").state == "loaded"


def test_a_good_object_is_not_accepted_together_with_a_bad_one(registry: Registry) -> None:
    with pytest.raises(PluginError):
        registry.register(Plugin(Shift(), variant(First, api=2)))
    assert "shift" not in registry.catalogue.samplers
    assert "shift" not in registry.catalogue.params


def test_an_interrupt_while_loading_is_not_mistaken_for_a_broken_plugin(registry: Registry) -> None:
    class Interrupted:
        @hookimpl
        def register_samplers(self, register: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry.register(Interrupted())


def test_the_registry_of_the_process_is_created_once() -> None:
    assert default_registry() is default_registry()


def test_a_failed_start_is_retried(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("engine_sampler.registry.loading._default", None)
    monkeypatch.setattr("engine_sampler.registry.loading._loaded", None)
    monkeypatch.setenv("ENGINE_SAMPLER_PLUGINS", "nobody_provides_this")
    monkeypatch.setenv("ENGINE_SAMPLER_STRICT", "1")
    for _ in range(2):
        with pytest.raises(PluginError, match="nobody_provides_this"):
            default_registry()
    monkeypatch.setenv("ENGINE_SAMPLER_STRICT", "0")
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        assert default_registry().plugins[-1].state == "failed"
    assert "plugin nobody_provides_this (not installed) is not used" in caplog.text


def test_every_attribute_of_the_settings_of_a_request_is_reserved() -> None:
    attributes = {name for name in vars(SamplingParams) if not name.startswith("_")}
    assert attributes <= RESERVED


def test_once_it_is_loaded_the_registry_needs_no_lock() -> None:
    """An exception from outside may leave a lock held for ever: other threads go on all the same."""
    assert default_registry() is not None
    found: list[Registry] = []
    with loading._loading:
        other = threading.Thread(target=lambda: found.append(default_registry()), daemon=True)
        other.start()
        other.join(20)
    assert found == [default_registry()]
