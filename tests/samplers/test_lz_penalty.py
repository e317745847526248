import math

import numpy as np

from engine_sampler.samplers.lz_penalty import LzPenalty
from engine_sampler.testing import apply_sampler
from tests.drawing import examples, integers, lists

VOCAB = 6


def savings(window, n):
    """What the definition saves on each token, place by place, in bits."""
    cost = [math.log2(VOCAB)] * VOCAB
    for place in range(n, len(window)):
        match = 0
        while match < n and window[place - 1 - match] == window[len(window) - 1 - match]:
            match += 1
        m, distance = match + 1, len(window) - place
        bits = (math.log2(distance + 1) + math.log2(m)) / m
        cost[window[place]] = min(cost[window[place]], max(bits, 0.0))
    return [math.log2(VOCAB) - c for c in cost]


@examples(300, integers(1, 5), integers(1, 25), lists(integers(0, 4), 40), lists(integers(0, 4), 5))
def test_each_token_loses_what_a_compressor_would_save_on_it(n, window, output, prompt):
    row = np.linspace(-1, 2, VOCAB)
    params = {"lz_penalty": 0.7, "lz_penalty_ngram": n, "lz_penalty_window": window}
    result = apply_sampler(LzPenalty(), row, params, prompts=[prompt], outputs=[output])
    np.testing.assert_allclose(
        result, row - 0.7 * np.array(savings(output[-window:], n)), rtol=1e-5, atol=1e-6
    )
