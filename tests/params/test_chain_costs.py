"""What a chain may cost: how often one sampler runs, and how much all samplers of a request cost together."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import engine_sampler_koboldai as koboldai
import engine_sampler_llama_cpp as llama_cpp
import numpy as np
import pytest
from engine_sampler_vllm.logits_processor import settings_of
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_protocol import Params

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Sampler
from engine_sampler.params.chain import build_chain
from engine_sampler.params.costs import MAX_PASSES, MAX_REPEATS, PASSES, passes_of
from engine_sampler.registry import default_registry
from tests.conftest import example_count
from tests.engines import registered
from tests.random_chains import ORDERED, by_examples

SAMPLERS = default_registry().catalogue.samplers
ON: Mapping[str, Mapping[str, Any]] = {name: by_examples(name)[0] for name in ORDERED} | {
    "logits_processors": {"logits_processors": lambda token_ids, logits: None},
    "penalties": {"repetition_penalty": 1.1},
    "no_repeat_ngram": {"no_repeat_ngram_size": 3},
    "dry": {"dry_multiplier": 1.0},
    "top_n_sigma": {"top_n_sigma": 100.0},
    "top_k": {"top_k": 20_000},
    "top_a": {"top_a": 1e-9},
    "tfs": {"tfs": 0.9999},
    "typical_p": {"typical_p": 0.9999},
    "top_p": {"top_p": 0.9999},
    "min_p": {"min_p": 1e-6},
    "p_less": {"p_less_norm": True},
    "min_k": {"min_k": True, "min_k_tau": 1e9},
    "epsilon_cutoff": {"epsilon_cutoff": 1e-9},
    "eta_cutoff": {"eta_cutoff": 1e-9},
    "top_h": {"top_h": 0.9999},
    "xtc": {"xtc_probability": 1.0, "xtc_threshold": 0.4},
    "smoothing": {"smoothing_factor": 0.1},
    "temperature": {"temperature": 1.5},
    "infill": {"infill": True},
}
"""Parameters that turn each sampler on, and let it leave nearly all tokens."""
EVERYTHING = {name: value for params in ON.values() for name, value in params.items()}


def on(names: Sequence[str]) -> dict[str, Any]:
    return {key: value for name in dict.fromkeys(names) for key, value in ON[name].items()}


# --- refusals ------------------------------------------------------------------------------------

Reads = Callable[[list[str], Mapping[str, Any]], Any]
READERS: dict[str, Reads] = {
    "SamplingParams": lambda order, params: SamplingParams(order=order, **params),
    "replace": lambda order, params: SamplingParams(order=ORDERED, **params).replace(order=order),
    "from_dict": lambda order, params: SamplingParams.from_dict({"order": order, **params}),
    "extra_args": lambda order, params: SamplingParams.from_dict({"extra_args": {"order": order, **params}}),
    "vllm_xargs": lambda order, params: SamplingParams.from_dict({"vllm_xargs": {"order": order}, **params}),
    "vllm": lambda order, params: settings_of(Params({"order": order, **params})),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("name", "times"), [("tfs", 128), ("dry", 120), ("temperature", 5)])
def test_a_sampler_that_is_named_too_often_is_refused(read: Reads, name: str, times: int) -> None:
    message = rf"order=\('{name}', .* names '{name}' {times} times; at most 4"
    with pytest.raises(ParameterError, match=message):
        read([name] * times, ON[name])


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_samplers_that_cost_too_much_together_are_refused(read: Reads) -> None:
    params = {key: value for key, value in EVERYTHING.items() if key != "infill"}
    passes = 4 * passes_of(SAMPLERS[name] for name in ORDERED if name != "infill")
    with pytest.raises(
        ParameterError, match=rf"order=\('logits_processors', .* cost {passes} passes .*; at most 144"
    ):
        read([*ORDERED] * 4, params)


def test_a_body_of_llama_cpps_server_is_refused_under_the_servers_name() -> None:
    for samplers in (["tfs_z"] * 128, ["tfs_z"] * 4 + ["tfs"], "f" * 128):
        with pytest.raises(ParameterError, match=r"samplers=.* names '.*' [0-9]+ times; at most 4"):
            llama_cpp.from_request({"samplers": samplers, "tfs_z": 0.9})


def test_a_body_of_koboldai_names_a_sampler_once() -> None:
    with pytest.raises(ParameterError, match="sampler_order="):
        koboldai.from_request({"sampler_order": [3] * 128, "tfs": 0.9})
    with pytest.raises(ParameterError, match="sampler_order="):
        koboldai.from_request({"sampler_order": [3] * 128, "tfs": 0.9}, system="koboldcpp")


def test_an_order_of_numbers_or_of_a_name_is_not_beyond_the_bound() -> None:
    for order in ("llama.cpp", "koboldai", [6, 0, 1, 2, 3, 4, 5], ORDERED):
        assert SamplingParams(order=order, **EVERYTHING).order


# --- what is allowed -----------------------------------------------------------------------------


def test_all_built_in_samplers_may_run_at_once() -> None:
    chain = build_chain(SamplingParams(order=ORDERED, **EVERYTHING))
    assert len(chain.samplers) == len(ORDERED)
    assert passes_of(chain.samplers) <= MAX_PASSES


@pytest.mark.parametrize("name", ORDERED)
def test_every_sampler_may_run_twice(name: str) -> None:
    assert build_chain(SamplingParams(order=[name] * 2, **ON[name])).key == (name, name, "dist")


def test_a_sampler_that_is_off_costs_nothing() -> None:
    params = SamplingParams(order=["infill"] * 4 + ["dry"] * 4 + ["top_k"], top_k=5)
    assert build_chain(params).key == ("top_k", "dist")


@settings(max_examples=example_count(60), derandomize=True)
@given(st.lists(st.sampled_from(ORDERED), max_size=40))
def test_every_order_is_refused_or_bounded(order: list[str]) -> None:
    try:
        params = SamplingParams(order=order, **on(order))
    except ParameterError:
        passes = passes_of(SAMPLERS[name] for name in order)
        assert passes > MAX_PASSES or max(Counter(order).values()) > MAX_REPEATS
    else:
        chain = build_chain(params)
        assert len(chain.samplers) == len(order)
        assert passes_of(chain.samplers) <= MAX_PASSES


def longest_chain() -> list[str]:
    """As many samplers as an order may run, all of those that have kernels."""
    native = default_registry().catalogue.backends["native"]
    kernels = [name for name in ORDERED if native.runs_as(SAMPLERS[name]) == "native"]
    cheapest = sorted(kernels, key=lambda name: PASSES[SAMPLERS[name].cost])
    names = [name for name in cheapest for _ in range(MAX_REPEATS)]
    sums = itertools.accumulate(PASSES[SAMPLERS[name].cost] for name in names)
    return [name for name, passes in zip(names, sums, strict=True) if passes <= MAX_PASSES]


@pytest.mark.skipif(bool(default_registry().catalogue.backends["native"].reason), reason="no C kernels")
def test_the_longest_chain_runs_in_the_c_kernels() -> None:
    order = longest_chain()
    assert len(order) > 40
    edits = {"min_tokens": 9, "logit_bias": {3: 1.0}, "bad_words": [[4]], "allowed_token_ids": [*range(99)]}
    scheduler = Scheduler(100, backend="native", eos_token_ids=[99])
    scheduler.add(SamplingParams(order=order, ignore_eos=True, **edits, **on(order)))
    assert scheduler.step(np.zeros((1, 100), np.float32)).errors == [None]
    assert {runner for _, runner in scheduler.explain()[0].steps} == {"native"}


# --- plugins -------------------------------------------------------------------------------------


def plugin(number: int) -> Sampler:
    from engine_sampler.contract import Param

    class Made(Sampler):
        name = f"plugin_{number}"
        params = (Param(f"plugin_{number}", float, 0.0),)

        def apply(self, logits: np.ndarray, rows: Any) -> None: ...

    return Made()


def test_samplers_of_plugins_count_in_every_order() -> None:
    with registered(*map(plugin, range(10))):
        few = {f"plugin_{i}": 1.0 for i in range(9)}
        assert passes_of(build_chain(SamplingParams(**few)).samplers) == MAX_PASSES
        with pytest.raises(ParameterError, match=r"order='llama.cpp' .* cost 160 passes .*; at most 144"):
            SamplingParams(**few, plugin_9=1.0)


def test_a_plugin_that_fails_to_say_whether_it_is_on_is_named() -> None:
    class Failing(Sampler):
        name = "failing"

        def is_active(self, params: Mapping[str, Any]) -> bool:
            if isinstance(params["order"], str):
                return False
            raise ZeroDivisionError

        def apply(self, logits: np.ndarray, rows: Any) -> None: ...

    with registered(Failing()), pytest.raises(ParameterError, match="failing failed: ZeroDivisionError"):
        SamplingParams(order=["failing", *["infill"] * 4])


# --- work: a class of cost is what it says --------------------------------------------------------

VOCAB = 20_000
TOKENIZER = Tokenizer([b"%d " % i for i in range(VOCAB)], eos_token_ids=[VOCAB - 1])
SORTS = {"sort", "argsort", "partition", "argpartition", "lexsort"}


@contextlib.contextmanager
def counted_sorts() -> Iterator[Counter[str]]:
    """Counts the entries that NumPy's sorts are given."""
    counts: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in SORTS:
            counts["entries"] += getattr(argument.__self__, "size", 0)

    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(None)


def sorted_entries(order: Sequence[str], row: np.ndarray) -> int:
    """How many entries a step with these samplers sorts."""
    scheduler = Scheduler(VOCAB, TOKENIZER, backend="numpy")
    scheduler.add(SamplingParams(seed=1, ignore_eos=True, order=order, **on(order)), [1, 2, 3])
    with counted_sorts() as counts:
        assert scheduler.step(row).errors == [None]
    return counts["entries"]


ROWS = {
    "flat": np.zeros((1, VOCAB), np.float32),
    "bell": np.random.default_rng(0).normal(0, 2, (1, VOCAB)).astype(np.float32),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("name", ORDERED)
def test_only_those_that_say_so_sort(name: str, row: np.ndarray) -> None:
    most = {"pass": 0, "history": 0, "select": 3, "sort": 3, "bytes": 3}[SAMPLERS[name].cost]
    history = 3
    entries = sorted_entries([name], row)
    assert entries <= most * VOCAB + history
    assert (entries > history) == (most > 0)


def test_the_most_that_an_order_may_sort_is_bounded() -> None:
    sorting = [name for name in ORDERED if SAMPLERS[name].cost in ("select", "sort")]
    order = sorted(sorting * MAX_REPEATS, key=lambda name: PASSES[SAMPLERS[name].cost], reverse=True)
    while passes_of(SAMPLERS[name] for name in order) > MAX_PASSES:
        order.pop()
    assert sorted_entries(order, ROWS["flat"]) <= 3 * len(order) * VOCAB


# --- all rows of a request -------------------------------------------------------------------------

DEAREST = {"temperature": 1e6, "tfs": 0.9999, "infill": True}
DEAREST_ORDER = ["temperature", "infill", "infill", "tfs", "tfs"]


def add(params: Mapping[str, Any], prompt: Sequence[int] = (), **given: Any) -> list[Any]:
    scheduler = Scheduler(VOCAB, TOKENIZER, **given)
    return scheduler.add_group(SamplingParams(**params), prompt)


@pytest.mark.parametrize(
    ("params", "named", "passes", "allowed"),
    [
        ({"n": 128, "order": DEAREST_ORDER, **DEAREST}, "n=128", 129, 11),
        ({"n": 2, "best_of": 60, "infill": True}, "best_of=60", 48, 30),
        ({"use_beam_search": True, "beam_width": 32, "infill": True}, "beam_width=32", 48, 30),
        ({"use_beam_search": True, "n": 32, "infill": True}, "n=32", 48, 30),
        ({"n": 31, "phases": [{"tokens": 1}, {"params": {"infill": True}}]}, "n=31", 48, 30),
    ],
)
def test_rows_that_cost_too_much_together_are_refused(
    params: dict[str, Any], named: str, passes: int, allowed: int
) -> None:
    with pytest.raises(ParameterError) as caught:
        add(params)
    assert str(caught.value) == (
        f"{named} is not allowed with these parameters: the samplers that they turn on cost each row "
        f"{passes} passes over the vocabulary at worst; this scheduler's limit is 1,440 for all rows "
        f"together, which allows {allowed} (RequestLimits(passes=…))"
    )
    name = named.partition("=")[0]
    assert len(add({**params, name: allowed})) == allowed
    assert add(params, limits=RequestLimits(passes=None))
    assert add(params, limits=RequestLimits.none())


def test_what_a_rule_of_a_grammar_turns_on_counts_for_all_rows() -> None:
    grammar = 'start: "a" costly\ncostly[infill=true]: "b"'
    with pytest.raises(ParameterError, match=r"n=31 .* cost each row 48 passes .* allows 30"):
        add({"grammar": grammar, "n": 31})
    assert len(add({"grammar": grammar, "n": 30})) == 30


def test_as_many_ordinary_rows_as_there_may_be_are_allowed() -> None:
    ordinary = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1}
    edits = {"logit_bias": {3: 1.0}, "bad_words": [[4]], "min_tokens": 3, "ignore_eos": True}
    for order in ("llama.cpp", "vllm", "transformers"):
        assert len(add({**ordinary, **edits, "order": order, "n": 128})) == 128


def test_prompts_that_are_counted_anew_for_all_rows_are_bounded() -> None:
    """Where phases change penalties, each change counts the whole history."""
    changing = {"phases": [{"tokens": 1, "params": {"frequency_penalty": 0.1}}, {"tokens": 1, "then": 0}]}
    limits = RequestLimits(histories=100)
    with pytest.raises(ParameterError) as caught:
        add({**changing, "n": 4}, [1] * 30, limits=limits)
    assert str(caught.value) == (
        "n=4 is not allowed with a prompt of 30 tokens and phases that change penalties: this scheduler's "
        "limit is 100 tokens for all rows together, which allows 3 (RequestLimits(histories=…))"
    )
    assert len(add({**changing, "n": 3}, [1] * 30, limits=limits)) == 3
    for same in ({}, {"frequency_penalty": 0.1}, {"phases": [{"tokens": 1, "params": {"top_p": 0.5}}, {}]}):
        assert len(add({**same, "n": 4}, [1] * 30, limits=limits)) == 4
    thinking = {"thinking": {"start": [[1]], "end": [[2]]}, "frequency_penalty": 0.1}  # an answer begins anew
    with pytest.raises(ParameterError, match="n=4 is not allowed with a prompt of 30 tokens"):
        add({**thinking, "n": 4}, [1] * 30, limits=limits)
