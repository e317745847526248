from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.stopping import MaxLengthCriteria, StoppingCriteriaList, validate_stopping_criteria


def test_the_limit_is_that_of_the_first_criterion_that_has_one() -> None:
    criteria = StoppingCriteriaList([lambda ids, scores: False, MaxLengthCriteria(7), MaxLengthCriteria(5)])
    assert criteria.max_length == 7
    assert StoppingCriteriaList().max_length is None


def test_transformers_own_criterion_is_recognised() -> None:
    transformers: Any = pytest.importorskip("transformers")
    theirs = transformers.MaxLengthCriteria(7)
    assert StoppingCriteriaList([theirs]).max_length == 7
    assert validate_stopping_criteria(StoppingCriteriaList([theirs]), 7).max_length == 7
    with pytest.warns(UserWarning, match="max_length=9 is ignored: the criteria have max_length=7"):
        assert len(validate_stopping_criteria(StoppingCriteriaList([theirs]), 9)) == 1


def test_a_class_of_that_name_is_recognised_without_transformers() -> None:
    other = type("MaxLengthCriteria", (), {"max_length": 4, "__call__": lambda self, ids, scores: False})()
    assert StoppingCriteriaList([other]).max_length == 4
    assert StoppingCriteriaList([other])(np.zeros((2, 3), np.int64), None).tolist() == [False, False]


def test_the_arguments_are_named_as_in_transformers() -> None:
    checked = validate_stopping_criteria(stopping_criteria=StoppingCriteriaList(), max_length=3)
    assert checked.max_length == 3
