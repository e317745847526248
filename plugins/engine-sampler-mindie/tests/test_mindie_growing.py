"""Calls that give the ids of the call before and the tokens drawn in it cost no more as these grow."""

import numpy as np
import pytest
from engine_sampler_mindie import Sampler, SamplingData, SamplingMetadata, SamplingParam
from mindie_requests import peak_memory

VOCAB, ROWS, ROOM = 30, 4, 60
RNG = np.random.default_rng(17)
STEPS = RNG.normal(size=(24, ROWS, VOCAB)).astype(np.float32) * 2
IDS = np.array([5, 3, 9, 7])
PLAIN = {"temperature": [1.5, 0.8, 2.0, 1.0], "top_k": [0, 9, 12, 5], "seed": [1, 2, 3, 4]}
PENALTIES = {"repetition_penalty": [1.5, 1.0, 1.2, 1.0], "frequency_penalty": [0.0, 0.4, 0.0, 0.0]}


class Buffers:
    """The ids of all rows in arrays that a caller keeps and goes on writing, padded."""

    def __init__(self, pad, dtype, from_the_left):
        self.prompts = [[1, 2, 3], [4], [5, 5, 6, 7], []]
        self.outputs = [[], [], [], []]
        self.pad, self.dtype, self.from_the_left = pad, dtype, from_the_left
        self.all_ids = np.full((ROWS, ROOM), pad, dtype)
        self.output = np.full((ROWS, ROOM), pad, dtype)
        self.write()

    def write(self):
        """Write the tokens, and keep the views of what is in use."""
        texts = [prompt + output for prompt, output in zip(self.prompts, self.outputs, strict=True)]
        for array, rows in ((self.all_ids, texts), (self.output, self.outputs)):
            width = max(map(len, rows))
            array[:] = self.pad
            for place, row in zip(array, rows, strict=True):
                start = width - len(row) if self.from_the_left else 0
                place[start : start + len(row)] = row
        self.seen = self.all_ids[:, : max(map(len, texts))], self.output[:, : max(map(len, self.outputs))]

    def add(self, tokens):
        for output, token in zip(self.outputs, tokens, strict=True):
            output.append(int(token))
        self.write()


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["no penalties", "penalties"])
@pytest.mark.parametrize("from_the_left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("with_ids", [True, False], ids=["cached", "without ids"])
def test_a_callers_own_buffers_are_read_in_each_call(with_ids, dtype, from_the_left, penalties):
    buffers = Buffers(VOCAB, dtype, from_the_left)
    settings = SamplingParam(**PLAIN, **penalties)
    sampler, ids = Sampler(), {"request_ids": IDS} if with_ids else {}
    for step, logits in enumerate(STEPS):
        if step in (7, 15):  # a token that was drawn is taken for another one, and one is taken back
            buffers.outputs[1][-1] = 2
            buffers.outputs[2].pop()
            buffers.write()
        if step == 11:  # one in the middle
            buffers.outputs[0][2] = 8
            buffers.write()
        all_ids, output = buffers.seen
        data = SamplingData(all_ids, output, is_prefill=step == 0, **ids)
        fresh = SamplingData(all_ids.astype(np.int64), output.astype(np.int64))
        expected = Sampler().sample(logits, fresh, settings)[0].tolist()
        tokens, _ = sampler.sample(logits, data, settings)
        assert tokens.tolist() == expected
        buffers.add(tokens)


@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["no penalties", "penalties"])
def test_metadata_that_is_used_again_is_read_in_each_call(penalties):
    settings = {("seeds" if name == "seed" else name): value for name, value in (PLAIN | penalties).items()}
    buffers, kept = Buffers(VOCAB, np.int64, False), None
    groups = IDS[:, None].tolist()
    steady, renewed = Sampler(), Sampler()
    for step, logits in enumerate(STEPS):
        if step == 5:
            buffers.outputs[2].pop()
            buffers.write()
        metadata = [SamplingMetadata.from_numpy(groups, is_prefill=step == 0, **settings) for _ in range(2)]
        kept = metadata[0] if step < 2 else kept
        if 8 <= step < 12:
            kept.temperature = metadata[1].temperature = np.float32([2.0, 2.0, 0.0, 1.0 + step])
        if step == 12:
            kept.temperature = metadata[1].temperature = metadata[0].temperature
        if step >= 14:
            lengths = np.array([len(output) for output in buffers.outputs])
        mask = np.full((ROWS, 1), 0x3FFF if step == 17 else -1, np.int32) if step in (17, 18) else None
        for one in (kept, metadata[1]):
            one.update_token_ids(*buffers.seen)
            one.guided_bitmask = mask
            if step >= 14:
                one.update_beam_search(np.zeros(ROWS), lengths)
        output = steady.sample(logits, kept)
        expected = renewed.sample(logits, metadata[1])
        assert output.token_ids.tolist() == expected.token_ids.tolist()
        assert output.seeds.tolist() == expected.seeds.tolist()
        if step == 20:
            for sampler in (steady, renewed):
                sampler.clear_cache(IDS[:1])
                sampler.sample(logits[:1], SamplingData([[1]], request_ids=IDS[:1]), SamplingParam(seed=[8]))
        buffers.add(output.token_ids)


@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["no penalties", "penalties"])
@pytest.mark.parametrize("newer", [False, True], ids=["pair", "metadata"])
def test_grown_ids_are_not_copied(penalties, newer):
    """40,000 tokens a row are 1,280 kB; the host compares a row at a time where they matter."""
    output = RNG.integers(0, VOCAB, (ROWS, 40_004))
    sampler = Sampler()
    names = {"seed": "seeds"} if newer else {}
    settings = {names.get(name, name): value for name, value in (PLAIN | penalties).items()}
    param = None if newer else SamplingParam(**settings)
    metadata = [
        SamplingMetadata.from_numpy(IDS[:, None].tolist(), is_prefill=first, **settings)
        for first in ((True, False) if newer else ())
    ]

    def call(step):
        width = 40_000 + step
        if newer:
            one = metadata[min(step, 1)]
            one.update_token_ids(output[:, :width], output[:, :width])
            return sampler.sample(STEPS[0], one).token_ids
        data = SamplingData(output[:, :width], output[:, :width], is_prefill=step == 0, request_ids=IDS)
        return sampler.sample(STEPS[0], data, param)[0]

    for step in range(3):
        output[:, 40_000 + step] = call(step)
    assert peak_memory(lambda: call(3)) < 150_000
