"""The output of the demo, at common terminal sizes."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("rich")

from rich.console import Console

SIZES = ((80, 24), (120, 40), (200, 50))


def console(width: int, height: int = 40) -> Console:
    return Console(file=io.StringIO(), width=width, height=height)


def printed(on: Console) -> list[str]:
    return on.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_panels_fit_the_terminal(demo, width, height):
    from engine_sampler.demo.view import screen

    run = demo.run(30)
    for _ in range(9):
        next(run)
    on = console(width, height)
    on.print(screen(demo, on))
    lines = printed(on)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    for stream in demo.panels:
        assert f"─ {stream.name} ─" in "\n".join(lines)
    assert "8/56 running" in "\n".join(lines) or "8/120 running" in "\n".join(lines)


def test_a_panel_shows_the_end_of_a_long_text(demo):
    from engine_sampler.demo.view import screen

    next(demo.run(1))
    demo.streams[0].text = " word" * 500 + " last"
    on = console(80, 24)
    on.print(screen(demo, on))
    assert "word last" in on.file.getvalue()


def test_the_plain_output_is_wrapped_to_the_terminal(demo):
    from engine_sampler.demo.view import run_plain

    on = console(60)
    run_plain(demo, 2000, on)
    lines = printed(on)
    assert max(map(len, lines)) <= 60
    for stream in demo.streams:
        assert any(f"{stream.name} joins: " in line for line in lines)
        assert any(f"{stream.name} ends: {stream.outcome} after" in line for line in lines)
        assert stream.text.split()[0] in "\n".join(lines)


@pytest.mark.parametrize("width", [width for width, _ in SIZES])
def test_the_results_name_every_request_and_the_totals(demo, width):
    from engine_sampler.demo.view import result_tables

    for _ in demo.run(2000):
        pass
    on = console(width)
    on.print(*result_tables(demo, demo.again(2000)))
    lines = printed(on)
    assert max(map(len, lines)) <= width
    for stream in demo.streams:
        line = next(line for line in lines if line.startswith(f" {stream.name} "))
        assert f" {stream.tokens} " in line
        assert f" {stream.outcome} " in line
        assert f" {stream.started_at}–{stream.ended_at} " in line
    for total in ("steps", "groups", "model", "sampling", "tokens"):
        assert any(line.split()[:1] == [total] for line in lines)
    assert f"the same for {len(demo.streams)} of {len(demo.streams)} requests" in "\n".join(lines)


def test_times_are_medians_of_tokens(demo):
    from engine_sampler.demo.app import StepTimes
    from engine_sampler.demo.view import _median

    demo.times = [StepTimes(4, 1.0, 8e-5), StepTimes(2, 1.0, 8e-5), StepTimes(1, 1.0, 9.0)]
    assert _median(demo, "sampling") == "40 µs per token"


def test_the_live_display_keeps_the_pace(monkeypatch):
    from engine_sampler.demo import view

    clock = [0.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(view.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    assert list(view._paced(iter("abcd"), 4)) == ["a", "b", "c", "d"]
    assert clock[0] == pytest.approx(1.0)
    list(view._paced(iter("abcd"), 0))
    assert clock[0] == pytest.approx(1.0)
