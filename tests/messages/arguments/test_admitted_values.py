"""Whatever a mask admits as arguments is read to a value that is valid under their schema."""

from __future__ import annotations

import os
from random import Random

import pytest

from engine_sampler.grammar.structural_tag.elements import NOTATIONS
from engine_sampler.grammar.structural_tag.parameters import STYLES

from .random_values import admitted_text, random_schema
from .reading import arguments_of

jsonschema = pytest.importorskip("jsonschema")

ROUNDS = 12 * int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("style", ["pythonic", *STYLES, *NOTATIONS])
def test_what_a_mask_admits_is_read_to_a_valid_value(style: str) -> None:
    walks = 0
    for seed in range(ROUNDS):
        random = Random(seed)
        schema = random_schema(random)
        text = admitted_text(style, schema, random)
        if text is not None:
            walks += 1
            jsonschema.validate(arguments_of(style, text, schema), schema)
    assert walks
