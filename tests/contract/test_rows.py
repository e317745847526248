"""What samplers learn from the rows of a step."""

from __future__ import annotations

import numpy as np

from engine_sampler.arithmetic import draw64
from engine_sampler.contract import rows as module
from engine_sampler.registry import default_registry
from engine_sampler.testing import make_rows

XTC = default_registry().catalogue.samplers["xtc"]


def test_a_sampler_may_draw_as_many_numbers_as_it_likes() -> None:
    rows = make_rows(XTC, [{"seed": seed, "xtc_probability": 0.5} for seed in range(3)], 50)
    for index in (*range(3 * module._MOST_STREAMS), 5, 5):
        expected = draw64(rows.seed, rows.position, XTC.stream, index)
        assert np.array_equal(rows.draw(index), expected)
        assert len(rows._ahead) <= module._MOST_STREAMS
    other = rows.bind(default_registry().catalogue.selectors["dist"])
    assert np.array_equal(other.draw(5), draw64(rows.seed, rows.position, 0, 5))


def test_what_follows_from_the_rows_requests_is_computed_once_for_all_of_them() -> None:
    bias = default_registry().catalogue.samplers["logit_bias"]
    rows = make_rows(bias, [{"logit_bias": {token: 1.0}} for token in range(4)], 50)
    seen = []

    def first_ids(group: module.Rows) -> np.ndarray:
        seen.append(len(group))
        return np.array([ids[0] for ids, _ in group.resolved])

    some = [rows.take(np.array(which)) for which in ([2], [3, 1])]
    for part, expected in zip(some, ([2], [3, 1]), strict=True):
        assert part.bind(bias).derived("the first biased id", first_ids).tolist() == expected
    assert seen == [4]
