"""The listing of registered objects as plain data."""

from __future__ import annotations

import json

import pytest

from engine_sampler.cli.listing import inventory, summary_of
from engine_sampler.contract import Backend, Sampler, hookimpl
from engine_sampler.grammar import Grammar
from engine_sampler.registry import CORE_PARAMS, PluginStatus, Registry


class Skew(Sampler):
    """Tilt the row by its
    token ids. Source: none."""

    name = "skew"

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
        register(Skew())

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
        "samplers",
        "selectors",
        "stopping_criteria",
        "backends",
        "grammars",
        "observers",
        "plugins",
    ]


def test_objects_of_a_plugin_are_listed_with_their_origin(registry):
    registry.register(Plugin())
    assert entry(registry, "samplers", "skew")["origin"] == "this process"
    status = inventory(registry)["plugins"][-1]
    assert (status["name"], status["state"]) == ("toys", "loaded")
    assert status["provides"] == ("samplers/skew", "backends/abacus")


@pytest.mark.parametrize(
    ("score", "state"),
    [(1.0, "usable"), (0.0, "not usable here"), (OSError("no beads"), "failed: OSError: no beads")],
)
def test_a_backend_is_listed_with_its_usability(registry, score, state):
    registry.register(Plugin(score))
    listed = entry(registry, "backends", "abacus")
    assert (listed["state"], listed["exact"]) == (state, False)


def test_a_plugin_that_failed_is_listed_with_the_reason(registry):
    registry.plugins.append(PluginStatus("broken", "broken-dist", "1.2", "failed", "ImportError: no"))
    status = inventory(registry)["plugins"][-1]
    assert (status["state"], status["error"]) == ("failed", "ImportError: no")


def test_the_inventory_is_json_serialisable(registry):
    registry.register(Plugin())
    assert json.loads(json.dumps(inventory(registry)))["samplers"][0]["name"]


def test_a_summary_is_the_first_sentence_on_one_line():
    assert summary_of(Skew()) == "Tilt the row by its token ids."
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
    assert listed["summary"].startswith("One SQL SELECT statement")


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
