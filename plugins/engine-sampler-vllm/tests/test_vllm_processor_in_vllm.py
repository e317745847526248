"""The processor inside vLLM itself: its loaders, its V1 sampler, its V2 states and contexts, on a CPU."""

from __future__ import annotations

import random
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm_protocol import EXTRA_ARGS, VOCAB, FakeRequest, Params, Runner, logits, tokens

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("vllm.v1.sample.sampler")
    from engine_sampler_vllm.logits_processor import EngineSampler
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.sample import logits_processor as v1
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu.sample import logits_processor as v2

NAME = "engine_sampler_vllm.logits_processor:EngineSampler"
CONFIG = SimpleNamespace(
    speculative_config=None,
    scheduler_config=SimpleNamespace(max_num_seqs=8),
    model_config=SimpleNamespace(seed=0, skip_tokenizer_init=True),
    reasoning_config=None,
)


@pytest.fixture(autouse=True)
def no_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's source without its build does not detect that there is no GPU."""
    if not torch.cuda.is_available():
        monkeypatch.setattr("vllm.utils.torch_utils.PIN_MEMORY", False)


def vllm_params(params: Params, **more: Any) -> SamplingParams:
    return SamplingParams(seed=params.seed, extra_args=params.extra_args, **more)


# --- loading and validation --------------------------------------------------------------------------


def test_it_is_a_processor_of_both_runners() -> None:
    assert issubclass(EngineSampler, v1.LogitsProcessor)
    assert issubclass(EngineSampler, v2.LogitsProcessor)


def test_v1_loads_it_by_name_as_one_that_may_change_the_best_token() -> None:
    loaded = v1.build_logitsprocs(CONFIG, torch.device("cpu"), False, False, [NAME])
    assert [type(p) for p in loaded.non_argmax_invariant].count(EngineSampler) == 1


def test_v2_loads_it_by_name() -> None:
    states = SimpleNamespace(device="cpu", max_num_reqs=4, vocab_size=VOCAB, **_buffers(Runner(4)))
    (processor,) = v2.build_custom_logits_processors(CONFIG, states, False, [NAME])
    assert type(processor) is EngineSampler


@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_bad_arguments_are_refused_at_admission(runner: str) -> None:
    def validate(params: SamplingParams) -> None:
        if runner == "V1":
            v1.validate_logits_processors_parameters([NAME], params)
        else:
            v2.build_custom_logits_processors_params_validator([NAME])(params)

    validate(SamplingParams(extra_args={"dry_multiplier": 0.8, "other": 1}))
    for extra in ({"dry_multplier": 0.8}, {"xtc_probability": 2}, {"mirostat": 2}, {"logit_bias": {1: 1}}):
        with pytest.raises(VLLMValidationError, match=f"{next(iter(extra))}.*(allowed|did you mean)"):
            validate(SamplingParams(extra_args=extra))
    with pytest.raises(VLLMValidationError, match=r"temperature=0.8 .*with dynatemp_range"):
        validate(SamplingParams(temperature=0.8, extra_args={"dynatemp_range": 0.1}))


def test_a_greedy_request_of_vllms_may_enable_our_penalties() -> None:
    validate = v2.build_custom_logits_processors_params_validator([NAME])
    validate(SamplingParams(temperature=0.0, top_p=0.5, extra_args=EXTRA_ARGS[0] | {"top_a": 0.1}))


# --- V1 ----------------------------------------------------------------------------------------------


def _metadata(requests: list[FakeRequest], processors: Any, greedy: bool) -> SamplingMetadata:
    n = len(requests)
    return SamplingMetadata(
        temperature=None if greedy else torch.ones(n),
        all_greedy=greedy,
        all_random=not greedy,
        top_p=None,
        top_k=None,
        generators={i: torch.Generator().manual_seed(i) for i in range(n)},
        max_num_logprobs=0,
        prompt_token_ids=None,
        frequency_penalties=torch.zeros(n),
        presence_penalties=torch.zeros(n),
        repetition_penalties=torch.ones(n),
        output_token_ids=[r.output for r in requests],
        spec_token_ids=[[] for _ in requests],
        no_penalties=True,
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=processors,
    )


@pytest.mark.parametrize("greedy", [True, False])
def test_its_v1_sampler_draws_from_our_rows_while_requests_arrive_move_and_leave(greedy: bool) -> None:
    rng = random.Random(int(greedy))
    processors = v1.build_logitsprocs(CONFIG, torch.device("cpu"), False, False, [NAME])
    builder, sampler = v1.BatchUpdateBuilder(), Sampler(logprobs_mode="processed_logits")
    requests: list[FakeRequest] = []
    for step in range(30):
        if len(requests) < 6 and (not requests or rng.random() < 0.5):
            extra = rng.choice([*EXTRA_ARGS, None])
            requests.append(FakeRequest(Params(extra, seed=step), tokens(rng, 6)))
            params = vllm_params(requests[-1].params, temperature=0.0 if greedy and not extra else 1.0)
            builder.added.append((len(requests) - 1, params, requests[-1].prompt, requests[-1].output))
        elif rng.random() < 0.4:
            row = rng.randrange(len(requests))
            builder.removed_append(row)
            if row < len(requests) - 1:
                builder.moved.append((len(requests) - 1, row, v1.MoveDirectionality.UNIDIRECTIONAL))
                requests[row] = requests[-1]
            requests.pop()
        if len(requests) > 1 and rng.random() < 0.4:
            a, b = rng.sample(range(len(requests)), 2)
            builder.moved.append((a, b, v1.MoveDirectionality.SWAP))
            requests[a], requests[b] = requests[b], requests[a]
        update = builder.get_and_reset(len(requests))
        for processor in processors.all:
            processor.update_state(update)
        if not requests:
            continue
        values = logits(rng, len(requests))
        expected = [r.expected(row) for r, row in zip(requests, values, strict=True)]
        drawn = sampler(torch.from_numpy(values.copy()), _metadata(requests, processors, greedy))
        chosen = drawn.sampled_token_ids[:, 0].tolist()
        for i, token in enumerate(chosen):
            assert expected[i][token] > -np.inf
            assert drawn.logprobs_tensors.logprobs[i, 0].item() == pytest.approx(expected[i][token])
            if greedy:
                assert token == int(expected[i].argmax())
            requests[i].output.append(token)


# --- V2 ----------------------------------------------------------------------------------------------


def _buffers(runner: Runner) -> dict[str, Any]:
    names = ("all_token_ids", "prompt_len", "prefill_len", "total_len")
    return {name: getattr(runner, name) for name in names}


def test_it_reads_v2_states_and_contexts() -> None:
    rng = random.Random(3)
    runner = Runner(3, lambda values: torch.from_numpy(values.copy()))
    state = v2.LogitsProcRequestState(torch.device("cpu"), 3, VOCAB, **_buffers(runner))
    processor = EngineSampler(CONFIG, state)
    for slot in range(3):
        runner.assign(slot, FakeRequest(Params(EXTRA_ARGS[slot], seed=slot), tokens(rng, 5)))
        assert processor.add_request(slot, vllm_params(runner.requests[slot].params)) is True
        runner.commit(slot, [rng.randrange(6)])
    parts = [(slot, 5, tokens(rng, 2)) for slot in (2, 0, 1)]
    context = v2.LogitsContext(**vars(runner.context(parts)), seq_lens_upper_bound_np=np.full(3, 8, np.int32))
    values = logits(rng, 9)
    result = processor.apply(torch.from_numpy(values.copy()), context)
    assert result.dtype == torch.float32
    for row in range(9):
        slot, _, drafts = parts[row // 3]
        expected = runner.requests[slot].expected(values[row], drafts[: row % 3])
        np.testing.assert_array_equal(result[row].numpy(), expected)


# --- text --------------------------------------------------------------------------------------------


def test_the_models_tokenizer_reads_parameters_given_as_text(tmp_path: Any) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {"a": 0, "b": 1, ":": 2, "c": 3, "<eos>": 4}
    fast = tokenizers.Tokenizer(tokenizers.models.BPE(words, [], byte_fallback=False))
    fast.decoder = tokenizers.decoders.Fuse()
    transformers.PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<eos>").save_pretrained(tmp_path)
    model = SimpleNamespace(
        seed=0, skip_tokenizer_init=False, hf_config=None, model="none", tokenizer=str(tmp_path),
        runner_type="generate", tokenizer_mode="hf", tokenizer_revision=None, trust_remote_code=False,
    )  # fmt: skip
    values = torch.zeros(1, 5)
    history = [0, 1, 2, 3, 0, 4, 0, 1, 2]  # the EOS in it ends nothing
    results = []
    for breakers in ([], [":"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            processor = EngineSampler(SimpleNamespace(model_config=model), "cpu", False)
        params = SamplingParams(extra_args={"dry_multiplier": 1.0, "dry_sequence_breakers": breakers})
        processor.update_state(
            v1.BatchUpdate(batch_size=1, removed=[], added=[(0, params, history[:4], history[4:])], moved=[])
        )
        results.append(processor.apply(values.clone())[0].tolist())
    assert results[0][3] < 0
    assert results[1] == [0.0] * 5
