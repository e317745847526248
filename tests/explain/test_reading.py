"""`TraceReading`: what removed a token, where steps cut, where the draw fell."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from engine_sampler.explain import TraceReading, row_html, trace
from engine_sampler.explain.html import draw_html
from engine_sampler.params import SamplingParams
from engine_sampler.tokenizer import Tokenizer

from ..reference import softmax

ROW = np.array([2.0, 1.0, 0.5, -1.0, -3.0, -np.inf], np.float32)
TOKENIZER = Tokenizer([b"a", b" a", b"b", b"=1+1", b'"', b"<i>"])


def reading_of(params: SamplingParams, row: np.ndarray = ROW) -> TraceReading:
    return TraceReading(trace(row, params, tokenizer=TOKENIZER), TOKENIZER, seed=params.seed)


def test_each_removed_token_has_the_step_that_removed_it():
    reading = reading_of(SamplingParams(top_k=3, min_p=0.3, seed=1))
    assert [reading.steps[n].name for n in reading.removed_at] == [
        *("logits", "logits", "min_p", "top_k", "top_k", "logits"),
    ]
    assert reading.removed_text == "2 by top_k, 1 by min_p"


def test_a_cut_lies_between_what_stays_and_what_goes():
    cut = reading_of(SamplingParams(top_k=3, seed=1)).cuts[1]
    assert cut is not None
    shares = softmax(ROW)
    assert (cut.low, cut.below) == (pytest.approx(shares[2]), pytest.approx(shares[3]))
    assert cut.lines == [cut.low]
    assert cut.text == f"≥ {100 * shares[2]:.3g} %"


def test_a_step_that_removes_the_likeliest_cuts_above():
    cut = reading_of(SamplingParams(xtc_probability=1, xtc_threshold=0.1, seed=1)).cuts[1]
    assert cut is not None
    assert cut.lines == [cut.high]
    assert cut.text.startswith("≤ ")


def test_a_step_with_another_rule_than_probability_has_no_line():
    cut = reading_of(SamplingParams(allowed_token_ids=[0, 3], seed=1)).cuts[1]
    assert cut is not None
    assert cut.lines == []
    assert cut.text == "tokens by another rule than their probability"


@pytest.mark.parametrize("seed", range(20))
def test_the_draw_fell_in_the_share_of_the_chosen_token(seed):
    reading = reading_of(SamplingParams(temperature=1.3, top_k=4, seed=seed))
    assert reading.draw is not None
    assert reading.draw.share == reading.share_of(reading.chosen)
    assert reading.share_of(4)[0] == pytest.approx(1)


def test_a_greedy_choice_has_no_draw_and_a_selector_with_a_rule_of_its_own_no_share():
    assert reading_of(SamplingParams(temperature=0)).draw is None
    steps = trace(ROW, SamplingParams(seed=1))
    elsewhere = TraceReading(steps, seed=1, position=next(p for p in range(99) if not fits(steps, p)))
    assert elsewhere.draw_text.endswith("dist has a rule of its own for it.")
    assert draw_html(elsewhere) == ""


def fits(steps, position: int) -> bool:
    draw = TraceReading(steps, seed=1, position=position).draw
    return draw is not None and draw.share is not None


def test_why_not_a_token_in_sentences():
    reading = reading_of(SamplingParams(top_k=3, min_p=0.3, seed=1))
    assert "top_k removed it when it had 3.02 %: it keeps ≥ 13.5 %" in reading.why(3)
    assert reading.why(5) == "<i> (#5) is impossible: the engine gave it −inf, or as good as that."
    assert "and it was chosen" in reading.why(reading.chosen)
    other = 1 - reading.chosen
    assert "It is drawn from" in reading.why(other)
    assert reading.named("a") == [0, 1]
    assert reading.named("#3") == [3]
    assert reading.named("#" + "9" * 5000) == []
    assert reading.why_not("#77") == ["No token is written '#77': type its exact text, or its id as #12."]


def test_a_table_has_all_tokens_and_no_formula():
    lines = list(csv.reader(io.StringIO(reading_of(SamplingParams(top_k=3, seed=1)).csv())))
    assert lines[0] == ["token_id", "text", "0 logits", "1 top_k", "removed_by"]
    assert len(lines) == 7
    assert lines[4] == ["3", "'=1+1", lines[4][2], "0", "top_k"]
    assert lines[5][1] == '"'


def test_a_picture_shows_tokens_as_text_and_each_cut_as_a_line():
    reading = reading_of(SamplingParams(top_k=3, seed=1))
    html = row_html(reading)
    assert "<i>" not in html
    assert html.count('<line class="gone"') == 1
    assert html.count(">✕<") == 2
    assert "▲" in draw_html(reading)
    assert row_html(reading, top=2, logarithmic=False).count('<text class="name') == 2
