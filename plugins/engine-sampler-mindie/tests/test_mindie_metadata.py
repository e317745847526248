"""MindIE's newer interface: `SamplingMetadata` in, `SamplingOutput` out."""

import inspect

import numpy as np
import pytest
from engine_sampler_mindie import (
    InconsistencyError,
    OutOfBoundsError,
    Sampler,
    SamplingData,
    SamplingMetadata,
    SamplingOutput,
    SamplingParam,
    UnsupportedTypeError,
)
from mindie_reference import penalised, processed

from engine_sampler import Scheduler
from engine_sampler.arithmetic import child_seed

VOCAB = 40
LOGITS = np.random.default_rng(4).normal(size=(3, VOCAB)).astype(np.float32)
FLAT = np.zeros((3, VOCAB), np.float32)


def metadata(**fields):
    return SamplingMetadata.from_numpy([[5], [6], [7]], **fields)


def test_the_tokens_equal_those_of_the_older_pair():
    settings = {"temperature": np.array([2.0, 0.0, 3.0]), "top_k": np.array([0, 0, 9])}
    seeds = np.array([1, 2, 3])
    sampler, older = Sampler(), Sampler()
    for step in range(5):
        output = sampler.sample(LOGITS, metadata(**settings, seeds=seeds, is_prefill=step == 0))
        assert isinstance(output, SamplingOutput)
        data = SamplingData(is_prefill=step == 0, request_ids=[5, 6, 7])
        tokens, scores = older.sample(LOGITS, data, SamplingParam(**settings, seed=seeds))
        assert output.token_ids.tolist() == tokens.tolist()
        assert output.logprobs[[0, 2]].tolist() == scores[[0, 2]].tolist()
        assert output.to_deprecated()[0] is output.token_ids


def test_arguments_have_mindies_names_and_order():
    assert list(inspect.signature(SamplingMetadata.from_numpy).parameters) == [
        "batch_sequence_ids", "reserved_sequence_ids", "is_prefill", "repetition_penalty",
        "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p", "do_sample",
        "top_logprobs", "seeds", "num_top_tokens", "n", "best_of", "use_beam_search", "output_lengths",
        "cumulative_logprobs", "to_tensor", "all_sequence_ids", "is_seq_prefill", "is_mix", "cache_ids",
        "random_number_generators",
    ]  # fmt: skip


def test_arguments_for_beam_search_and_mindies_memory_have_no_effect():
    ignored = {"num_top_tokens": [5] * 3, "n": [1] * 3, "output_lengths": [1] * 3, "cache_ids": [0, 1, 2]}
    settings = {"do_sample": np.full(3, True), "seeds": np.arange(3), "use_beam_search": np.full(3, False)}
    plain = Sampler().sample(LOGITS, metadata(**settings))
    same = Sampler().sample(LOGITS, metadata(**settings, **ignored, is_mix=True, all_sequence_ids=[5, 6, 7]))
    assert same.token_ids.tolist() == plain.token_ids.tolist()


def test_every_field_of_the_output_is_filled():
    output = Sampler().sample(LOGITS, metadata(cumulative_logprobs=np.array([-1.0, -2.0, -3.0])))
    assert output.sequence_ids.tolist() == output.parent_sequence_ids.tolist() == [5, 6, 7]
    assert output.group_indices == [(0, 1), (1, 2), (2, 3)]
    assert output.repeating_indices.tolist() == [0, 1, 2]
    assert output.token_ids.dtype == np.int64
    assert output.token_ids.tolist() == LOGITS.argmax(axis=1).tolist()
    assert output.logprobs.tolist() == [-9999.0] * 3
    assert output.top_token_ids.shape == output.top_logprobs.shape == (3, 0)
    assert output.cumulative_logprobs.tolist() == [-1.0, -2.0, -3.0]
    assert output.num_new_tokens.tolist() == [1, 1, 1]
    assert output.num_top_tokens.tolist() == [0, 0, 0]
    assert output.seeds.shape == (3,)
    assert output.is_structured_accepted is None


@pytest.mark.parametrize("given", [None, np.zeros(3), np.zeros(3, np.float16)])
def test_cumulative_logprobs_are_float32(given):
    request = metadata(cumulative_logprobs=given, do_sample=np.full(3, True))
    assert Sampler().sample(LOGITS, request).cumulative_logprobs.dtype == np.float32


def test_token_ids_and_logprobs_are_of_the_logits_library_by_request(monkeypatch):
    moved = []

    def like(model, values, dtype):
        moved.append((model, dtype))
        return values.tolist()

    monkeypatch.setattr("engine_sampler_mindie.output.like", like)
    request = metadata(do_sample=np.full(3, True), seeds=[1, 2, 3], top_logprobs=[2, 2, 2])
    expected = Sampler().sample(LOGITS, request)
    assert not moved
    output = Sampler(return_tensors=True).sample(LOGITS, request)
    assert [dtype for _, dtype in moved] == ["int64", "int64", "float32", "float32", "float32"]
    assert all(model is LOGITS for model, _ in moved)
    for name in ("token_ids", "top_token_ids", "logprobs", "top_logprobs", "cumulative_logprobs"):
        assert getattr(output, name) == getattr(expected, name).tolist()


def test_top_logprobs_of_a_greedy_row_are_those_of_the_penalised_logits():
    requested = np.array([0, 2, 5])
    request = metadata(repetition_penalty=np.full(3, 1.5), top_logprobs=requested)
    request.update_token_ids(np.tile([1, 2, 3], (3, 1)), None)
    output = Sampler().sample(LOGITS, request)
    assert output.num_top_tokens.tolist() == requested.tolist()
    for row in (1, 2):
        logits = penalised(LOGITS[row], [1, 2, 3], [], 1.5)
        logprobs = logits - np.log(np.exp(logits).sum())
        best = np.argsort(-logits)[: requested[row]]
        assert output.token_ids[row] == best[0]
        assert output.logprobs[row] == pytest.approx(logprobs.max(), abs=1e-5)
        assert output.top_token_ids[row, : requested[row]].tolist() == best.tolist()
        assert output.top_logprobs[row, : requested[row]] == pytest.approx(logprobs[best], abs=1e-5)
    assert (output.top_token_ids[1, 2:] == -1).all()
    assert (output.top_logprobs[1, 2:] == -9999).all()
    assert (output.top_token_ids[0] == -1).all()


def test_top_logprobs_of_a_sampled_row_are_those_it_was_drawn_from():
    request = metadata(
        temperature=np.full(3, 2.0),
        top_k=np.array([3, 0, 10]),
        seeds=np.arange(3),
        top_logprobs=np.full(3, 20),
    )
    output = Sampler().sample(LOGITS, request)
    for row, k in enumerate([3, 0, 10]):
        shares = processed(LOGITS[row], [], [], temperature=2.0, top_k=k)
        listed = min(k or VOCAB, 20)
        best = np.argsort(-shares, kind="stable")[:listed]
        assert output.top_token_ids[row, :listed].tolist() == best.tolist()
        assert output.top_logprobs[row, :listed] == pytest.approx(np.log(shares[best]), abs=1e-5)
        assert (output.top_token_ids[row, listed:] == -1).all()
        assert output.logprobs[row] == pytest.approx(np.log(shares[output.token_ids[row]]), abs=1e-5)
        assert output.cumulative_logprobs[row] == output.logprobs[row]


def test_best_of_begins_siblings_under_the_reserved_ids():
    request = SamplingMetadata.from_numpy(
        [[5], [6], [7]],
        [[50, 51], [], [70]],
        seeds=np.array([11, 12, 13]),
        best_of=np.array([3, 1, 2]),
        top_logprobs=np.array([0, 1, 0]),
    )
    output = Sampler().sample(FLAT, request)
    assert output.sequence_ids.tolist() == [5, 50, 51, 6, 7, 70]
    assert output.parent_sequence_ids.tolist() == [5, 5, 5, 6, 7, 7]
    assert output.repeating_indices.tolist() == [0, 0, 0, 1, 2, 2]
    assert output.group_indices == [(0, 3), (3, 4), (4, 6)]
    half = 2**63
    assert output.seeds.tolist() == [
        11, child_seed(11, 1) % half, child_seed(11, 2) % half, 12, 13, child_seed(13, 1) % half,
    ]  # fmt: skip
    assert output.logprobs[[0, 1, 2, 4, 5]] == pytest.approx(-np.log(VOCAB), abs=1e-5)


def test_siblings_continue_independently_with_their_own_seeds():
    sampler = Sampler()
    request = SamplingMetadata.from_numpy([[5]], [[50, 51]], seeds=np.array([11]), best_of=np.array([3]))
    tokens = [sampler.sample(FLAT[:1], request).token_ids]
    later = SamplingMetadata.from_numpy(
        [[5, 50, 51]],
        is_prefill=False,
        seeds=np.array([11]),
        do_sample=np.array([True]),
        best_of=np.array([3]),
    )
    tokens += [sampler.sample(FLAT, later).token_ids for _ in range(20)]
    sequences = np.array(tokens).T.tolist()
    assert len({tuple(sequence) for sequence in sequences}) == 3
    for sequence, number in zip(sequences, range(3), strict=True):
        independent = Sampler()
        seed = np.array([child_seed(11, number) % 2**63 if number else 11])
        drawn = [
            independent.sample(
                FLAT[:1],
                SamplingData(is_prefill=step == 0, request_ids=[1]),
                SamplingParam(seed=seed, do_sample=[True]),
            )[0][0]
            for step in range(21)
        ]
        assert sequence == drawn


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_siblings_of_plain_calls_go_on_sampling_after_their_first_token(mode):
    begin = SamplingMetadata.from_numpy([[5]], [[50, 51]], seeds=np.array([11]), best_of=np.array([3]))
    ids = [[5, 50, 51]]
    explicit = SamplingMetadata.from_numpy(ids, is_prefill=False, do_sample=np.full(3, True))
    for plain in (
        SamplingMetadata.from_numpy(ids, is_prefill=False),
        SamplingMetadata.from_numpy(ids, is_prefill=False, temperature=np.ones(3), top_k=np.zeros(3, int)),
        SamplingMetadata.from_numpy(ids, is_prefill=False, best_of=np.full(3, 3)),
    ):
        one, other = Sampler(mode=mode), Sampler(mode=mode)
        one.sample(FLAT[:1], begin)
        other.sample(FLAT[:1], begin)
        for _ in range(10):
            drawn = one.sample(FLAT, plain).token_ids.tolist()
            assert drawn == other.sample(FLAT, explicit).token_ids.tolist()


def test_a_request_that_has_sampled_keeps_its_settings_until_others_are_given():
    sampler, other = Sampler(), Sampler()
    settings = {"temperature": np.array([3.0, 0.0, 2.0]), "top_k": [5, 0, 9], "top_p": [1.0, 1.0, 0.9]}
    for step in range(8):
        plain = {"seeds": [1, 2, 3]} | settings if step == 0 else {}
        drawn = sampler.sample(LOGITS, metadata(is_prefill=step == 0, **plain)).token_ids.tolist()
        expected = other.sample(LOGITS, metadata(is_prefill=step == 0, seeds=[1, 2, 3], **settings))
        assert drawn == expected.token_ids.tolist()
    for greedy in ({"do_sample": np.full(3, False)}, {"temperature": np.zeros(3)}, {}):
        drawn = sampler.sample(LOGITS, metadata(is_prefill=False, **greedy)).token_ids.tolist()
        assert drawn == LOGITS.argmax(axis=1).tolist()
    drawn = sampler.sample(LOGITS, metadata()).token_ids.tolist()  # a prefill begins anew
    assert drawn == LOGITS.argmax(axis=1).tolist()


def test_siblings_without_a_seed_get_different_ones():
    request = SamplingMetadata.from_numpy([[5]], [range(50, 80)], best_of=np.array([20]))
    output = Sampler().sample(FLAT[:1], request)
    assert len(set(output.seeds.tolist())) == 20
    assert len(output.token_ids) == 20


def test_a_guided_bitmask_constrains_its_row():
    request = metadata(do_sample=np.array([True, False, True]), seeds=np.arange(3))
    sampler = Sampler()
    tokens_by_row = [set(), set(), set()]
    for step in range(40):
        mask = np.full((3, 2), -1, np.int32)
        mask[0] = [0, 1 << 4 | 1 << 6]
        mask[1] = [1 << 9, 0]
        request.guided_bitmask = mask
        request.is_prefill = step == 0
        output = sampler.sample(FLAT, request)
        for row in range(3):
            tokens_by_row[row].add(int(output.token_ids[row]))
        assert output.is_structured_accepted.tolist() == [True] * 3
    assert tokens_by_row[0] == {36, 38}
    assert tokens_by_row[1] == {9}
    assert len(tokens_by_row[2]) > 10


def test_a_mask_may_come_and_go_without_changing_the_draws():
    settings = {"do_sample": np.full(3, True), "seeds": np.arange(3)}
    plain, masked = Sampler(), Sampler()
    for step in range(6):
        request = metadata(**settings, is_prefill=step == 0)
        expected = plain.sample(LOGITS, request).token_ids.tolist()
        request.guided_bitmask = np.full((3, 2), -1, np.int32) if step % 2 else None
        assert masked.sample(LOGITS, request).token_ids.tolist() == expected


def test_siblings_share_the_mask_of_their_row():
    request = SamplingMetadata.from_numpy([[5]], [[50, 51]], best_of=np.array([3]))
    request.guided_bitmask = np.array([[1 << 7, 0]], np.int32)
    assert Sampler().sample(FLAT[:1], request).token_ids.tolist() == [7, 7, 7]


def test_a_mixed_batch_declares_prefills_row_by_row():
    sampler = Sampler()
    settings = {"do_sample": np.full(3, True), "seeds": np.array([1, 2, 3])}
    first = sampler.sample(FLAT, metadata(**settings)).token_ids.tolist()
    second = sampler.sample(FLAT, metadata(**settings, is_seq_prefill=np.array([True, False, True])))
    assert second.token_ids[[0, 2]].tolist() == [first[0], first[2]]
    reference = Sampler()
    reference.sample(FLAT, metadata(**settings))
    assert second.token_ids[1] == reference.sample(FLAT, metadata(**settings, is_prefill=False)).token_ids[1]


def test_settings_of_a_group_apply_to_all_its_sequences():
    request = SamplingMetadata.from_numpy(
        [[1, 2], [3]],
        do_sample=np.array([True, False]),
        top_k=np.array([1, 0]),
        temperature=np.array([1.0, 1.0]),
    )
    assert Sampler().sample(LOGITS, request).token_ids.tolist() == LOGITS.argmax(axis=1).tolist()
    assert request.do_sample_array.tolist() == [True, True, False]


def test_a_faulty_row_has_no_new_token():
    broken = LOGITS.copy()
    broken[0, 0] = np.inf
    output = Sampler().sample(broken, metadata(do_sample=np.full(3, True), top_logprobs=np.full(3, 2)))
    assert output.token_ids[0] == -1
    assert output.num_new_tokens.tolist() == [0, 1, 1]
    assert output.logprobs[0] == -9999
    assert (output.top_token_ids[0] == -1).all()


def test_torch_logits_are_read():
    torch = pytest.importorskip("torch")
    request = metadata(do_sample=np.full(3, True), seeds=np.arange(3))
    expected = Sampler().sample(LOGITS, request).token_ids
    assert Sampler().sample(torch.from_numpy(LOGITS), request).token_ids.tolist() == expected.tolist()
    half = torch.from_numpy(LOGITS).to(torch.bfloat16)
    siblings = SamplingMetadata.from_numpy(
        [[5], [6], [7]], [[8], [], []], best_of=np.array([2, 1, 1]), seeds=[1, 2, 3]
    )
    expected = Sampler().sample(half.float(), siblings).token_ids
    assert Sampler().sample(half, siblings).token_ids.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"is_prefill": None}, UnsupportedTypeError, "is_prefill=None"),
        ({"repetition_penalty": [0.0] * 3}, OutOfBoundsError, "repetition_penalty=0.0"),
        ({"temperature": [-1.0] * 3}, OutOfBoundsError, "temperature=-1.0"),
        ({"top_logprobs": [21] * 3}, OutOfBoundsError, "top_logprobs=21"),
        ({"seeds": [-2] * 3}, OutOfBoundsError, "seeds=-2"),
        ({"best_of": [0] * 3}, OutOfBoundsError, "best_of=0"),
        ({"best_of": [2] * 3}, InconsistencyError, "needs 1 reserved_sequence_ids, there are 0"),
        ({"best_of": [2] * 3, "temperature": [0.0] * 3}, InconsistencyError, "needs a temperature above 0"),
        ({"top_k": [1, 2]}, InconsistencyError, "top_k has 2 rows"),
        ({"all_sequence_ids": [5, 6, 8]}, InconsistencyError, "all_sequence_ids differ"),
        ({"reserved_sequence_ids": [[1]]}, InconsistencyError, "1 groups of 3"),
        (
            {"reserved_sequence_ids": [[6], [], []], "best_of": [2, 1, 1]},
            InconsistencyError,
            "reserved_sequence_ids.*twice",
        ),
    ],
)
def test_invalid_inputs_are_refused(fields, error, message):
    with pytest.raises(error, match=message):
        metadata(
            **{
                n: np.array(v) if n not in ("reserved_sequence_ids", "is_prefill") else v
                for n, v in fields.items()
            }
        )


@pytest.mark.parametrize("groups", [[], [[1], []], [[1], [1]]])
def test_groups_need_sequences_of_their_own(groups):
    with pytest.raises(InconsistencyError, match="batch_sequence_ids"):
        SamplingMetadata.from_numpy(groups)


def test_a_group_of_several_sequences_cannot_begin_siblings():
    with pytest.raises(InconsistencyError, match="a group of one sequence"):
        SamplingMetadata.from_numpy([[1, 2]], [[3]], best_of=np.array([2]))


def test_metadata_is_given_alone_and_fits_the_logits():
    with pytest.raises(InconsistencyError, match=r"sampling_metadata replaces .*: give it alone"):
        Sampler().sample(LOGITS, metadata(), SamplingParam())
    with pytest.raises(InconsistencyError, match=r"sampling_metadata replaces .*: give it alone"):
        Sampler().sample(LOGITS, SamplingData(), sampling_metadata=metadata())
    with pytest.raises(InconsistencyError, match="all_sequence_ids has 3 rows, logits has 2"):
        Sampler().sample(LOGITS[:2], metadata())
    with pytest.raises(UnsupportedTypeError, match="sampling_metadata of type int"):
        Sampler().sample(LOGITS, sampling_metadata=3)
    with pytest.raises(InconsistencyError, match="output_token_ids has 2 rows"):
        metadata().update_token_ids(None, np.ones((2, 1), int))
    output = Sampler().sample(LOGITS, sampling_metadata=metadata())
    assert output.token_ids.tolist() == LOGITS.argmax(axis=1).tolist()


def test_the_first_sibling_draws_as_the_librarys():
    """Sibling 0 of add_group and of best_of draw alike; the others' seeds are truncated to 63 bits here."""
    from engine_sampler import SamplingParams

    scheduler = Scheduler(VOCAB)
    first, _ = scheduler.add_group(SamplingParams(seed=11, n=2), [])
    request = SamplingMetadata.from_numpy([[5]], [[50]], seeds=np.array([11]), best_of=np.array([2]))
    expected = scheduler.step(np.repeat(LOGITS[:1], 2, axis=0)).token_ids[0]
    assert Sampler().sample(LOGITS[:1], request).token_ids[0] == expected
    assert scheduler.record(first).token_ids == [expected]
