"""The demo in the terminal: panels side by side while it runs, tables at the end."""

from __future__ import annotations

import statistics
import textwrap
import time
from collections.abc import Iterator
from typing import TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..explain.labels import shortened
from ..explain.terminal import make_table
from .app import Demo, Stream

T = TypeVar("T")

COLOURS = (
    "cyan", "green", "magenta", "dodger_blue1", "orange3", "medium_purple1",
    "spring_green3", "deep_pink2", "gold3", "steel_blue1", "light_sea_green", "salmon1",
)  # fmt: skip
PANEL_WIDTH = 38
"""Minimum width; as many panels as fit are shown side by side, up to four."""
MIN_PANEL_HEIGHT, MAX_PANEL_HEIGHT = 5, 12
INDENT = 10
MEASURED = (
    "Medians of the steps of that second run, without a screen in between. "
    "`engine-sampler bench` measures samplers alone, on rows of 131,072 logits."
)
OUTCOME_STYLES = {"stop": "green", "length": "dim", "error": "bold red", "abort": "yellow"}


# --- while it runs -------------------------------------------------------------------------------


def run_live(demo: Demo, steps: int, console: Console, pace: float) -> None:
    """Run the demo in a live display, at most `pace` steps per second (0: no limit)."""
    with Live(console=console, auto_refresh=False) as live:
        for _ in _paced(demo.run(steps), pace):
            live.update(screen(demo, console), refresh=True)


def _paced(run: Iterator[T], pace: float) -> Iterator[T]:
    due = time.monotonic()
    for item in run:
        yield item
        due = max(due + (1 / pace if pace > 0 else 0.0), time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def run_plain(demo: Demo, steps: int, console: Console) -> None:
    """Run the demo and print, as it happens, when each request joins and how it ends."""
    for events in demo.run(steps):
        for event, stream in events:
            header = f"step {demo.session.steps:>3}  {stream.name} {event}: {_details(event, stream)}"
            _write(console, header)
            if event == "ends":
                _write(console, " " * INDENT + demo.prompt + stream.text)


def screen(demo: Demo, console: Console) -> RenderableType:
    """The panels, which fill the terminal, and a status line."""
    columns = max(1, min(4, console.width // PANEL_WIDTH))
    lines = -(-len(demo.panels) // columns)
    height = max(MIN_PANEL_HEIGHT, min(MAX_PANEL_HEIGHT, (console.height - 2) // lines))
    grid = Table.grid(expand=True)
    for _ in range(columns):
        grid.add_column(ratio=1)
    panels = [_panel(demo, stream, console.width // columns, height) for stream in demo.panels]
    for start in range(0, len(panels), columns):
        grid.add_row(*panels[start : start + columns])
    return Group(grid, _status_line(demo))


def _panel(demo: Demo, stream: Stream | None, width: int, height: int) -> Panel:
    if stream is None:
        return Panel("", height=height, border_style="dim")
    colour = COLOURS[demo.streams.index(stream) % len(COLOURS)]
    return Panel(
        Group(_tail(demo.prompt, stream.text, width - 4, height - 3), _progress(stream, colour)),
        title=Text(stream.name, style=f"bold {colour}"),
        title_align="left",
        subtitle=Text(shortened(stream.settings, width - 6), style="dim"),
        subtitle_align="right",
        border_style=colour if stream.outcome is None else "dim",
        box=box.ROUNDED,
        height=height,
    )


def _tail(prompt: str, text: str, width: int, height: int) -> Text:
    """The last lines of prompt and text, padded to `height` lines."""
    whole = Text.assemble((prompt, "bold"), text)
    lines = whole.wrap(Console(width=width), width)[-height:]
    return Text("\n").join([*lines, *[Text()] * (height - len(lines))])


def _progress(stream: Stream, colour: str) -> Table:
    total = stream.configuration.max_tokens
    status = stream.outcome or "running"
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", width=7)
    grid.add_column(width=7)
    bar = ProgressBar(total=total, completed=stream.tokens, complete_style=colour, finished_style=colour)
    grid.add_row(bar, f"{stream.tokens}/{total}", Text(status, style=OUTCOME_STYLES.get(status, colour)))
    return grid


def _status_line(demo: Demo) -> Text:
    running = demo.running
    parts = (
        f"step {demo.session.steps}",
        f"{len(running)} running, {len(demo.waiting)} waiting",
        f"{len({s.chain for s in running})} groups",
    )
    return Text(" · ".join(parts), style="dim", no_wrap=True, overflow="ellipsis")


def _details(event: str, stream: Stream) -> str:
    if event == "joins":
        return stream.settings
    return f"{stream.outcome} after {stream.tokens} tokens"


def _write(console: Console, text: str) -> None:
    lines = textwrap.fill(text, console.width, subsequent_indent=" " * INDENT)
    console.print(lines, soft_wrap=True)


# --- at the end ----------------------------------------------------------------------------------


def result_tables(demo: Demo, measured: Demo) -> Iterator[RenderableType]:
    """A table of the requests' results, and one of the totals; times and texts are compared with those of
    `measured`, the same without a screen."""
    table = make_table()
    table.add_column("request", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("tokens/s", justify="right", no_wrap=True)
    table.add_column("steps", justify="right", no_wrap=True, style="dim")
    table.add_column("finish", no_wrap=True)
    table.add_column("chain", style="dim")
    for number, stream in enumerate(demo.streams):
        outcome = stream.outcome or "waiting"
        table.add_row(
            Text(stream.name, style=COLOURS[number % len(COLOURS)]),
            str(stream.tokens),
            f"{stream.tokens_per_second:,.0f}",
            "" if stream.started_at is None else f"{stream.started_at}–{stream.ended_at}",
            Text(outcome, style=OUTCOME_STYLES.get(outcome, "")),
            Text(stream.error or stream.chain, no_wrap=True, overflow="ellipsis"),
        )
    yield table
    yield _totals(demo, measured)


def _totals(demo: Demo, measured: Demo) -> Table:
    session = demo.session
    tokens, steps = sum(s.tokens for s in demo.streams), max(1, session.steps)
    equal = sum(stream.token_ids == other.token_ids for stream, other in _pairs(demo, measured))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    table.add_row("steps", f"{session.steps:,}, {session.rows / steps:.1f} rows each")
    table.add_row("groups", f"{len(demo.groups)} configurations, {demo.group_steps / steps:.1f} per step")
    table.add_row(
        "tokens", f"{tokens:,}; in a second run the same for {equal} of {len(demo.streams)} requests"
    )
    table.add_row("model", _median(measured, "model"))
    table.add_row("sampling", f"{_median(measured, 'sampling')}: masks, chains, draws, texts and ends")
    table.add_row("", Text(MEASURED, style="dim"))
    return table


def _pairs(demo: Demo, measured: Demo) -> Iterator[tuple[Stream, Stream]]:
    return zip(demo.streams, measured.streams, strict=True)


def _median(demo: Demo, part: str) -> str:
    """The median time of a token, from those of all steps."""
    times = [1e6 * getattr(step, part) / step.rows for step in demo.times]
    return f"{statistics.median(times or [0]):.0f} µs per token"
