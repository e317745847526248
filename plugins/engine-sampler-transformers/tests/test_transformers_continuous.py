"""Our draws inside transformers' continuous batching."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_transformers import ContinuousLogitsProcessor, continuous_batching
from transformers_models import EOS, byte_tokenizer, llama

from engine_sampler import ParameterError, SamplingParams, sample

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PROMPTS = [[5, 6, 7], [8, 9], [3] * 9, [4, 5, 4, 5], [30], [12, 13, 14, 15, 16, 17]]
SETTINGS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.8, top_p=0.9, seed=1),
    SamplingParams(repetition_penalty=1.4, frequency_penalty=0.5, seed=2),
    SamplingParams(dry_multiplier=0.8, dry_allowed_length=1, seed=3),
    SamplingParams(min_tokens=4, stop_token_ids=[7], top_k=20, seed=4),
    SamplingParams(temperature=1.5, xtc_probability=0.5, top_n_sigma=1.5, seed=5),
]


def config(**changes: Any) -> Any:
    return transformers.GenerationConfig(
        **{"max_new_tokens": 10, "do_sample": True, "eos_token_id": -1, "pad_token_id": 0, **changes}
    )


def small(**changes: Any) -> Any:
    """A cache of a few blocks, not one that fills the memory."""
    return transformers.ContinuousBatchingConfig(
        **{"num_blocks": 24, "page_size": 32, "max_batch_tokens": 24, "use_cuda_graph": False, **changes}
    )


def generated(model: Any, prompts: list[list[int]], generation_config: Any = None) -> list[list[int]]:
    outputs = model.generate_batch(
        prompts,
        generation_config=generation_config or config(),
        continuous_batching_config=small(),
        warmup=False,
    )
    return [output.generated_tokens for output in outputs.values()]


def added(
    model: Any, requests: list[tuple[list[int], dict[str, Any]]], **batching: Any
) -> dict[str, list[int]]:
    """The tokens of requests with parameters of their own, by their ids."""
    results: dict[str, list[int]] = {}
    manager = model.init_continuous_batching(config(), small(**batching))
    manager.start()
    try:
        names = [manager.add_request(prompt, **keywords) for prompt, keywords in requests]
        while len(results) < len(names):
            result = manager.get_result(timeout=60)
            assert result is not None
            if result.is_finished():
                assert result.error is None
                results[result.request_id] = result.generated_tokens
    finally:
        manager.stop(block=True)
    return results


# --- whole runs -----------------------------------------------------------------------------------


def test_each_request_of_a_batch_draws_what_it_draws_alone() -> None:
    """Prompts are prefilled in parts, as the batch has fewer tokens than they; some requests end early."""
    model = llama(40)
    requests = [
        (prompt, {"sampling_params": params, "max_new_tokens": 4 + i})
        for i, (prompt, params) in enumerate(zip(PROMPTS, SETTINGS, strict=True))
    ]
    with continuous_batching(model):
        together = added(model, requests)
        few = added(model, requests, max_batch_tokens=5)
        alone = [added(model, [request])["req_0"] for request in requests[1::2]]
    assert [together[f"req_{i}"] for i in range(1, len(requests), 2)] == alone
    assert few == together
    assert len({*map(tuple, together.values())}) == len(requests)


def test_histories_are_those_of_the_requests() -> None:
    """Each token again, from the model's own logits for the request's prompt and output."""
    model, prompt = llama(40), PROMPTS[3]
    with continuous_batching(model):
        requests = [(p, {"sampling_params": s}) for p, s in zip(PROMPTS, SETTINGS, strict=True)]
        output = added(model, requests)["req_3"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1].float().numpy()
    for i, row in enumerate(logits):
        drawn = sample(row[None], SETTINGS[3], prompt_token_ids=[prompt], output_token_ids=[output[:i]])
        assert drawn.token_ids.tolist() == [output[i]]


@pytest.mark.parametrize(
    "settings",
    [{"do_sample": False}, {"do_sample": False, "repetition_penalty": 1.5}, {"top_k": 1}],
    ids=["greedy", "penalty", "top_k"],
)
def test_without_parameters_the_generation_configuration_counts(settings: dict[str, Any]) -> None:
    model = llama(40)
    with warnings.catch_warnings():  # transformers' own about penalties
        warnings.simplefilter("ignore")
        with continuous_batching(model):
            ours = generated(model, PROMPTS, config(**settings))
        for prompt, tokens in zip(PROMPTS, ours, strict=True):
            own = model.generate(
                torch.tensor([prompt]), generation_config=config(eos_token_id=None, **settings)
            )
            assert own[0, len(prompt) :].tolist() == tokens


def test_grammars_hold_for_the_requests_that_have_them() -> None:
    tokenizer = byte_tokenizer()
    model = llama(len(tokenizer), EOS)
    constrained = SamplingParams(regex="[ab]{3}c|x[0-9]{2}", seed=1)
    requests = [
        ([40, 41], {"sampling_params": constrained, "eos_token_id": EOS}),
        ([50], {"sampling_params": SamplingParams(seed=2), "eos_token_id": EOS}),
        (
            [40, 42],
            {"sampling_params": SamplingParams(choice=["left", "right"], seed=3), "eos_token_id": EOS},
        ),
    ]
    with continuous_batching(model, tokenizer=tokenizer, seed=0):
        manager_config = added(model, requests)
    texts = [tokenizer.decode(manager_config[f"req_{i}"], skip_special_tokens=True) for i in range(3)]
    assert re.fullmatch("[ab]{3}c|x[0-9]{2}", texts[0])
    assert not re.fullmatch("[ab]{3}c|x[0-9]{2}", texts[1])
    assert texts[2] in ("left", "right")


def test_siblings_and_requests_without_a_seed_draw_by_the_seed_of_the_batch() -> None:
    model = llama(40)

    def run(seed: int) -> list[list[int]]:
        with continuous_batching(model, SamplingParams(temperature=1.2), seed=seed):
            return generated(model, PROMPTS[:2], config(num_return_sequences=2))

    first = run(3)
    assert first == run(3)
    assert first != run(4)
    assert len({*map(tuple, first)}) == 4


def test_after_the_block_everything_is_transformers_own() -> None:
    model = llama(40)
    warm, greedy = SamplingParams(temperature=9.0), lambda name: SamplingParams(temperature=0.0)
    with continuous_batching(model, warm), continuous_batching(model, greedy):
        ours = generated(model, PROMPTS[:2])
        prompt = torch.tensor([PROMPTS[0]])
        assert model.generate(prompt, generation_config=config(eos_token_id=None)).shape == (1, 13)
    assert "init_continuous_batching" not in vars(model)
    assert generated(model, PROMPTS[:2], config(do_sample=False)) == ours


# --- the processor --------------------------------------------------------------------------------


def state_of(name: str, prompt: list[int], output: list[int], **changes: Any) -> Any:
    plain = {"_true_initial_tokens": 0, "_eos_token_ids": set(), "logit_processor_kwargs": {}}
    state = SimpleNamespace(
        request_id=name, initial_tokens=prompt, generated_tokens=output, **{**plain, **changes}
    )
    return SimpleNamespace(state=state)


def drawn_by(processor: Any, requests: list[Any], scores: np.ndarray) -> list[int]:
    arguments = processor.prepare_tensor_args(requests)
    assert arguments.dtype == torch.int32
    out = processor(torch.tensor(scores), arguments)
    assert ((out > -torch.inf).sum(1) == 1).all()
    return out.argmax(1).tolist()


@pytest.mark.parametrize("is_late", [False, True])
def test_requests_arrive_end_and_are_put_off(is_late: bool) -> None:
    """As transformers' scheduler does it: a request that is put off comes back with its output as a part of
    its prompt."""
    random = np.random.default_rng(5)
    processor = ContinuousLogitsProcessor(SamplingParams(frequency_penalty=0.7, top_k=12), seed=9)
    states: dict[str, Any] = {}
    truth: dict[str, tuple[list[int], list[int]]] = {}
    waiting: list[tuple[str, int]] = []
    for step in range(80):
        for name in [n for n in states if random.random() < 0.08]:
            del states[name]
        for name in [n for n in states if random.random() < 0.1]:
            prompt, output = truth[name]
            states[name] = state_of(name, prompt + output, [], _true_initial_tokens=len(prompt))
            waiting = [pair for pair in waiting if pair[0] != name]
        if len(states) < 4:
            name, prompt = f"req_{step}", random.integers(0, 40, 4).tolist()
            truth[name], states[name] = (prompt, []), state_of(name, prompt, [])
        rows = [n for n in states if random.random() < 0.9] or list(states)
        scores = random.normal(0, 2, (len(rows), 40)).astype(np.float32)
        tokens = drawn_by(processor, [states[name] for name in rows], scores)
        arrived, waiting = waiting, list(zip(rows, tokens, strict=True))
        if not is_late:
            arrived, waiting = arrived + waiting, []
        for name, token_id in arrived:
            if name in states:
                states[name].state.generated_tokens.append(token_id)
        for name, row, token_id in zip(rows, scores, tokens, strict=True):
            prompt, output = truth[name]
            params = processor._rows[name].params
            drawn = sample(row[None], params, prompt_token_ids=[prompt], output_token_ids=[output])
            assert drawn.token_ids.tolist() == [token_id]
            output.append(token_id)


def test_wrong_parameters_end_their_request_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    processor = ContinuousLogitsProcessor(SamplingParams(temperature=0.0), eos_token_ids=[EOS])
    wrong = [SamplingParams(max_tokens=4), SamplingParams(regex="a+")]  # no tokenizer knows an a
    requests = [
        state_of(f"r{i}", [3], [], logit_processor_kwargs={"sampling_params": params})
        for i, params in enumerate(wrong)
    ]
    tokens = drawn_by(
        processor, [*requests, state_of("r2", [3], [])], np.tile(np.arange(40, dtype=np.float32), (3, 1))
    )
    assert tokens == [EOS, EOS, 39]
    assert "max_tokens" in caplog.text
    assert "regex" in caplog.text
    with pytest.raises(ParameterError, match="max_tokens"), continuous_batching(llama(40), wrong[0]):
        pass


def test_rows_of_padding_stay_as_they_are_and_faulty_ones_get_a_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    processor = ContinuousLogitsProcessor(SamplingParams())
    scores = torch.zeros(3, 40)
    scores[0, :3], scores[0, 9] = torch.nan, 2.0
    arguments = processor.prepare_tensor_args([state_of("a", [1], []), state_of("b", [1], [])])
    out = processor(scores, arguments)
    assert out[0].argmax() == 9
    assert torch.equal(out[2], scores[2])
    assert "request a" in caplog.text
