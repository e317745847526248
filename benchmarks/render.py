"""Write a run's numbers into README.md, between its markers, and draw speed.svg.

python -m benchmarks.render results.json
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .cases import ADD_AND_REMOVE, BATCHES, CASES, FLAT, KEY_CASES, MAIN, MIXED_STEP, SETTINGS, TINY
from .plot import draw
from .results import ALONE, BACKEND, FILLED, TRANSFORMERS, US, Results, ratio
from .rows import VOCABULARIES

HERE = Path(__file__).parent
START, END = "<!-- results -->", "<!-- end of results -->"
CPUS = {(25, 17): "Zen 4"}
"""(family, model) of CPUs whose name does not say what they are."""


def main(path: str) -> None:
    results = Results.read(Path(path))
    readme = HERE / "README.md"
    before, _, rest = readme.read_text("utf-8").partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n\n{report(results)}\n\n{END}{after}", "utf-8")
    draw(results, HERE / "speed.svg")


def report(results: Results) -> str:
    """Everything between the markers."""
    return "\n\n".join(
        (
            machine(results),
            "### A whole step, microseconds per row",
            steps(results),
            "### With 64 rows",
            many_rows(results),
            "### The backend's share, microseconds per row",
            backend(results),
            "### Other vocabularies, and a flat row, microseconds per row of a step",
            elsewhere(results),
            "### What surrounds a step, microseconds",
            surroundings(results),
            noise(results),
        )
    )


def machine(results: Results) -> str:
    about = results.machine
    name = CPUS.get((about["family"], about["model"]))
    versions = ", ".join(f"{library} {version}" for library, version in about["versions"].items())
    return (
        f"{about['cpu']}{f' ({name})' if name else ''}, {about['cores']} cores of which one is used, "
        f"{', '.join(about['caches'])}; {about['system']}; {versions}."
    )


def steps(results: Results) -> str:
    rows = []
    for case in CASES:
        ours = results.per_row(US, case)
        many = results.per_row(US, case, batch=64)
        theirs = [results.per_row(who, case) for who in (TRANSFORMERS, FILLED, ALONE)]
        rows.append(
            [case]
            + [number(results.per_row(US, case, batch=batch)) for batch in BATCHES]
            + [times(ratio(many, results.floor(batch=64)))]
            + [number(value) for value in theirs]
            + [times(ratio(value, ours)) for value in theirs[:2]]
        )
    rows.append(["*one read (floor)*"] + [number(results.floor(batch=batch)) for batch in BATCHES])
    return table(
        [
            "settings",
            *(f"{batch} row{'s' * (batch > 1)}" for batch in BATCHES),
            "floors at 64",
            "transformers, 1 row",
            "llama.cpp, 1 row",
            "without filling",
            "faster than transformers",
            "than llama.cpp",
        ],
        rows,
    )


def many_rows(results: Results) -> str:
    rows = []
    for case in CASES:
        ours = results.per_row(US, case, batch=64)
        theirs = [results.per_row(who, case, batch=64) for who in (TRANSFORMERS, FILLED, ALONE)]
        if any(theirs):
            gains = [times(ratio(value, ours)) for value in theirs[:2]]
            rows.append([case, number(ours), *map(number, theirs), *gains])
    return table(
        [
            "settings",
            "engine-sampler",
            "transformers",
            "llama.cpp",
            "without filling",
            "faster than transformers",
            "than llama.cpp",
        ],
        rows,
    )


def backend(results: Results) -> str:
    rows = [
        [case, *(number(results.per_row(BACKEND, case, batch=batch)) for batch in BATCHES)] for case in CASES
    ]
    return table(["settings", *(f"{batch} row{'s' * (batch > 1)}" for batch in BATCHES)], rows)


def elsewhere(results: Results) -> str:
    others = [(v, b) for v in VOCABULARIES if v != MAIN for b in (1, 64)]
    rows = [
        [case]
        + [number(results.per_row(US, case, *other)) for other in others]
        + [number(results.per_row(US, *_flat(case)))]
        for case in KEY_CASES
    ]
    rows.append(
        ["*one read (floor)*"]
        + [number(results.floor(*other)) for other in others]
        + [number(results.floor(flat=True))]
    )
    heads = [f"{v:,}, {b} row{'s' * (b > 1)}" for v, b in others]
    return table(["settings", *heads, f"{MAIN:,}, 1 flat row"], rows)


def _flat(case: str) -> tuple[str, int, int, bool]:
    vocab_size, batch, _ = next(shape for shape in FLAT if shape[2] == case)
    return case, vocab_size, batch, True


def surroundings(results: Results) -> str:
    mixed = results.per_row(US, MIXED_STEP, TINY, 64)
    around = [(f"{MIXED_STEP}, vocabulary {TINY}", mixed and 64 * mixed)]
    around += [(f"`{SETTINGS.replace(' of', '` of', 1)}", results.per_row(US, SETTINGS))]
    around += [
        (f"`add` and `remove`, {case}, prompt of 2,048 tokens", results.per_row(US, ADD_AND_REMOVE + case))
        for case in ("default chain", "penalties, DRY, default chain")
    ]
    around += [
        (
            f"`torch.multinomial` alone, of {v:,} ready probabilities",
            results.per_row("torch.multinomial", "multinomial", v),
        )
        for v in VOCABULARIES
    ]
    return table(["", "microseconds"], [[name, number(value)] for name, value in around])


def noise(results: Results) -> str:
    return (
        f"Every number is the median of its rounds, in processor time of the process. The machine is shared, "
        f"which costs cache and memory bandwidth: "
        f"for half of the {len(results.entries)} numbers the middle half of the rounds lies within "
        f"{results.spread(0.5):.0%} of the median, for nine in ten within {results.spread(0.9):.0%}, "
        f"at worst within {results.spread(1.0):.0%}."
    )


# --- Markdown ------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its first column to the left and numbers to the right."""
    lines = [_line(heads), _line(["---"] + ["---:"] * (len(heads) - 1))]
    lines += [_line([*row, *[""] * (len(heads) - len(row))]) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Two or three digits that say something: 7.4, 96, 14,900."""
    if value is None:
        return "–"
    if value < 10:
        return f"{value:.1f}"
    return f"{float(f'{value:.3g}'):,.0f}"


def times(value: float | None) -> str:
    return f"{number(value)}×" if value else "–"


if __name__ == "__main__":
    main(sys.argv[1])
