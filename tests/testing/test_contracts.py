"""The kits of samplers and selectors themselves: their messages, their rounds, and calls of single parts."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import testing
from engine_sampler.contract import ParameterError, Sampler, Selector
from engine_sampler.params import SamplingParams
from engine_sampler.registry import default_registry
from engine_sampler.testing import (
    BackendContract,
    MatcherContract,
    ObserverContract,
    SamplerContract,
    SelectorContract,
    StoppingContract,
    apply_sampler,
    failing_laws,
    select,
)

from .wrong.right import TOKENIZER, Budget, Last, Near, Plain, Steps
from .wrong.truncations import Resurrects

NEAR: Mapping[str, Any] = {"params": [{"near": 0.0}, {"near": 2.5}]}


def laws_broken_by(part: Sampler | Selector, **attributes: Any) -> dict[str, str]:
    base: Any = SelectorContract if isinstance(part, Selector) else SamplerContract
    role = "selector" if isinstance(part, Selector) else "sampler"
    return failing_laws(type("Kit", (base,), {role: part, "sequences": 1, "largest": 64, **attributes}))


def test_what_is_tested_need_not_be_registered() -> None:
    assert laws_broken_by(Near(), **NEAR) == {}
    assert "near" not in default_registry().catalogue.params


def test_a_message_names_the_token_the_row_and_the_parameters() -> None:
    broken = laws_broken_by(Resurrects(), params=[{"near": 2.5}], vocab_sizes=[17])
    assert broken["test_removed_tokens_stay_removed"] == (
        "token 0 was removed before and is back, in row 6 of 12: "
        "half removed, vocabulary 17, params {'near': 2.5}"
    )


def test_no_kit_fails_without_words() -> None:
    for path in Path(testing.__file__).parent.rglob("*.py"):
        asserted = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Assert)]
        assert [ast.unparse(node) for node in asserted if node.msg is None] == [], path.name


def test_an_assertion_of_a_plugin_without_words_is_named_by_its_line() -> None:
    class Asserts(Near):
        """Holds something to be impossible."""

        def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
            raise AssertionError

    said = laws_broken_by(Asserts(), **NEAR)["test_a_token_is_left"]
    assert said.startswith("fails without words at")
    assert said.endswith(": raise AssertionError")


def test_an_observer_may_draw_the_ids_of_its_spans_from_random() -> None:
    class Traces:
        def request_added(self, request_id: Any, params: Any, scheduler: str) -> None:
            random.getrandbits(64)

    assert failing_laws(type("Kit", (ObserverContract,), {"observer": Traces()})) == {}


def test_a_kit_without_parameters_to_try_fails() -> None:
    class Unexplained(Near):
        examples = ()

    assert "no params to try" in laws_broken_by(Unexplained())["test_a_token_is_left"]


def test_without_params_a_kit_tries_those_of_the_examples() -> None:
    assert laws_broken_by(Near()) == {}
    assert SamplerContract.tried_params.fget(type("Kit", (SamplerContract,), {"sampler": Near()})()) == [  # type: ignore[attr-defined]
        {"near": 1.5}
    ]


def test_a_sampler_that_raises_fails_with_its_error() -> None:
    class Raises(Near):
        def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
            raise IndexError("one beyond the end")

    assert laws_broken_by(Raises(), **NEAR)["test_a_token_is_left"] == "IndexError('one beyond the end')"


def test_apply_sampler_takes_plain_parameters_and_sampling_params_alike() -> None:
    top_k = default_registry().catalogue.samplers["top_k"]
    row = [1.0, 3.0, 2.0]
    assert np.array_equal(
        apply_sampler(top_k, row, {"top_k": 1}), apply_sampler(top_k, row, SamplingParams(top_k=1))
    )


def test_select_takes_a_selector_that_is_not_registered() -> None:
    assert select(Last(), [[0.0, 1.0], [0.0, -np.inf]], {"last": True}).columns.tolist() == [1, 0]


def test_a_parameter_without_an_owner_is_refused() -> None:
    with pytest.raises(ParameterError, match="'nearer' is neither registered nor a parameter of near"):
        apply_sampler(Near(), [1.0, 2.0], {"nearer": 1.0})


def test_every_row_may_have_parameters_of_its_own() -> None:
    result = apply_sampler(Near(), [[1.0, 3.0], [1.0, 3.0]], [{"near": 1.0}, {"near": 2.0}])
    assert result.tolist() == [[-np.inf, 3.0], [1.0, 3.0]]


# --- a longer search -----------------------------------------------------------------------------


class NearLaws(SamplerContract):
    sampler = Near()
    params = NEAR["params"]


class LastLaws(SelectorContract):
    selector = Last()
    params = [{"last": True}]


class BudgetLaws(StoppingContract):
    criterion = Budget()
    params = [{"budget": 60}]


class StepsLaws(MatcherContract):
    grammar = Steps()
    tokenizer = TOKENIZER


class PlainLaws(BackendContract):
    backend = Plain()
    vocab_sizes = (40,)


@pytest.mark.parametrize(
    ("kit", "tries"),
    [
        (NearLaws, "cases"),
        (LastLaws, "cases"),
        (BudgetLaws, "outputs"),
        (StepsLaws, "forced"),
        (PlainLaws, "trials"),
    ],
)
def test_the_environment_multiplies_the_rounds_of_every_kit(
    kit: Any, tries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for rounds in ("0", "1", "3"):
        monkeypatch.setenv("ENGINE_SAMPLER_TEST_ROUNDS", rounds)
        counts.append(len(list(getattr(kit(), tries)())))
    assert counts == [counts[1], counts[1], 3 * counts[1]]


@pytest.mark.parametrize("kit", [Near(), Near, "near"])
def test_what_has_no_laws_is_not_taken_for_a_kit_that_finds_none_broken(kit: Any) -> None:
    with pytest.raises(TypeError, match=r"kit=.* is not allowed: a class with laws"):
        failing_laws(kit)


def test_rounds_that_are_no_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_TEST_ROUNDS", "many")
    with pytest.raises(ValueError, match="ENGINE_SAMPLER_TEST_ROUNDS='many' is not allowed: an integer"):
        list(NearLaws().cases())
