"""`exports`: settings in the words of other systems are read back as the same chain."""

from __future__ import annotations

import json
import math

import pytest
from engine_sampler_koboldai import from_request

from engine_sampler.explain import exports
from engine_sampler.params import SamplingParams, build_chain


def export_of(system: str, params: SamplingParams):
    return next(export for export in exports(params) if export.system == system)


def chain_of(params: SamplingParams) -> list[str]:
    return [sampler.name for sampler in build_chain(params).samplers]


ALL_SAY = SamplingParams(order="vllm", temperature=0.7, top_k=40, top_p=0.9, seed=3, repetition_penalty=1.2)


def test_sampling_params_are_python_and_lack_nothing():
    export = export_of("SamplingParams", ALL_SAY)
    assert eval(export.code) == ALL_SAY
    assert export.missing == ()


def test_a_body_for_vllm_is_read_as_the_same_parameters():
    params = ALL_SAY.replace(logit_bias={5: -1}, stop=["x"], regex="[a-z]+", max_tokens=9)
    export = export_of("vLLM", params)
    assert SamplingParams.from_dict(json.loads(export.code)) == params
    assert export.missing == (
        "OpenAI’s own API does not know top_k, repetition_penalty, structured_outputs.",
    )


def test_vllm_cannot_say_an_order_nor_other_samplers():
    missing = export_of("vLLM", SamplingParams(temperature=0.8, top_k=40, xtc_probability=0.5)).missing
    assert "vLLM runs temperature, top_k in this order; here it is top_k, temperature." in missing
    assert "vLLM has no xtc_probability (here 0.5)." in missing


def test_flags_of_llama_cpp_name_the_samplers_that_run_in_their_order():
    params = SamplingParams(
        typical_p=0.9, temperature=0.5, logit_bias={7: 1.5}, json_schema={"type": "string"}
    )
    code = export_of("llama.cpp", params).code
    assert "--samplers 'typ_p;temperature'" in code
    assert "--logit-bias 7+1.5" in code
    assert """--json-schema '{"type": "string"}'""" in code
    assert "--samplers temperature" in export_of("llama.cpp", SamplingParams(temperature=0)).code


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(
            order="koboldai", temperature=0.7, top_k=50, top_a=0.1, top_p=0.9, tfs=0.95, typical_p=0.9
        ),
        SamplingParams(order=(6, 5, 4, 3, 2, 1, 0), temperature=0.7, repetition_penalty=1.1, top_k=9),
        SamplingParams(
            order="koboldai", repetition_penalty=1.1, repetition_penalty_slope=2, penalty_last_n=64
        ),
    ],
)
def test_a_body_for_koboldai_is_read_as_the_same_chain(params):
    export = export_of("KoboldAI", params)
    read = from_request(json.loads(export.code))
    assert chain_of(read) == chain_of(params)
    for name in {*params.given} - {"order", "penalty_scope", "penalty_last_n"}:
        assert read[name] == params[name], name
    assert export.missing == ()


def test_koboldai_cuts_by_a_rule_of_its_own_and_has_no_place_for_newer_samplers():
    missing = export_of("KoboldAI", SamplingParams(top_p=0.9, dry_multiplier=0.8, eta_cutoff=0.01)).missing
    assert "KoboldAI cuts at top_p by top_p_cut='below'." in missing
    assert "Only koboldcpp knows dry_multiplier, KoboldAI does not." in missing
    assert "sampler_order has no place for dry, eta_cutoff: koboldcpp has one for each." in missing
    assert "KoboldAI has no eta_cutoff (here 0.01)." in missing


def test_what_json_cannot_say_is_left_out_and_named():
    params = SamplingParams(logit_bias={5: -math.inf, 6: 1.0}, bad_words=[[1, 2], [3, 4]])
    _, vllm, _, koboldai = exports(params)
    body = json.loads(vllm.code)
    assert (body["logit_bias"], body["bad_words"]) == ({"6": 1.0}, [[1, 2], [3, 4]])
    for export in (vllm, koboldai):
        assert "JSON has no bias of −inf (here of 5)." in export.missing


def test_a_schema_that_is_no_json_is_given_as_it_is():
    assert "{nope" in exports(SamplingParams(json_schema="{nope"))[1].code
