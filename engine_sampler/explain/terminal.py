"""Tables for the terminal. Needs rich, from the extra `demo`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .labels import hundredths, settings_text, shortened
from .tracing import TopToken, TraceStep, notable_tokens

PLAIN_WIDTH = 80
"""Width if the output is not a terminal, and COLUMNS does not give another."""

ROOMY = 110
"""Width from which on there is room for bars and more tokens."""

BAR_WIDTH = 12
LABEL_WIDTH = 20
OTHERS = "all others"

ACCENT = "bold dark_orange"
ROLE_STYLES = {
    "logits": "bold",
    "edit": "magenta",
    "penalty": "green",
    "warp": "dodger_blue1",
    "selector": ACCENT,
}


def make_console() -> Console:
    """A console on stdout; plain text if that is not a terminal."""
    console = Console(highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        return console
    width = console.width if os.environ.get("COLUMNS", "").isdigit() else PLAIN_WIDTH
    return Console(highlight=False, emoji=False, markup=False, width=width, no_color=True)


def make_table(title: str | None = None) -> Table:
    """A table in the style of all tables here."""
    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
        collapse_padding=True,
    )


# --- explain -------------------------------------------------------------------------------------


def explanation(steps: Sequence[TraceStep], top: int, width: int) -> Iterator[RenderableType]:
    """The steps as a table, then the most important tokens, followed through all steps."""
    yield _steps_table(steps, roomy=width >= ROOMY)
    yield from _token_tables(steps, notable_tokens(steps, top), width)


def _steps_table(steps: Sequence[TraceStep], *, roomy: bool) -> Table:
    table = make_table()
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("step", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    if roomy:
        table.add_column("removed", justify="right", style="dim", no_wrap=True)
        table.add_column("", width=BAR_WIDTH)
    table.add_column("kept %", justify="right", no_wrap=True)
    table.add_column("bits", justify="right", no_wrap=True)
    table.add_column("backend", style="dim", no_wrap=True)
    table.add_column("likeliest tokens, %")
    for number, step in enumerate(steps):
        bar = ProgressBar(total=1.0, completed=step.kept_mass, width=BAR_WIDTH)
        removed = f"{step.removed:,}" if step.removed else ""
        table.add_row(
            str(number),
            _step_cell(step),
            f"{step.candidates:,}",
            *((removed, bar) if roomy else ()),
            hundredths(step.kept_mass) if number else "",
            f"{step.entropy_bits:.2f}",
            step.backend,
            _top_tokens(step.top[: 3 if roomy else 1]),
        )
    return table


def _step_cell(step: TraceStep) -> Text:
    """Name and settings: the main value next to the name, each other on a line of its own."""
    cell = Text(step.name, style=ROLE_STYLES[step.role])
    for name, value in step.settings.items():
        cell.append(" " if name == step.name else "\n", style="default")
        cell.append(settings_text({name: value}, step.name), style="not bold default")
    return cell


def _top_tokens(top: Sequence[TopToken]) -> Text:
    parts = ((shortened(t.text, 14), " ", (hundredths(t.probability), "dim")) for t in top)
    joined = Text("  ").join(Text.assemble(*part) for part in parts)
    joined.no_wrap, joined.overflow = True, "ellipsis"
    return joined


def _token_tables(
    steps: Sequence[TraceStep], token_ids: Sequence[int], width: int
) -> Iterator[RenderableType]:
    """Tokens as rows, steps as columns; as many tables as the width requires."""
    yield Text("probability of each token after each step, %", style="bold")
    texts = {token.token_id: token.text for step in steps for token in step.top}
    labels = [shortened(texts[t], LABEL_WIDTH) for t in token_ids]
    label_width = max(len(OTHERS), *map(len, labels))
    named = width >= label_width + sum(max(5, len(step.name)) + 3 for step in steps)
    per_table = len(steps) if named else max(1, (width - label_width) // 8)
    for start in range(0, len(steps), per_table):
        table = make_table()
        table.add_column("token", width=label_width, no_wrap=True)
        numbers = range(start, min(start + per_table, len(steps)))
        for number in numbers:
            header = steps[number].name if named else str(number)
            style = ROLE_STYLES[steps[number].role]
            table.add_column(Text(header, style=style), justify="right", no_wrap=True, min_width=5)
        for label, token_id in zip(labels, token_ids, strict=True):
            style = ACCENT if token_id == steps[-1].token_id else ""
            table.add_row(Text(label, style=style), *(_share(steps[n], token_id) for n in numbers))
        table.add_row(OTHERS, *(_other_share(steps[n], token_ids) for n in numbers), style="dim")
        yield table


def _share(step: TraceStep, token_id: int) -> Text:
    """A probability, brighter where it is greater; "·" once the token is gone."""
    value = float(step.probabilities[token_id])
    if step.role == "selector":
        return Text("chosen" if token_id == step.token_id else "", style=ACCENT)
    if value <= 0:
        return Text("·", style="dim")
    return Text(hundredths(value), style="bold" if value >= 0.1 else "" if value >= 0.01 else "dim")


def _other_share(step: TraceStep, token_ids: Sequence[int]) -> str:
    rest = 1.0 - float(step.probabilities[list(token_ids)].sum())
    return hundredths(rest) if rest > 1e-12 else "" if step.role == "selector" else "·"


# --- plugins -------------------------------------------------------------------------------------


# --- check ---------------------------------------------------------------------------------------
