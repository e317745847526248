"""The token selector in MindIE's own sampler; `mindie` holds what it touches of it, made from its names."""

import enum
import itertools
import math
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_mindie import TopKTopPTokenSelector, register_token_selector

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.for_bridges import PeerError

VOCAB = 24
LOGITS = np.random.default_rng(5).normal(size=(3, VOCAB)).astype(np.float32) * 2
TOP_K, TOP_P = np.array([0, 9, 5]), np.float32([0.9, 1.0, 0.8])
DO_SAMPLE, SEEDS = np.array([True, False, True]), np.array([3, 4, 5])


class HandlingBackend(str, enum.Enum):
    ATB = "atb"
    CPU = "cpu"
    PTA = "pta"


@dataclass
class SelectorParams:
    candidate_expansion_factor: int = 1
    device: Any = None
    eos_token_id: list = field(default_factory=list)
    filter_value: float = -math.inf
    npu_id: int = 0
    num_threads: int = 8
    sampling_method: str = "multinomial"
    splitfuse_enabled: bool = False
    layerwise_disaggregated: bool = False


@dataclass
class TheirOutput:
    sequence_ids: Any
    parent_sequence_ids: Any
    group_indices: Any
    repeating_indices: Any
    token_ids: Any
    logprobs: Any
    top_token_ids: Any
    top_logprobs: Any
    cumulative_logprobs: Any
    num_new_tokens: Any
    num_new_tokens_numpy: Any = None
    num_top_tokens: Any = None
    seeds: Any = None
    is_structured_accepted: Any = None


@pytest.fixture
def mindie(monkeypatch):
    """Its registries by backend, each with the class that it draws with by default."""
    registries = {HandlingBackend.CPU: {"top_k_top_p_sampling": object}, HandlingBackend.ATB: {}}
    package = "mindie_llm.text_generator"
    modules = {
        "mindie_llm": {},
        package: {},
        f"{package}.samplers": {},
        f"{package}.samplers.token_selectors": {"get_selector_registry": registries.__getitem__},
        f"{package}.utils": {},
        f"{package}.utils.config": {"HandlingBackend": HandlingBackend},
        f"{package}.utils.sampling_output": {"SamplingOutput": TheirOutput},
    }
    for name, contents in modules.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return registries


def metadata(is_prefill, **fields):
    """As MindIE's sampler hands it to a selector."""
    ids = fields.get("batch_sequence_ids", [np.array([7]), np.array([8]), np.array([9])])
    groups = np.cumsum([0, *map(len, ids)]).tolist()
    defaults = {
        "batch_sequence_ids": ids,
        "reserved_sequence_ids": [np.array([])] * len(ids),
        "is_prefill": is_prefill,
        "is_mix": None,
        "all_sequence_ids": np.concatenate(ids),
        "parent_sequence_ids": np.concatenate(ids),
        "group_indices": list(itertools.pairwise(groups)),
        "to_tensor": np.asarray,
        "top_k_array": TOP_K,
        "top_p_array": TOP_P,
        "do_sample_array": DO_SAMPLE,
        "top_logprobs_array": np.zeros(3, np.int64),
        "max_logprobs": 0,
        "seed_array": SEEDS,
        "num_top_tokens": np.zeros(3, np.int32),
        "best_of_array": None,
        "is_seq_prefill": None,
        "output_token_ids": None,
    }
    return SimpleNamespace(**defaults | fields)


def expected(steps, first=0):
    """The tokens of a scheduler, [steps, rows], from the position `first` on."""
    scheduler = Scheduler(VOCAB)
    for k, p, sampled, seed in zip(TOP_K, TOP_P, DO_SAMPLE, SEEDS, strict=True):
        choice = {"temperature": 0}
        if sampled:
            choice = {"top_k": int(k), "top_p": float(p), "top_p_cut": "exceed"}
        scheduler.add(SamplingParams(order="mindie", seed=int(seed), **choice), [], position=first)
    return [scheduler.step(LOGITS).token_ids.tolist() for _ in range(steps)]


def test_the_registered_selector_draws_for_mindies_sampler(mindie):
    register_token_selector()
    selector = mindie[HandlingBackend.CPU]["top_k_top_p_sampling"](SelectorParams())
    drawn = []
    for step in range(6):
        output = selector(LOGITS, metadata(step == 0))
        assert type(output) is TheirOutput
        assert output.seeds.dtype == np.int64
        drawn.append(output.token_ids.tolist())
    assert drawn == expected(6)
    selector.clear(np.array([7, 8, 9]))
    assert selector(LOGITS, metadata(True)).token_ids.tolist() == drawn[0]


def test_another_registry_may_be_named(mindie):
    register_token_selector("atb")
    assert mindie[HandlingBackend.ATB] == {"top_k_top_p_sampling": TopKTopPTokenSelector}
    assert mindie[HandlingBackend.CPU] == {"top_k_top_p_sampling": object}
    with pytest.raises(ValueError, match="backend='gpu' is not allowed: one of 'atb', 'cpu', 'pta'"):
        register_token_selector("gpu")


def test_a_node_that_only_decodes_is_configured_and_draws_from_the_second_token_on(mindie):
    register_token_selector()
    selector = mindie[HandlingBackend.CPU]["top_k_top_p_sampling"](SelectorParams())
    selector.configure(metadata(True))
    drawn = [
        selector(LOGITS, metadata(False, seed_array=np.zeros(3, int))).token_ids.tolist() for _ in range(3)
    ]
    assert drawn == expected(3, first=1)


def test_siblings_begin_under_the_reserved_ids(mindie):
    register_token_selector()
    selector = mindie[HandlingBackend.CPU]["top_k_top_p_sampling"](SelectorParams())
    reserved = [np.array([70, 71]), np.array([]), np.array([])]
    output = selector(
        LOGITS, metadata(True, best_of_array=np.array([3, 1, 1]), reserved_sequence_ids=reserved)
    )
    assert output.sequence_ids.tolist() == [7, 70, 71, 8, 9]
    assert output.parent_sequence_ids.tolist() == [7, 7, 7, 8, 9]
    assert output.repeating_indices.tolist() == [0, 0, 0, 1, 2]
    assert output.group_indices == [(0, 3), (3, 4), (4, 5)]
    assert output.token_ids[0] == expected(1)[0][0]


def test_without_mindie_there_is_nothing_to_register_in():
    with pytest.raises(PeerError, match=r"engine-sampler-mindie cannot be used beside MindIE.*mindie_llm"):
        register_token_selector()
