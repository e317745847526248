"""Arguments that belong elsewhere get an error that names them."""

from __future__ import annotations

import logging

import engine_sampler_koboldai as koboldai
import engine_sampler_llama_cpp as llama_cpp
import engine_sampler_mindie as mindie
import engine_sampler_mlx as mlx
import engine_sampler_transformers as transformers
import pytest
from engine_sampler_mindie import atb
from engine_sampler_vllm import logits_processor as vllm

pytest.importorskip("tokenizers")

from tests.for_bridges.wrong_arguments import ENTRIES, Entry, LoadedModel, wrong_calls

WITHOUT_ARGUMENTS = {
    *("NEUTRAL", "REMOVED", "neutral_settings"),
    *("InconsistencyError", "OutOfBoundsError", "UnsupportedTypeError", "ValidationError"),
    "register_token_selector",
    *("TopkToppLogprobsSamplingType", "TopkToppSamplingType"),
}
BUILT_BY_OTHERS = {
    *("Candidates", "EngineSampler", "SamplingMetadata", "SamplingOutput", "Stops", "custom_generate"),
    *("HandlingBackend", "SamplerConfig", "TopKTopPTokenSelector", "TopkToppLogprobsSamplingParam"),
    *("ContinuousLogitsProcessor", "continuous_batching"),
}
"""Objects that other calls make, and what another library calls with its own objects."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_argument_that_belongs_elsewhere_is_named(entry: Entry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    faults = {str(call): fault for call in wrong_calls(entry) if (fault := call.fault())}
    assert not faults


def test_every_public_function_of_the_integrations_is_tried() -> None:
    public = {name for module in (atb, llama_cpp, mindie, transformers, vllm) for name in module.__all__}
    public |= {"from_request", "make_sampler", "make_logits_processors"}
    tried = {part for entry in ENTRIES for part in entry.name.removesuffix("()").split(".")}
    assert public - WITHOUT_ARGUMENTS - BUILT_BY_OTHERS - tried == set()
    assert hasattr(koboldai, "from_request")
    assert hasattr(mlx, "make_sampler")


def test_a_model_in_place_of_its_tokenizer_is_told_how_to_get_it() -> None:
    from engine_sampler import ParameterError, SamplingParams

    with pytest.raises(ParameterError, match=r"tokenizer=.*LoadedModel.* is not allowed: a Tokenizer, which"):
        llama_cpp.LogitsProcessor(SamplingParams(), LoadedModel())  # type: ignore[arg-type]
