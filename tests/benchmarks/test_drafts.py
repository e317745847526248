"""The table of accepted drafts."""

from __future__ import annotations

import numpy as np

from benchmarks.generation.drafts import CASES, COLUMNS, NOISES, accepted, report


def test_a_draft_with_the_seed_and_position_of_its_row_is_accepted_wherever_both_models_agree() -> None:
    model = np.random.default_rng(1).standard_normal((50, 100), np.float32)
    same, _, other, rejection = accepted(model, model.copy(), {"temperature": 1.0})
    assert same == 1.0
    assert round(rejection, 6) == 1.0
    assert other < 0.2


def test_rejection_sampling_accepts_what_two_distributions_share() -> None:
    model = np.array([[0.0, 0.0, -np.inf]], np.float32)  # ½, ½, 0
    draft = np.array([[-np.inf, 0.0, 0.0]], np.float32)  # 0, ½, ½
    assert accepted(model, draft, {})[-1] == 0.5


def test_the_table_has_a_line_for_each_case_and_distance() -> None:
    lines = report(64, 4).splitlines()
    assert lines[0] == "| accepted drafts | " + " | ".join(COLUMNS) + " |"
    assert len(lines) == 2 + len(CASES) * len(NOISES)
