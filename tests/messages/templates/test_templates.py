"""Masks admit what chat templates write, token by token, and parsers rebuild the message."""

from __future__ import annotations

import os

import pytest

from .differences import MISREAD, REFUSED, Difference, reasons
from .rendering import FOLDER

pytest.importorskip("jinja2")
TEMPLATES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
if not TEMPLATES:
    pytest.skip("llama.cpp's templates are there in .ci/peers alone", allow_module_level=True)

from .checking import check, renderings  # noqa: E402
from .table import SERVED, UNSERVED  # noqa: E402

COUNT = 16 * int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


def test_every_template_is_served_or_a_reason_is_given() -> None:
    assert sorted({*SERVED, *UNSERVED}) == TEMPLATES


@pytest.mark.parametrize("template", SERVED)
def test_masks_admit_what_a_template_writes_and_parsers_rebuild_the_message(template: str) -> None:
    family = SERVED[template].family
    tried = list(renderings(template, COUNT))
    assert len(tried) >= COUNT // 2
    for rendering in tried:
        outcome = check(rendering)
        for what, differences in ((outcome.refused, REFUSED), (outcome.misread, MISREAD)):
            assert not what or any(reasons(differences, family, rendering.turn.text)), (what, rendering)


@pytest.mark.parametrize("what", ["refused", "misread"])
def test_every_known_difference_is_still_there(what: str) -> None:
    known = {"refused": REFUSED, "misread": MISREAD}[what]
    left: set[Difference] = set(known)
    for template, entry in SERVED.items():
        if any(entry.family in one.families for one in left):
            for rendering in renderings(template, 24):
                if getattr(check(rendering), what):
                    left -= set(reasons(known, entry.family, rendering.turn.text))
    assert not left
