"""The tabs of a page: each is built once, and shows what the page has when it is told to refresh."""

from __future__ import annotations

import io
import json
from html import escape
from typing import Any

from nicegui import run, ui

from engine_sampler import Grammar, SamplingParams
from engine_sampler.explain import (
    TraceReading,
    draw_html,
    explain_mask,
    exports,
    mask_lines,
    plot,
    row_html,
)

from .picture import compared_html, draws_html
from .session import DRAWS, SHOWN, compare
from .settings import GRAMMARS, MOST_GRAMMAR, PRESETS

READERS = {
    "json_schema": ("JSON Schema", Grammar.from_json_schema),
    "regex": ("Pattern", Grammar.from_regex),
    "grammar": ("Lark", Grammar.from_lark),
}
"""Title and reader of a grammar, by the parameter that takes it."""


class RowTab:
    """The picture of a row, the draw, and what removed a token that one asks for."""

    title = "Row"

    def __init__(self, page: Any) -> None:
        self.page = page
        with ui.element("div").classes("bar"):
            page.button("◀", lambda: page.choose(page.chosen - 1), "flat aria-label='row before'")
            self.place = ui.label("").classes("strong")
            page.button("▶", lambda: page.choose(page.chosen + 1), "flat aria-label='next row'")
            self.scale = ui.toggle(["log", "linear"], value="log", on_change=self.refresh)
            self.scale.props("dense no-caps flat aria-label=scale")
        self.figures = ui.label("No row yet: press Generate or Step.")
        self.draw = ui.html("", sanitize=False).classes("wide")
        self.drawn = ui.label("").classes("muted")
        self.asked = ui.input("Why not …? a token’s text, or #id", on_change=self._answer)
        self.asked.props("dense outlined clearable maxlength=100").classes("why")
        self.answer = ui.label("").classes("pre answer").props("role=status")
        self.picture = ui.html("", sanitize=False).classes("row-picture wide").props("tabindex=0")
        self.others = ui.label("").classes("muted")

    def refresh(self) -> None:
        """Show the row that is chosen now."""
        reading: TraceReading | None = self.page.reading
        if reading is None:
            return
        self.place.set_text(f"row {self.page.chosen + 1} of {len(self.page.text.tokens)}")
        self.figures.set_text(reading.summary)
        self.draw.set_content(draw_html(reading))
        self.drawn.set_text(self.page.text.draw_text(self.page.chosen, reading))
        self.picture.set_content(row_html(reading, top=SHOWN, logarithmic=self.scale.value == "log"))
        self.others.set_text(f"Removed: {reading.removed_text}.")
        self._answer()

    def _answer(self) -> None:
        typed, reading = self.asked.value, self.page.reading
        self.answer.set_text("\n".join(reading.why_not(typed)) if typed and reading else "")


class CompareTab:
    """The chain of the page, and another one beside it."""

    title = "Side by side"

    def __init__(self, page: Any) -> None:
        self.page = page
        ui.label("The chain of this page (A) and another one (B) draw from the same rows with the same seed.")
        with ui.element("div").classes("bar"):
            presets(self.use, "B: a preset")
            page.button("B: the chain as it is now", lambda: self.use(page.settings.values))
        self.other = ui.textarea("B, as JSON").props(f"outlined dense autogrow maxlength={MOST_GRAMMAR}")
        self.other.classes("wide mono").on("change", self._typed)
        self.figures = ui.label("").classes("strong")
        self.lines = []
        for name in ("A", "B"):
            with ui.element("div").classes("compared"):
                ui.label(name).classes(f"strong chain-{name}")
                self.lines.append(ui.html("", sanitize=False).classes("tokens"))
        self.caption = ui.label("").classes("muted")
        self.bars = ui.html("", sanitize=False).classes("scroll wide")

    def use(self, values: Any) -> None:
        """Take these parameters for the other chain."""
        self.page.show_error("")
        self.page.settings.other = dict(values)
        self.page.ask("look")

    def _typed(self) -> None:
        try:
            SamplingParams(**(values := from_json(self.other.value)))
        except ValueError as error:
            self.page.show_error(f"B: {error}")
        else:
            self.use(values)

    async def refresh(self) -> None:
        """Draw with both chains, if this is seen."""
        page = self.page
        if not page.is_open(self.title) or page.reading is None or page.text.wants_more:
            return
        self.other.set_value(json.dumps(page.settings.other, default=list))
        comparison = await run.io_bound(compare, page.text, page.chosen, page.settings.other)
        for line, html in zip(self.lines, compared_html(comparison), strict=True):
            line.set_content(html)
        self.figures.set_text(f"{comparison.differing} of {len(comparison.tokens)} tokens differ")
        self.caption.set_text(f"Row {page.chosen + 1}: what {DRAWS:,} seeds draw, A above, B below.")
        self.bars.set_content(draws_html(comparison, page.reading))


class GrammarTab:
    """A grammar, what it allows after the text so far, and how it reads that text."""

    title = "Grammar"

    def __init__(self, page: Any) -> None:
        self.page = page
        used = page.settings.constraint if page.settings.constraint in READERS else "json_schema"
        self.kind = ui.toggle({name: title for name, (title, _) in READERS.items()}, value=used)
        self.kind.props("dense no-caps flat aria-label='kind of grammar'")
        self.source = ui.textarea("Grammar", value=str(page.settings.values.get(used) or GRAMMARS[used]))
        self.source.props(f"outlined dense autogrow maxlength={MOST_GRAMMAR}").classes("wide mono")
        self.kind.on_value_change(lambda: self.source.set_value(GRAMMARS[self.kind.value]))
        with ui.element("div").classes("bar"):
            page.button("Use it", self._use, "unelevated")
            page.button("Remove it", self._take)
            self.state = ui.label("").classes("muted")
        self.error = ui.label("").classes("pre mono grammar-error").props("role=alert")
        self.allowed = ui.html("", sanitize=False)
        self.captures = ui.label("").classes("pre")
        self.position = ui.label("").classes("pre mono scroll small")

    async def _use(self) -> None:
        name, text = self.kind.value, str(self.source.value or "")[:MOST_GRAMMAR]
        try:
            await run.io_bound(READERS[name][1], text)
        except ValueError as error:
            self.error.set_text(str(error))
        else:
            self._take(**{name: text})

    def _take(self, **grammar: str) -> None:
        self.error.set_text("")
        settings = self.page.settings
        others = {name: value for name, value in settings.values.items() if name not in READERS}
        self.page.change(lambda: settings.use({**others, **grammar}))

    async def refresh(self) -> None:
        """Show what the grammar allows, if this is seen."""
        name = self.page.settings.constraint
        self.state.set_text(f"in use: {name}" if name else "none is in use")
        shown = ("", "", "")
        if (
            self.page.is_open(self.title)
            and self.page.reading
            and self.page.source.tokenizer
            and name in READERS
        ):
            shown = await run.io_bound(
                _explained, self.page, READERS[name][1](self.page.settings.values[name])
            )
        self.allowed.set_content(shown[0])
        self.position.set_text(shown[1])
        self.captures.set_text(shown[2])


def _explained(page: Any, grammar: Grammar) -> tuple[str, str, str]:
    """The likeliest tokens with those that are allowed marked, the position, and the captures."""
    tokenizer, steps = page.source.tokenizer, page.reading.steps
    beginning = b"".join(map(tokenizer.text_bytes, page.text.ids[: page.chosen]))
    mask = explain_mask(grammar, tokenizer, beginning)
    masked = [token for step in steps if step.name == "grammar" for token in step.top[: SHOWN // 3]]
    texts = {token.token_id: token.text for token in (*masked, *steps[0].top)}
    chips = [f'<span class="chip {mask.allowed[t]}">{escape(text)}</span>' for t, text in texts.items()]
    count = f"{int(mask.allowed.sum()):,} tokens are allowed in row {page.chosen + 1}"
    found = grammar.captures(beginning) if grammar.program.captures and mask.refused is None else {}
    captures = "\n".join(
        f"{name}: {', '.join(repr(one.text) for one in some)}" for name, some in found.items()
    )
    html = f'<p>{count}. The likeliest of these, and of all:</p><div class="chips">{"".join(chips)}</div>'
    return html, "\n".join(mask_lines(mask, tokenizer)), captures


class TakeTab:
    """PageSettings in the words of other systems, pictures, a table, the link."""

    title = "Take it with you"

    def __init__(self, page: Any) -> None:
        self.page = page
        with ui.element("div").classes("bar"):
            for kind in ("png", "svg", "csv"):
                page.button(kind.upper(), lambda kind=kind: self._download(kind))
            page.button("Copy the link", lambda: ui.clipboard.write(self.link.value), "unelevated")
        self.link = (
            ui.input("Link that restores this page").props("dense outlined readonly").classes("wide mono")
        )
        later = "It works while this workbench runs. Later: engine-sampler workbench --restore 'LINK'"
        ui.label(later).classes("muted")
        self.blocks = ui.element("div").classes("wide")

    def refresh(self) -> None:
        """Write the settings, if this is seen."""
        page = self.page
        if not page.is_open(self.title):
            return
        self.link.set_value(f"{page.address}&state={page.settings.link()}")
        self.blocks.clear()
        with self.blocks:
            for system, _, code, missing in exports(page.settings.params):
                with ui.element("div").classes("bar"):
                    ui.label(system).classes("strong grow")
                    page.button("Copy", lambda code=code: ui.clipboard.write(code), "flat")
                ui.html(f"<pre>{escape(code)}</pre>", sanitize=False).classes("wide")
                for sentence in missing:
                    ui.label(f"⚠ {sentence}").classes("missing")

    async def _download(self, kind: str) -> None:
        reading = self.page.reading
        if reading is not None:
            content = await run.io_bound(_file, reading, kind)
            ui.download.content(content, f"row-{self.page.chosen + 1}.{kind}")


def _file(reading: TraceReading, kind: str) -> bytes:
    if kind == "csv":
        return reading.csv().encode()
    file = io.BytesIO()
    plot(reading.steps, title="What each step does to this row").savefig(file, format=kind, dpi=150)
    return file.getvalue()


TABS = (RowTab, CompareTab, GrammarTab, TakeTab)


def presets(use: Any, title: str) -> None:
    """A menu of the presets."""
    with ui.button(title, color=None).props("dense no-caps outline"), ui.menu():
        for name, values in PRESETS.items():
            ui.menu_item(name, lambda values=values: use(values))


def from_json(text: str | None) -> dict[str, Any]:
    """An object of parameters. Raises ValueError for any other text."""
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError('an object in JSON is needed, such as {"top_k": 40}')
    return values
