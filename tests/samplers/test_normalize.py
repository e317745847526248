import numpy as np

from engine_sampler import SamplingParams, process_logits

ROW = np.random.default_rng(5).normal(2, 3, 40).astype(np.float32)


def test_the_repetition_penalty_then_applies_to_logprobs():
    params = SamplingParams(repetition_penalty=1.4, repetition_penalty_normalize=True)
    result = process_logits(ROW[None], params, prompt_token_ids=[[3, 8, 3]])[0]
    expected = ROW.astype(np.float64) - np.log(np.exp(ROW.astype(np.float64)).sum())
    expected[[3, 8]] *= 1.4
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
