"""The picture of a chain: files of both formats, and the text in them."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.text import Text

from engine_sampler.explain import plot, trace
from engine_sampler.explain.plots import draw, picture
from engine_sampler.params import SamplingParams
from engine_sampler.tokenizer import Tokenizer

ROW = np.array([2.0, 1.5, 1.0, 0.5, 0.0, -1.0, -2.0, -6.0], np.float32)
PARAMS = SamplingParams(top_k=5, min_p=0.2, temperature=0.8, seed=2)


def texts(steps, **options) -> list[str]:
    figure = picture(steps, **{"title": "a title", **options})
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_a_png_file_is_written(tmp_path):
    file = tmp_path / "picture.png"
    draw(trace(ROW, PARAMS), file, title="a row")
    data = file.read_bytes()
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert width > 1000 < height + 500


def test_an_svg_file_is_written(tmp_path):
    file = tmp_path / "picture.svg"
    draw(trace(ROW, PARAMS), file, title="a row")
    assert ET.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_another_ending_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(ValueError, match=r"picture\.gif is not allowed: a name that ends in \.png or \.svg"):
        draw([], tmp_path / "picture.gif", title="")


def test_every_step_is_a_panel_with_its_settings_and_figures():
    steps = trace(ROW, PARAMS)
    written = texts(steps)
    for step in steps:
        assert step.name in written
    assert "top_k=5" in written
    assert f"5 left · {steps[1].entropy_bits:.2f} bits" in written
    assert f"{100 * steps[1].kept_mass:.1f} % kept" in written


def test_the_chosen_token_is_marked_once():
    steps = trace(ROW, PARAMS)
    assert texts(steps).count("chosen") == 1
    assert f"probability {100 * steps[-1].kept_mass:.1f} %" in texts(steps)


def test_a_removed_token_is_crossed_out_in_the_step_that_removed_it():
    steps = trace(ROW, SamplingParams(top_k=5, temperature=0.5))
    crosses = texts(steps).count("✕") - 1  # one is in the legend
    assert crosses == 3


def test_tokens_that_are_not_followed_share_one_row():
    assert "5 others" in texts(trace(ROW, PARAMS), top=3)


def test_characters_that_the_font_lacks_are_escaped():
    tokenizer = Tokenizer([" 猫".encode(), b"$x^2$", b"plain", b"<end>"], eos_token_ids=[3])
    written = texts(trace(np.arange(4, dtype=np.float32), SamplingParams(), tokenizer=tokenizer))
    assert {"␣\\u732b", "$x^2$", "plain", "<end>"} <= set(written)


def test_long_labels_are_cut():
    tokenizer = Tokenizer([b"antidisestablishmentarianism", b"b"])
    written = texts(trace(np.zeros(2, np.float32), SamplingParams(), tokenizer=tokenizer))
    assert "antidisestablishmentari…" in written


def test_a_wide_row_without_a_tokenizer_is_drawn_with_ids():
    row = np.zeros(131072, np.float32)
    row[[131071, 77]] = 12.0, 11.0
    written = texts(trace(row, SamplingParams(min_p=0.01, top_p=0.9), top=12))
    assert {"#131071", "#77", "131,060 others"} <= set(written)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(
    ("steps", "panels_in_a_line"), [(2, 2), (5, 5), (6, 3), (7, 4), (8, 4), (9, 5), (10, 5)]
)
def test_panels_fill_lines_with_few_gaps(steps, panels_in_a_line):
    values = {"top_k": 6, "min_p": 0.01, "temperature": 0.9, "top_p": 0.99}
    values |= {"top_a": 0.01, "typical_p": 0.99, "tfs": 0.99, "logit_bias": {0: 0.1}}
    params = SamplingParams(**dict(list(values.items())[: steps - 2]))
    figure = picture(trace(ROW, params), title="")
    panels = [axes for axes in figure.axes if axes.lines]
    assert len(panels) == steps
    assert len({round(axes.get_position().x0, 6) for axes in panels}) == panels_in_a_line


def test_a_plot_is_a_figure_and_may_be_a_file(tmp_path):
    steps = trace(ROW, PARAMS)
    assert plot(steps, title="a title").findobj(Text)
    assert plot(steps, tmp_path / "picture.svg").findobj(Text)
    assert (tmp_path / "picture.svg").exists()


def test_the_others_and_the_followed_are_all_that_are_left():
    row = np.append(ROW, -np.inf).astype(np.float32)
    written = texts(trace(row, PARAMS), top=3)
    assert "8 left · " in " ".join(written)
    assert "5 others" in written
