"""The model of the page, without a browser: texts, rows under other settings, comparisons, links."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_sampler_workbench import sources
from engine_sampler_workbench.picture import compared_html, draws_html, text_html
from engine_sampler_workbench.session import DRAWS, MOST_ROW_BYTES, Text, compare
from engine_sampler_workbench.settings import PRESETS, PageSettings, restored, span
from engine_sampler_workbench.sources import EngineDied, FileRows, ModelProcess

from engine_sampler import ParameterError, SamplingParams, Scheduler

pytest.importorskip("tokenizers")

SETTINGS = PageSettings()


@pytest.fixture(scope="module")
def engine() -> Iterator[ModelProcess]:
    engine = ModelProcess()
    yield engine
    engine.close()


def drawn(source: ModelProcess | FileRows, params: SamplingParams, length: int = 12) -> Text:
    text = Text(source, source.encode(SETTINGS.prompt), params, length)
    while text.wants_more:
        text.advance()
    return text


def test_a_text_is_what_a_scheduler_draws(engine):
    text = drawn(engine, SETTINGS.params)
    scheduler = Scheduler(engine.vocab_size, engine.tokenizer)
    request = scheduler.add(SETTINGS.params, text.prompt)
    for row in text.rows:
        scheduler.step(row.logits[None])
    assert text.ids == scheduler.record(request).token_ids
    assert all(0 < token.probability <= 1 for token in text.tokens)


def test_other_settings_act_on_the_same_seed_and_keep_rows_that_are_the_same(engine):
    text = drawn(engine, SETTINGS.params)
    hotter = text.under(SETTINGS.params.replace(temperature=1.9, min_p=0, top_p=1))
    while hotter.wants_more:
        hotter.advance()
    assert hotter.ids == drawn(engine, hotter.params).ids
    first = next(i for i in range(12) if hotter.differs(i))
    assert all(one is other for one, other in zip(hotter.rows[: first + 1], text.rows, strict=False))
    assert text.under(text.params).ids == text.ids


def test_the_row_of_a_token_says_why_it_was_drawn(engine):
    text = drawn(engine, SETTINGS.params)
    for index, token in enumerate(text.tokens):
        reading = text.reading(index)
        assert reading.chosen == token.token_id
        assert reading.draw is not None
        assert reading.draw.share is not None


@pytest.mark.parametrize("values", [{"adaptive_target": 0.3}, {"mirostat": 1}])
def test_the_row_of_a_token_is_shown_with_what_the_selector_noted_before(engine, values):
    text = drawn(engine, SamplingParams(seed=7, max_tokens=8, **values))
    assert text.ended
    assert [text.reading(index).chosen for index in range(8)] == text.ids


def test_the_row_of_a_token_from_a_phase_says_that_it_shows_the_base_parameters(engine):
    hot = {"params": {"temperature": 3.0}}
    text = drawn(engine, SamplingParams(seed=7, temperature=0.0, phases=[{"tokens": 6}, hot]))
    readings = [text.reading(index) for index in range(12)]
    differing = [index for index in range(12) if readings[index].chosen != text.ids[index]]
    said = [index for index in range(12) if "base parameters" in text.draw_text(index, readings[index])]
    assert differing
    assert said == differing


def test_a_grammar_that_needs_much_work_gives_a_token_with_every_step(engine):
    grammar = "start: a\na: a a | a a a | /[a-z ]/ | /[a-z]+/"
    text = Text(engine, engine.encode("a"), SamplingParams(seed=7, grammar=grammar), 3)
    for count in (1, 2, 3):
        text.advance()
        assert len(text.tokens) == count


def test_two_chains_draw_from_the_same_rows(engine):
    text = drawn(engine, SETTINGS.params)
    comparison = compare(text, 0, {"temperature": 0.0})
    assert [one.token_id for one, _ in comparison.tokens] == text.ids
    assert [other.token_id for _, other in comparison.tokens] == [int(r.logits.argmax()) for r in text.rows]
    assert comparison.draws[0].total() == DRAWS
    assert len(comparison.draws[1]) == 1
    assert compare(text, 0, text.params).differing == 0


@pytest.mark.parametrize("bias", [{}, {"grammar_bias": 1000.0}])
def test_draws_of_a_comparison_obey_its_grammar(engine, bias):
    text = drawn(engine, SamplingParams(seed=1, regex="[ab]{4}", **bias), length=2)
    letters = {engine.tokenizer.token_bytes[t] for t in compare(text, 1, {}).draws[0]}
    assert letters <= {b"a", b"b", b"aa", b"ab", b"ba", b"bb", b"aaa", b"aba", b"bab", b"abb"}


def test_an_engine_that_dies_is_named_and_can_be_started_again(engine):
    before = engine.row([5, 6], 0)
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(EngineDied, match=r"demo engine.*has died, with exit code -9"):
        engine.row([5], 0)
    with pytest.raises(EngineDied):
        engine.encode("a")
    engine.restart()
    np.testing.assert_array_equal(engine.row([5, 6], 0), before)


def test_an_answer_that_comes_too_late_is_given_to_nobody(engine, monkeypatch):
    before = engine.encode("a")
    monkeypatch.setattr(sources, "MOST_SECONDS", 0.1)
    os.kill(engine.pid, signal.SIGSTOP)
    with pytest.raises(EngineDied, match="has not answered"):
        engine.row([5], 0)
    with pytest.raises(EngineDied, match="has died"):
        engine.encode("a")
    monkeypatch.undo()
    engine.restart()
    assert engine.encode("a") == before


def test_pages_that_start_an_engine_at_once_do_not_disturb_each_other(engine):
    before = engine.encode("a")
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(engine.restart), pool.submit(engine.restart), pool.submit(engine.encode, "a")]
        assert [call.result() for call in calls] == [None, None, before]


def test_an_error_of_the_model_leaves_it_alive(engine):
    with pytest.raises(ValueError, match="Error"):
        engine.row([None], 0)
    assert len(engine.row([5], 0)) == engine.vocab_size


@pytest.mark.parametrize("kind", ["llama.cpp", "transformers"])
def test_a_model_that_cannot_be_opened_is_an_error(kind, tmp_path):
    with pytest.raises(ValueError, match=r"needs|no such file|not a directory|no loadable"):
        ModelProcess(kind, str(tmp_path / "none"))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(1).standard_normal((3, 50)).astype(np.float32))
    return FileRows(str(path))


def test_rows_of_a_file_are_drawn_to_the_last_whatever_was_drawn(rows):
    text = drawn(rows, SamplingParams(seed=3))
    assert (len(text.tokens), text.ended) == (3, "no more rows")
    assert text.tokens[0].text == f"#{text.ids[0]} "
    other = text.under(SamplingParams(seed=4))
    assert len(other.tokens) == 3
    assert other.before == text.ids


def test_a_page_keeps_a_bounded_number_of_rows(rows):
    rows.vocab_size = 10**6
    text = Text.__new__(Text)
    assert MOST_ROW_BYTES // (4 * rows.vocab_size) < 20
    rows.vocab_size = 50
    text.__init__(rows, [], SamplingParams(seed=1), 10**6)
    assert text.length == text.most == 400


def test_text_of_tokens_is_no_html(rows):
    text = drawn(rows, SamplingParams(seed=3))
    text.tokens = [token._replace(text="<img src=x onerror=alert(1)>&\n") for token in text.tokens]
    comparison = compare(text, 0, {})
    hostile = comparison._replace(tokens=[[text.tokens[0]] * 2])
    shown = [text_html(text, 0), *compared_html(hostile), draws_html(comparison, text.reading(0))]
    assert not any("<img" in html for html in shown)
    assert "&lt;img src=x onerror=alert(1)&gt;&amp;↵<br>" in shown[0]


# --- settings ------------------------------------------------------------------------------------


def test_a_link_restores_the_settings():
    settings = PageSettings(prompt="Ä “quoted” prompt", length=7, chosen=2)
    settings.use({**PRESETS["KoboldAI"], "seed": 2**40, "json_schema": '{"type": "object"}'})
    assert restored(settings.link()) == settings
    assert restored(f"http://127.0.0.1:1/?token=x&state={settings.link()}") == settings


@pytest.mark.parametrize(
    "link",
    ["", "?", "AAAA", "x" * 10**6, PageSettings(prompt="x" * 9000).link(), "eNqrVkrMS1GyUipJLS5RqgUAJ_wFRw"],
)
def test_no_other_text_is_a_link(link):
    with pytest.raises(ValueError, match="link"):
        restored(link)


def test_a_link_with_a_parameter_that_is_not_allowed_names_it():
    settings = PageSettings()
    settings.values["top_p"] = 7
    with pytest.raises(ParameterError, match="top_p=7"):
        restored(settings.link())


def test_a_link_that_unpacks_to_too_much_is_refused():
    settings = PageSettings()
    settings.values["json_schema"] = " " * 10**6
    assert len(settings.link()) < 5000
    with pytest.raises(ValueError, match="link"):
        restored(settings.link())


def test_a_parameter_that_is_not_allowed_changes_nothing():
    settings = PageSettings()
    before = dict(settings.values)
    with pytest.raises(ParameterError, match="min_p"):
        settings.set("min_p", 2)
    assert settings.values == before
    settings.set("min_p", 0)
    assert "min_p" not in settings.values


@pytest.mark.parametrize("seed", [None, -1])
def test_a_page_always_has_a_seed(seed):
    settings = PageSettings()
    settings.use({"seed": seed})
    assert settings.params.seed == 0


def test_every_number_has_a_slider_that_holds_its_neutral_value():
    for param in SamplingParams.parameters().values():
        if param.type in (int, float):
            low, high, step = span(param)
            assert low < high
            assert 0 < step <= (high - low) / 10
            assert param.neutral is None or low <= param.neutral <= high, param.name


def test_every_preset_is_allowed():
    for values in PRESETS.values():
        SamplingParams(**values)
