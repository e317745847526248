"""ATB's operator as a node of a graph, with numbers of a type that NumPy has from another library."""

from __future__ import annotations

import pytest

from tests.native.test_topk_topp import BFLOAT16, KINDS, assert_writes_alike

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize("wrong", [False, True], ids=["sound", "spoilt"])
@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_drawn_from_as_in_python(kind: str, wrong: bool) -> None:
    assert_writes_alike(kind, BFLOAT16, ml_dtypes.bfloat16, wrong)
