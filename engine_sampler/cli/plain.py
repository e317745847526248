"""The output of `plugins`, `check` and `explain` as plain lines, for installations without rich."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..explain import TraceStep, notable_tokens
from ..explain.labels import hundredths, settings_text, shortened
from ..testing.results import CheckResult
from .listing import about, state_of

_GAP = "  "


def plugin_lines(inventory: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """The objects by kind, then the plugins, and the environment variables that are set."""
    for kind, entries in inventory.items():
        if not entries:
            continue
        yield kind.replace("_", " ")
        if kind == "plugins":
            rows: list[tuple[str, ...]] = [
                (e["name"], f"{e['distribution']} {e['version']}", e["state"], e["error"] or "")
                for e in entries
            ]
        elif kind == "environment":
            rows = [(e["name"], e["value"], e["effect"]) for e in entries]
        else:
            rows = [(e["name"], e["origin"], state_of(e), about(e)) for e in entries]
        yield from _columns(rows)
        yield ""


def check_text(check: CheckResult) -> str:
    """One check of a library as a line."""
    return _GAP.join((check.outcome.ljust(12), check.name.ljust(22), check.detail)).rstrip()


def explanation_lines(steps: Sequence[TraceStep], top: int) -> Iterator[str]:
    """The steps, then the most important tokens, followed through all steps."""
    rows = [("", "step", "left", "kept %", "bits", "backend", "settings")]
    for number, step in enumerate(steps):
        kept = hundredths(step.kept_mass) if number else ""
        settings = settings_text(step.settings, step.name)
        bits = f"{step.entropy_bits:.2f}"
        rows.append((str(number), step.name, f"{step.candidates:,}", kept, bits, step.backend, settings))
    yield from _columns(rows)
    yield ""
    yield "probability of each token after each step, %"
    texts = {token.token_id: token.text for step in steps for token in step.top}
    shares = [("token", *map(str, range(len(steps))))]
    for token_id in notable_tokens(steps, top):
        label = shortened(texts[token_id], 20)
        shares.append((label, *(_share(step, token_id) for step in steps)))
    yield from _columns(shares)


def _share(step: TraceStep, token_id: int) -> str:
    if step.role == "selector":
        return "chosen" if token_id == step.token_id else ""
    value = float(step.probabilities[token_id])
    return hundredths(value) if value > 0 else "·"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
