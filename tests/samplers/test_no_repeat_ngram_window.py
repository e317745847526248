import numpy as np

from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.samplers.no_repeat_ngram_window import NoRepeatNgramWindow
from engine_sampler.testing import apply_sampler
from tests.drawing import examples, integers, lists

tokens = lists(integers(0, 3), 14)


@examples(1000, integers(1, 4), integers(1, 12), lists(integers(0, 3), 2), tokens, tokens)
def test_only_ngrams_within_the_window_count_and_no_listed_token(n, window, listed, prompt, output):
    history = prompt + output
    recent = history[-window:]
    ngrams = {tuple(recent[i : i + n]) for i in range(len(recent) - n + 1)}
    prefix = tuple(history[len(history) - n + 1 :])
    banned = {t for t in range(4) if len(history) >= n - 1 and (*prefix, t) in ngrams} - {*listed}
    params = SamplingParams(
        no_repeat_ngram_size=n, no_repeat_ngram_window=window, no_repeat_ngram_whitelist_ids=listed
    )
    row = apply_sampler(NoRepeatNgramWindow(), np.zeros(5), params, prompts=[prompt], outputs=[output])
    assert set(np.flatnonzero(row == -np.inf).tolist()) == banned


def test_it_stands_in_the_place_of_the_sampler_that_orders_name():
    params = SamplingParams(
        no_repeat_ngram_size=3,
        no_repeat_ngram_window=90,
        top_k=5,
        order=["top_k", "no_repeat_ngram"],
    )
    assert str(build_chain(params)) == "top_k → no_repeat_ngram_window → dist"
    without = SamplingParams(no_repeat_ngram_window=90, no_repeat_ngram_whitelist_ids=[1])
    assert str(build_chain(without)) == "dist"
