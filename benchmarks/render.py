"""Write a run's numbers into docs/benchmarks/samplers.md, between the markers.

python -m benchmarks.render results.json
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine_sampler.cli.bench.rows import VOCABULARIES

from .bars import PEAKED, Bar, of_case, others, tally
from .cases import (
    ADAPTER_ROWS,
    BATCHES,
    CASES,
    FLAT,
    KEY_CASES,
    MAIN,
    MASKED_CASES,
    PEERS_STEPS,
    PROMPTS,
    SHARES,
    SMALL,
    TINY,
    Shape,
)
from .results import (
    ADAPTER,
    ADD_AND_REMOVE,
    BENEATH,
    FILLED,
    FIVE,
    FLOOR,
    GRAMMAR,
    GRAMMAR_AHEAD,
    JOIN,
    LEAVE,
    MASKED,
    MULTINOMIAL,
    NUMPY_RUN,
    NUMPY_STEP,
    RUN,
    SETTINGS,
    STEP,
    TRANSFORMERS,
    UNFILLED,
    Results,
    draft_tree,
    masked,
    prompt_of,
)

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"
START, END = "<!-- results -->", "<!-- end of results -->"
CPUS = {(6, 207): "Emerald Rapids", (25, 17): "Zen 4"}
"""(family, model) → the microarchitecture of CPUs whose name does not reveal it."""


def main(path: str) -> None:
    results = Results.read(Path(path))
    write_between(START, END, report(results))


def write_between(start: str, end: str, text: str) -> None:
    """Put `text` between two markers of the page of docs/benchmarks that has them."""
    page = next(page for page in PAGES.glob("*.md") if start in page.read_text("utf-8"))
    before, _, rest = page.read_text("utf-8").partition(start)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}", "utf-8")


def report(results: Results) -> str:
    """The text between the markers."""
    met, measured = tally(results)
    return "\n\n".join(
        (
            machine(results),
            f"### Bars: {met} of {measured} are met",
            "Peaked rows. Each cell gives the measured value and its bar.",
            bars_by_case(results),
            other_bars(results),
            "### One row, microseconds",
            one_row(results, [Shape(case) for case in CASES]),
            "A flat row:",
            one_row(results, FLAT),
            "### Whole steps, microseconds per row",
            steps(results),
            "### 64 rows, microseconds per row of a step",
            many_rows(results),
            "### Other vocabularies, microseconds per row",
            other_vocabularies(results),
            "### With masks, relative to a run without",
            with_masks(results),
            "### Around a step, microseconds",
            around_a_step(results),
            "### The interfaces of MindIE and ATB, relative to what they are built on",
            mindie(results),
            noise(results),
        )
    )


def machine(results: Results) -> str:
    about = results.machine
    name = CPUS.get((about["family"], about["model"]))
    versions = ", ".join(f"{library} {version}" for library, version in about["versions"].items())
    return (
        f"{about['cpu']}{f' ({name})' if name else ''}, {about['cores']} cores, one in use, "
        f"{', '.join(about['caches'])}; {about['system']}; {versions}."
    )


def bars_by_case(results: Results) -> str:
    rows = [[case, *map(cell, of_case(results, case))] for case in PEAKED]
    return table(["settings", "1 row, passes", "64 rows, passes", "1 row, faster than llama.cpp"], rows)


def cell(bar: Bar) -> str:
    """The measured value of a bar and its bound."""
    if bar.measured is None:
        return "–"
    sign = "≤" if bar.at_most else "≥"
    value = precise(bar.measured) if bar.met else f"**missed:** {precise(bar.measured)}"
    return f"{value} ({sign} {bar.bound:g})"


def other_bars(results: Results) -> str:
    met = {True: "yes", False: "**no**", None: "–"}
    rows = [
        [
            bar.label,
            f"at {'most' if bar.at_most else 'least'} {bar.bound:g}{bar.unit}",
            "–" if bar.measured is None else f"{precise(bar.measured)}{bar.unit}",
            met[bar.met],
        ]
        for bar in others(results)
    ]
    return table(["bar", "", "measured", "met"], rows)


def one_row(results: Results, shapes: Sequence[Shape]) -> str:
    peers = (NUMPY_RUN, TRANSFORMERS, FILLED, UNFILLED)
    gains = ((NUMPY_RUN, "run"), (TRANSFORMERS, "ours"), (FILLED, "ours"))
    rows = [
        [shape.case]
        + [number(results.per_row(series, shape)) for series in (RUN, *peers)]
        + [times(results.times(series, shape, yardstick)) for series, yardstick in gains]
        for shape in shapes
    ]
    heads = ["settings", "native", "NumPy", "transformers", "llama.cpp", "without filling"]
    return table([*heads, "faster than NumPy", "than transformers", "than llama.cpp"], rows)


def steps(results: Results) -> str:
    rows = []
    for case in CASES:
        many, mixed = Shape(case, batch=64), Shape(case, batch=64, rows="mixed")
        rows.append(
            [case]
            + [number(results.per_row(STEP, Shape(case, batch=batch))) for batch in BATCHES]
            + [number(results.per_row(STEP, mixed)), times(results.times(STEP, mixed, "pass"))]
            + [number(results.per_row(NUMPY_STEP, many)), times(results.times(NUMPY_STEP, many, "step"))]
        )
    floors = [results.find(FLOOR, Shape("floor", batch=batch)) for batch in BATCHES]
    rows.append(["*one pass*", *(number(f and 1e6 * f.yardsticks["pass"] / f.batch) for f in floors)])
    rows.append(["*NumPy's max*", *(number(f and f.per_row) for f in floors)])
    heads = [f"{batch} row{'s' * (batch > 1)}" for batch in BATCHES]
    more = ["64 rows, 8 flat", "passes", "64 rows, NumPy", "faster than NumPy"]
    return table(["settings", *heads, *more], rows)


def many_rows(results: Results) -> str:
    peers = (TRANSFORMERS, FILLED, UNFILLED)
    rows = [
        [shape.case]
        + [number(results.per_row(series, shape)) for series in (STEP, *peers)]
        + [times(results.times(series, shape, "ours")) for series in peers[:2]]
        for shape in PEERS_STEPS
    ]
    heads = ["settings", "engine-sampler", "transformers", "llama.cpp", "without filling"]
    return table([*heads, "faster than transformers", "than llama.cpp"], rows)


def other_vocabularies(results: Results) -> str:
    sizes = [v for v in VOCABULARIES if v != MAIN]
    rows = []
    for case in KEY_CASES:
        row = [case]
        for v in sizes:
            one, many = Shape(case, v), Shape(case, v, 64)
            row += [number(results.per_row(RUN, one)), number(results.per_row(STEP, many))]
            row += [times(results.times(series, one, "ours")) for series in (TRANSFORMERS, FILLED)]
        rows.append(row)
    heads = [
        head
        for v in sizes
        for head in (
            f"{v:,}: run, 1 row",
            "step, 64 rows",
            "1 row faster than transformers",
            "than llama.cpp",
        )
    ]
    return table(["settings", *heads], rows)


def with_masks(results: Results) -> str:
    cells = [(batch, share) for batch in (1, 64) for share in SHARES]
    rows = [
        [case] + [times(results.times(MASKED, Shape(masked(case, s), MAIN, n), "without")) for n, s in cells]
        for case in MASKED_CASES
    ]
    heads = [f"{n} row{'s' * (n > 1)}, {share:.1%} allowed" for n, share in cells]
    return table(["settings", *heads], rows)


def mindie(results: Results) -> str:
    cases = dict.fromkeys(entry.case for entry in results.entries if entry.series == ADAPTER)
    rows = [
        [case, *(times(results.times(ADAPTER, Shape(case, MAIN, n), BENEATH)) for n in ADAPTER_ROWS)]
        for case in cases
    ]
    return table(["call", *(f"{n} rows" for n in ADAPTER_ROWS)], rows)


def around_a_step(results: Results) -> str:
    around = []
    for vocab_size in (TINY, MAIN):
        if step := results.find(STEP, Shape(FIVE, vocab_size, 64)):
            around += [(f"a step of 64 requests with {FIVE}, vocabulary {vocab_size:,}", 64 * step.per_row)]
            around += [("its time beyond the backend's `run`", step.over("run"))]
            around += [("its time beyond the one call into C", step.over("kernels"))]
    for case in (GRAMMAR, GRAMMAR_AHEAD):
        if step := results.find(STEP, Shape(case, batch=64)):
            around += [(f"added by grammars to a step of 64 requests: {case}", step.over("without"))]
    for vocab_size, right in itertools.product((SMALL, MAIN), range(7)):
        if step := results.find(STEP, Shape(draft_tree(right), vocab_size, 23)):
            share = f", {step.times('one row'):.2f} of a step of one row"
            around += [(f"{step.case}, vocabulary {vocab_size:,}{share}", 1e6 * step.median)]
    around += [(f"`{SETTINGS.replace(' of', '` of', 1)}", results.per_row(STEP, Shape(SETTINGS)))]
    around += [
        (
            f"`add` and `remove`, {case}, prompt of 2,048 tokens",
            results.per_row(STEP, Shape(ADD_AND_REMOVE + case)),
        )
        for case in ("default chain", "penalties, DRY, default chain")
    ]
    for series, length, kind in itertools.product((JOIN, LEAVE), PROMPTS, ("array", "list")):
        if entry := results.find(series, Shape(prompt_of(length, kind))):
            share = f", {entry.times('conversion'):.2f} of its conversion from a list"
            around += [(f"`{series}`, default chain, {prompt_of(length, kind)}{share}", entry.per_row)]
    around += [
        (
            f"`torch.multinomial` of {v:,} given probabilities",
            results.per_row(MULTINOMIAL, Shape("temperature", v)),
        )
        for v in VOCABULARIES
    ]
    return table(["", "microseconds"], [[name, number(value)] for name, value in around])


def noise(results: Results) -> str:
    return (
        f"Every number is the median of its rounds; every ratio is that of two medians from the same loop. "
        f"The interquartile range of the rounds, of {len(results.entries)} numbers: at most "
        f"{results.spread(0.5):.0%} of the median for half of them, {results.spread(0.9):.0%} for nine in "
        f"ten, {results.spread(1.0):.0%} in the worst case."
    )


# --- Markdown ------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its first column aligned left and the numbers aligned right."""
    lines = [_line(heads), _line(["---"] + ["---:"] * (len(heads) - 1))]
    lines += [_line([*row, *[""] * (len(heads) - len(row))]) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Two or three significant digits: 7.4, 96, 14,900."""
    if value is None:
        return "–"
    if value < 10:
        return f"{value:.1f}"
    return f"{float(f'{value:.3g}'):,.0f}"


def precise(value: float) -> str:
    """Three significant digits: 1.27, 14.3, 389."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def times(value: float | None) -> str:
    return f"{number(value)}×" if value else "–"


if __name__ == "__main__":
    main(sys.argv[1])
