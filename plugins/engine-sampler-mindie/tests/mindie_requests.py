"""Three requests with prompts and settings, and their logits of several steps."""

import tracemalloc

import numpy as np
from engine_sampler_mindie import (
    Sampler,
    SamplingData,
    SamplingParam,
)
from mindie_reference import padded

VOCAB = 20
RNG = np.random.default_rng(9)
STEPS = RNG.normal(size=(12, 3, VOCAB)).astype(np.float32)
PROMPTS = [[1, 2, 3], [4], [5, 5, 6, 7]]
IDS = np.array([30, 10, 20])

SETTINGS = SamplingParam.from_numpy(
    repetition_penalty=np.array([1.2, 1.5, 1.0]),
    frequency_penalty=np.array([0.3, 0.0, 0.7]),
    presence_penalty=np.array([0.0, 0.4, 0.1]),
    temperature=np.array([0.9, 2.0, 0.0]),
    top_k=np.array([0, 8, 3]),
    top_p=np.array([0.95, 1.0, 0.5]),
    seed=np.array([7, 8, 9]),
)

SETTINGS_OF_PROMPTS = SamplingParam(
    repetition_penalty=[1.2, 1.5, 1.0], temperature=[0.9, 2.0, 2.0], seed=[7, 8, 9]
)


def prompts():
    return SamplingData.from_numpy(padded(PROMPTS, VOCAB), request_ids=IDS)


def later(**tokens):
    return SamplingData.from_numpy(is_prefill=False, request_ids=IDS, **tokens)


def full_history(outputs):
    return padded([[*p, *o] for p, o in zip(PROMPTS, outputs, strict=True)], VOCAB)


def all_ids(outputs):
    return {"all_input_ids": full_history(outputs)}


def only_output_ids(outputs):
    return {"output_ids": padded(outputs, VOCAB)}


def both(outputs):
    return all_ids(outputs) | only_output_ids(outputs)


def stateless_run():
    """The same tokens from calls without cached state."""
    outputs = [[], [], []]
    tokens = []
    for logits in STEPS:
        data = SamplingData(full_history(outputs), np.array(outputs, int).reshape(3, -1))
        tokens.append(Sampler().sample(logits, data, SETTINGS)[0].tolist())
        for output, token in zip(outputs, tokens[-1], strict=True):
            output.append(token)
    return tokens


def peak_memory(call):
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
