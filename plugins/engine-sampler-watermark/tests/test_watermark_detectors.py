"""The detectors: what they find in marked texts, in 10,000 others, and beside those of peers."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import engine_sampler_watermark
import numpy as np
import pytest
from engine_sampler_watermark import GreenListDetector, GumbelDetector, SynthIDDetector
from engine_sampler_watermark.command import add_options, run
from engine_sampler_watermark.detection import binomial_tail, gamma_tail

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.testing import registered

VOCABULARY, LENGTH, PROMPT = 64, 60, (7, 8, 9, 10, 11)
KEYS = tuple(range(1, 10**6, 10**6 // 25))

Detect = Callable[[list[int]], engine_sampler_watermark.Detection]

MARKS: dict[str, tuple[dict[str, Any], Detect]] = {
    "gumbel": ({"watermark_gumbel_key": 77}, GumbelDetector(77).detect),
    "gumbel of sglang": (
        {"watermark_gumbel_key": 77, "watermark_gumbel_scheme": "sglang"},
        GumbelDetector(77, scheme="sglang").detect,
    ),
    "green list": ({"watermark_green_bias": 3.0}, GreenListDetector(VOCABULARY).detect),
    "synthid": ({"watermark_synthid_keys": KEYS}, SynthIDDetector(KEYS).detect),
}


def texts_of(mark: dict[str, Any], count: int, seed: int = 0) -> list[list[int]]:
    """Texts that a scheduler draws from random rows."""
    rng = np.random.default_rng(seed)
    with registered(engine_sampler_watermark):
        scheduler = Scheduler(VOCABULARY)
        ids = [scheduler.add(SamplingParams(seed=i, max_tokens=LENGTH, **mark), PROMPT) for i in range(count)]
        while scheduler.request_ids:
            scheduler.step(rng.normal(0, 1, (count, VOCABULARY)).astype(np.float32))
    return [list(scheduler.record(request_id).token_ids) for request_id in ids]


@pytest.mark.parametrize("name", MARKS)
def test_a_text_with_the_mark_is_found_and_another_key_finds_nothing(name: str) -> None:
    mark, detect = MARKS[name]
    assert np.median([detect(text).p_value for text in texts_of(mark, 20)]) < 1e-6
    assert np.median([detect(text).p_value for text in texts_of({}, 20)]) > 0.1


@pytest.mark.parametrize("name", MARKS)
def test_of_10_000_texts_without_the_mark_a_share_of_p_has_a_p_value_up_to_p(name: str) -> None:
    detect = MARKS[name][1]
    texts = np.random.default_rng(8).integers(0, VOCABULARY, (10_000, 16))
    p_values = np.array([detect(text).p_value for text in texts])
    for p in (0.1, 0.01, 0.001):
        # Whole numbers reach some p-values only, so there may be fewer; six deviations more are chance.
        assert (p_values <= p).mean() <= p + 6 * np.sqrt(p * (1 - p) / 10_000)
    assert (p_values <= 0.1).mean() > 0.05


def test_tails_are_those_of_the_distributions() -> None:
    assert gamma_tail(2.0, 1) == pytest.approx(np.exp(-2.0))
    assert gamma_tail(3.0, 3) == pytest.approx(np.exp(-3.0) * (1 + 3 + 4.5))
    assert binomial_tail(2, 3, 0.5) == pytest.approx(0.5)
    assert binomial_tail(3, 3, 0.25) == pytest.approx(0.25**3)
    assert (gamma_tail(0.0, 5), gamma_tail(1.0, 0), binomial_tail(0, 5, 0.1)) == (1.0, 1.0, 1.0)


def test_a_tail_of_millions_of_trials_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        assert binomial_tail(32_009_000, 64_000_000, 0.5) == pytest.approx(0.012228, rel=1e-4)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_a_detector_needs_its_key() -> None:
    with pytest.raises(ParameterError, match="watermark_gumbel_key=None is not allowed"):
        GumbelDetector(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MARKS)
def test_a_short_text_says_nothing(name: str) -> None:
    for text in ([], [5]):
        assert MARKS[name][1](text).p_value > 0.001


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("ids", [[-1, 2], [2**32], [0.5], [[1]], ["a"], [2**70], [[1], [1, 2]], [True, 1]])
def test_ids_that_are_none_are_refused(name: str, ids: list[Any]) -> None:
    with pytest.raises(ParameterError, match="token_ids"):
        MARKS[name][1](ids)


def test_the_command_reads_texts_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    texts = texts_of(MARKS["gumbel"][0], 2)
    (tmp_path / "texts").write_text("\n".join(map(json.dumps, texts)))
    parser = argparse.ArgumentParser()
    add_options(parser)
    run(parser.parse_args(["--gumbel", "0x4d", str(tmp_path / "texts")]))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == [MARKS["gumbel"][1](text)._asdict() for text in texts]
    gc.collect()  # not at the depth at which Python gives up: nothing could be finalized there
    for arguments in (["--green", "5"], ["--synthid", "1", "2", "--"]):
        for broken in ("[1, 2", "[" * 100_000):
            (tmp_path / "broken").write_text(broken)
            with pytest.raises(ValueError, match=r"line 1 .* is not allowed|--green needs --vocab-size"):
                run(parser.parse_args([*arguments, str(tmp_path / "broken")]))


# --- beside peers ---------------------------------------------------------------------------------


def test_vllm_finds_the_same_in_a_text() -> None:
    with _quiet():
        gumbel = pytest.importorskip("vllm.v1.watermarking.gumbel", reason="vllm is not installed")
    theirs = gumbel.GumbelWatermarkDetector(key=77)
    for text in texts_of(MARKS["gumbel"][0], 3) + texts_of({}, 3):
        ours, expected = MARKS["gumbel"][1](text), theirs.detect(text)
        assert ours.score == pytest.approx(expected.score, rel=1e-9)
        assert (ours.scored, ours.p_value) == (
            expected.num_scored_tokens,
            pytest.approx(expected.p_value, 1e-6),
        )


def test_sglang_finds_the_same_in_a_text() -> None:
    with _quiet():
        peer = pytest.importorskip("sglang.srt.sampling.watermarking", reason="sglang is not installed")
    theirs = peer.WatermarkDetector(f"{77:x}")
    for text in texts_of(MARKS["gumbel of sglang"][0], 3) + texts_of({}, 3):
        ours = GumbelDetector(77, scheme="sglang").detect(text, PROMPT)
        expected = theirs.detect_tokens(text, prompt_token_ids=PROMPT).combined
        assert ours == pytest.approx((expected.score, expected.num_contexts, expected.p_value), rel=1e-6)


def test_transformers_marks_the_same_tokens() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    peer = pytest.importorskip(
        "transformers.generation.logits_process", reason="transformers is not installed"
    )
    from engine_sampler_watermark.green_list import GreenList

    from engine_sampler.testing import apply_sampler

    logits = np.random.default_rng(2).normal(0, 2, VOCABULARY).astype(np.float32)
    theirs = peer.WatermarkLogitsProcessor(VOCABULARY, "cpu", bias=2.0)
    for last in (0, 3, VOCABULARY - 1):
        expected = theirs(torch.tensor([[1, last]]), torch.from_numpy(logits[None]))[0].numpy()
        rows = {"prompts": [[1, last]]}
        ours = apply_sampler(GreenList(), logits[None], {"watermark_green_bias": 2.0}, **rows)
        np.testing.assert_array_equal(ours[0], expected)


def test_transformers_moves_the_same_probabilities() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    peer = pytest.importorskip(
        "transformers.generation.logits_process", reason="transformers is not installed"
    )
    from engine_sampler_watermark.synthid import SynthID

    from engine_sampler.testing import apply_sampler

    theirs = peer.SynthIDTextWatermarkLogitsProcessor(5, list(KEYS), 65536, 0, 1024, torch.device("cpu"))
    rng, output = np.random.default_rng(3), [PROMPT[-1]]
    for _ in range(12):
        logits = rng.normal(0, 2, (1, VOCABULARY)).astype(np.float32)
        expected = theirs(torch.tensor([output]), torch.from_numpy(logits))[0].numpy()
        rows = {"prompts": [[1]], "outputs": [output[1:]]}
        ours = apply_sampler(SynthID(), logits, {"watermark_synthid_keys": KEYS}, **rows)[0]
        likely = expected > -30
        np.testing.assert_allclose(
            torch.softmax(torch.from_numpy(ours), 0)[likely], np.exp(expected[likely]), rtol=1e-3, atol=1e-7
        )
        output.append(int(rng.integers(VOCABULARY)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what peers print when they are imported."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield
