"""What other systems call a parameter leads to its name here."""

from __future__ import annotations

import pytest
from engine_sampler_koboldai import koboldai
from engine_sampler_llama_cpp import requests as llama_cpp

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.params.openai import RENAMED
from engine_sampler.registry import FAMILIAR_NAMES

PARAMETERS = set(SamplingParams.parameters())


def names_in_bodies() -> dict[str, set[str]]:
    """Our names for each key that the readers of bodies know under another name."""
    names: dict[str, set[str]] = {}
    for fields, renamed in ((koboldai.FIELDS, koboldai.RENAMED), (llama_cpp.FIELDS, llama_cpp.RENAMED)):
        for key in {*fields, *renamed}:
            known = renamed.get(key, key)
            names.setdefault(key, set()).add(fields[known].name if known in fields else known)
    for key, ours in RENAMED.items():
        names.setdefault(key, set()).add(ours)
    return {key: ours & PARAMETERS for key, ours in names.items() if key not in PARAMETERS}


def test_every_name_that_a_reader_of_bodies_knows_leads_to_its_parameter() -> None:
    bodies = {key: ours for key, ours in names_in_bodies().items() if ours}
    assert len(bodies) > 15
    assert {key: {FAMILIAR_NAMES.get(key)} for key in bodies} == bodies


def test_familiar_names_are_no_parameters_and_lead_to_parameters() -> None:
    assert PARAMETERS.isdisjoint(FAMILIAR_NAMES)
    assert set(FAMILIAR_NAMES.values()) <= PARAMETERS


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("rep_pen", "repetition_penalty"), ("num_beams", "beam_width"), ("typ_p", "typical_p")],
)
def test_the_error_for_a_familiar_name_names_ours_alone(theirs: str, ours: str) -> None:
    with pytest.raises(ParameterError, match=rf"unknown parameter '{theirs}'; did you mean '{ours}'\?$"):
        SamplingParams(**{theirs: 1})
