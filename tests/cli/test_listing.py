"""The listing of registered objects as plain data."""

from __future__ import annotations

import json
import os

import pytest

from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.library.header import described, number
from engine_sampler.base.environment import VARIABLES
from engine_sampler.base.packaged import library_path
from engine_sampler.cli.listing import inventory, summary_of
from engine_sampler.cli.sections import state_of
from engine_sampler.contract import Backend, Sampler, hookimpl
from engine_sampler.grammar import Grammar
from engine_sampler.registry import CORE_PARAMS, PluginStatus, Registry

from ..backends.library.building import toy, variant


class RobustZ(Sampler):
    """Tilt the row by its
    token ids. Source: none."""

    name = "robust_z"

    def apply(self, logits, rows):
        pass


class Abacus(Backend):
    """Beads."""

    name = "abacus"
    exact = False

    def __init__(self, score):
        self._score = score

    def score(self, device):
        if isinstance(self._score, Exception):
            raise self._score
        return self._score

    def run(self, batch):
        pass


class Plugin:
    __name__ = "toys"

    def __init__(self, score=1.0):
        self._score = score

    @hookimpl
    def register_samplers(self, register):
        register(RobustZ())

    @hookimpl
    def register_backends(self, register):
        register(Abacus(self._score))


@pytest.fixture
def registry() -> Registry:
    return Registry(CORE_PARAMS)


def entry(registry: Registry, kind: str, name: str) -> dict:
    return next(e for e in inventory(registry)[kind] if e["name"] == name)


def test_built_in_objects_are_listed_with_the_version_of_the_package(registry):
    listed = entry(registry, "samplers", "top_k")
    assert listed["origin"].startswith("engine-sampler ")
    assert (listed["state"], listed["role"], listed["parameters"]) == ("loaded", "warp", ["top_k"])


def test_every_kind_is_listed(registry):
    assert list(inventory(registry)) == [
        "backends",
        "environment",
        "bridges",
        "plugins",
        "samplers",
        "selectors",
        "stopping_criteria",
        "grammars",
        "drafters",
        "observers",
    ]


def test_objects_of_a_plugin_are_listed_with_their_origin(registry):
    registry.register(Plugin())
    assert entry(registry, "samplers", "robust_z")["origin"] == "this process"
    status = inventory(registry)["plugins"][-1]
    assert (status["name"], status["state"]) == ("toys", "loaded")
    assert status["provides"] == ("samplers/robust_z", "backends/abacus")


@pytest.mark.parametrize(
    ("score", "state"),
    [(1.0, "usable"), (0.0, "not usable here"), (OSError("no beads"), "failed: OSError: no beads")],
)
def test_a_backend_is_listed_with_its_usability(registry, score, state):
    registry.register(Plugin(score))
    listed = entry(registry, "backends", "abacus")
    assert (listed["state"], listed["exact"]) == (state, False)


# --- the backend in effect ------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without any variable of this package's."""
    for name in [name for name in os.environ if name.startswith("ENGINE_SAMPLER_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def in_effect(registry: Registry) -> list[str]:
    return [e["name"] for e in inventory(registry)["backends"] if state_of(e) == "in effect"]


def test_the_backend_in_effect_is_listed_with_the_reason_and_its_instruction_set(registry, environment):
    [name] = in_effect(registry)
    listed = entry(registry, "backends", name)
    assert listed["why"] == "the best of engine-sampler's own"
    assert (name == "native") == bool(listed["target"])
    if name == "native":
        assert entry(registry, "backends", "numpy")["why"] == "its score is 1, that of native 2"


def test_a_plugin_with_a_high_score_is_listed_as_not_taken(registry, environment):
    before = in_effect(registry)
    registry.register(Plugin(score=1e9))
    assert in_effect(registry) == before
    assert entry(registry, "backends", "abacus")["why"] == "inexact (used by name)"


def test_a_backend_that_the_environment_names_is_in_effect(registry, environment):
    registry.register(Plugin())
    environment.setenv("ENGINE_SAMPLER_BACKEND", "abacus")
    assert in_effect(registry) == ["abacus"]
    assert entry(registry, "backends", "abacus")["why"] == "named by ENGINE_SAMPLER_BACKEND=abacus"
    assert inventory(registry)["environment"] == [
        {
            "name": "ENGINE_SAMPLER_BACKEND",
            "value": "abacus",
            "effect": VARIABLES["ENGINE_SAMPLER_BACKEND"],
        }
    ]


def test_a_library_that_the_environment_names_by_its_path_is_listed(registry, environment):
    path = library_path()
    if path is None:
        pytest.skip("the package was built without a C compiler")
    environment.setenv("ENGINE_SAMPLER_BACKEND", f"library:{path}")
    used = [e for e in inventory(registry)["backends"] if e["in_effect"]]
    assert [e["origin"] for e in used] == [f"library:{path}"]


@pytest.mark.parametrize("name", ["abakus", "library:/nowhere/abacus.so"])
def test_a_variable_that_names_no_backend_is_listed_with_the_error(registry, environment, name):
    environment.setenv("ENGINE_SAMPLER_BACKEND", name)
    assert in_effect(registry) == []
    [variable] = inventory(registry)["environment"]
    assert ("is not allowed" if name == "abakus" else "/nowhere/abacus.so") in variable["effect"]


def test_a_variable_that_nothing_reads_is_listed_as_such(registry, environment):
    environment.setenv("ENGINE_SAMPLER_BAKEND", "numpy")
    assert inventory(registry)["environment"][0]["effect"] == "not one of this package's"


# --- libraries ------------------------------------------------------------------------------------


def toy_plugin(register_as: type[LibraryBackend], **options) -> object:
    """A plugin that brings the toy vendor's library."""

    class Toys:
        __name__ = "toys"

        @hookimpl
        def register_backends(self, register):
            register(register_as(toy(), **options))

    return Toys()


def test_a_library_is_listed_with_what_it_says_about_itself(registry):
    registry.register(toy_plugin(LibraryBackend, name="abacus", timeout=2.5))
    text = entry(registry, "backends", "abacus")["summary"]
    assert text.startswith(f"toy 1.0, ABI {described(number('ES_ABI'))}, {toy()}. It promises: exact, ")
    assert "row faults, masks, processed. Limits: at most 2.5 s a step. It runs temperature, top_k," in text


def test_a_library_that_takes_few_rows_is_listed_with_this_limit():
    backend = LibraryBackend(variant("MAX_ROWS=1024"))
    assert "Limits: at most 1,024 rows a call." in backend.description


def test_a_class_of_its_own_describes_a_library(registry):
    class Chip(LibraryBackend):
        """The chip of our cards. And more."""

    registry.register(toy_plugin(Chip))
    assert entry(registry, "backends", "toy")["summary"] == "The chip of our cards."


def test_a_plugin_that_failed_is_listed_with_the_reason(registry):
    registry.plugins.append(PluginStatus("broken", "broken-dist", "1.2", "failed", "ImportError: no"))
    status = inventory(registry)["plugins"][-1]
    assert (status["state"], status["error"]) == ("failed", "ImportError: no")


def test_the_inventory_is_json_serialisable(registry):
    registry.register(Plugin())
    assert json.loads(json.dumps(inventory(registry)))["samplers"][0]["name"]


def test_a_summary_is_the_first_sentence_on_one_line():
    assert summary_of(RobustZ()) == "Tilt the row by its token ids."
    assert summary_of(Abacus(1.0)) == "Beads."
    assert summary_of(object.__new__(type("Bare", (), {}))) == ""


class Grammars:
    __name__ = "languages"

    @hookimpl
    def register_grammars(self, register):
        register("numerals", '// Roman numerals.\n// Small ones. And more.\nstart: "I"')
        register("bare", 'start: "I"')
        register("computed", computed)
        register("csv", 'start: "mine"')


def computed(tokenizer):
    """Whatever the tokenizer can spell. And more."""


def test_the_grammars_of_the_package_are_listed(registry):
    listed = entry(registry, "grammars", "sql")
    assert listed["origin"].startswith("engine-sampler ")
    assert (listed["state"], listed["parameters"]) == ("loaded", [])
    assert listed["summary"].startswith("One SQL query")


def test_a_grammar_of_a_plugin_is_listed_with_its_own_summary(registry):
    registry.register(Grammars())
    names = ("numerals", "bare", "computed", "csv")
    summaries = [entry(registry, "grammars", name)["summary"] for name in names]
    assert summaries == ["Roman numerals.", "", "Whatever the tokenizer can spell.", ""]
    assert [e["name"] for e in inventory(registry)["grammars"]].count("csv") == 1
    assert entry(registry, "grammars", "csv")["origin"] == "this process"


class ReadGrammars:
    __name__ = "read_grammars"

    @hookimpl
    def register_grammars(self, register):
        register("good", '// Two letters. And more.\nstart: "ab"')
        register("bad", "start: (")
        register("object", Grammar.from_lark('start: "ab"'))
        register("described", Grammar.from_lark('// One letter.\nstart: "a"'))


def test_a_grammar_whose_text_cannot_be_read_is_listed_with_the_reason(registry):
    registry.register(ReadGrammars())
    listed = {entry["name"]: entry for entry in inventory(registry)["grammars"]}
    assert (listed["good"]["state"], listed["good"]["summary"]) == ("loaded", "Two letters.")
    assert listed["bad"]["state"].startswith("failed: ")
    assert listed["object"]["state"] == "loaded"
    assert listed["object"]["summary"] == "A grammar of the kind lark."
    assert listed["described"]["summary"] == "One letter."
