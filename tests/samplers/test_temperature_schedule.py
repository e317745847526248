import numpy as np
import pytest

from engine_sampler import SamplingParams
from engine_sampler.contract import ParameterError
from engine_sampler.params import build_chain
from engine_sampler.samplers.temperature import Temperature
from engine_sampler.samplers.temperature_schedule import TemperatureSchedule
from engine_sampler.testing import apply_sampler

ROW = np.random.default_rng(2).normal(0, 3, 50)
POINTS = [[4, 2.0], [8, 0.5], [10, 1.0], [11, 1.5]]


@pytest.mark.parametrize("n", range(14))
def test_the_temperature_is_interpolated_between_the_points(n):
    t = float(np.interp(n, [p for p, _ in POINTS], [t for _, t in POINTS]))
    given = {"temperature_schedule": POINTS}
    result = apply_sampler(TemperatureSchedule(), ROW, given, prompts=[[1, 1]], outputs=[[1] * n])
    np.testing.assert_array_equal(result, apply_sampler(Temperature(), ROW, {"temperature": t}))


def test_it_stands_where_the_order_has_the_temperature():
    params = SamplingParams(temperature_schedule=POINTS, temperature=0.7, top_k=5, order="vllm")
    assert str(build_chain(params)) == "temperature_schedule → top_k → dist"
    assert str(build_chain(params.replace(temperature=0))) == "temperature → greedy"
    mirostat = SamplingParams(temperature_schedule=POINTS, mirostat=2, top_k=5)
    assert str(build_chain(mirostat)) == "temperature_schedule → mirostat_v2"


def test_an_order_that_leaves_the_temperature_out_is_refused():
    with pytest.raises(ParameterError, match="omits temperature, which the parameters turn on"):
        SamplingParams(temperature_schedule=POINTS, order=["top_k"])


def test_a_dynamic_temperature_is_around_it():
    given, dynamic = {"temperature_schedule": [[0, 1.0], [4, 2.0]]}, {"dynatemp_range": 0.5}
    result = apply_sampler(TemperatureSchedule(), ROW, {**given, **dynamic}, outputs=[[1, 1]])
    np.testing.assert_array_equal(result, apply_sampler(Temperature(), ROW, {"temperature": 1.5, **dynamic}))


@pytest.mark.parametrize(
    "wrong",
    [
        [[1, 1.0], [1, 2.0]],
        [[2, 1.0], [1, 2.0]],
        [[0, 0.0]],
        [[0, 1e7]],
        [[-1, 1.0]],
        [[0]],
        [[0, 1.0]] * 65,
        3,
    ],
)
def test_other_schedules_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"temperature_schedule=.*\[\[tokens, temperature\], …\]"):
        SamplingParams(temperature_schedule=wrong)
