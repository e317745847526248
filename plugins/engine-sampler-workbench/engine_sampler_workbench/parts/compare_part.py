"""Two chains on the same rows and seeds."""

from __future__ import annotations

import json
from typing import Any

from nicegui import run, ui

from engine_sampler import SamplingParams

from ..picture import compared_html, draws_svg
from ..session import DRAWS, compare
from ..settings import PRESETS

_MOST_JSON = 20_000


class ComparePart:
    """The chain of the page, and another one beside it."""

    title = "Side by side"

    def __init__(self, page: Any) -> None:
        self.page = page
        ui.label("The chain of this page (A) and another one (B) draw from the same rows with the same seed.")
        with ui.element("div").classes("bar"):
            with ui.button("B: a preset").props("dense no-caps outline"), ui.menu():
                for name, values in PRESETS.items():
                    ui.menu_item(name, lambda values=values: self._use(values))
            page.button("B: the chain as it is now", lambda: self._use(page.settings.values)).props("outline")
        self.other = (
            ui.textarea("B, as JSON")
            .props(f"outlined dense autogrow maxlength={_MOST_JSON}")
            .classes("wide mono")
        )
        self.other.on("change", self._typed)
        self.figures = ui.label("").classes("strong")
        self.lines = []
        for name in ("A", "B"):
            with ui.element("div").classes("compared"):
                ui.label(name).classes(f"strong chain-{name}")
                self.lines.append(ui.html("", sanitize=False).classes("tokens"))
        self.caption = ui.label("").classes("muted")
        self.bars = ui.html("", sanitize=False).classes("scroll")

    def _use(self, values: Any) -> None:
        self.page.settings.other = dict(values)
        self.page.ask("look")

    def _typed(self) -> None:
        try:
            values = json.loads(self.other.value or "{}")
            SamplingParams(**values)
        except (ValueError, TypeError, RecursionError) as error:
            self.page.show_error(f"B: {error}")
            return
        self.page.show_error("")
        self._use(values)

    async def refresh(self, page: Any) -> None:
        """Draw with both chains, if this is seen."""
        if not page.is_open(self.title) or page.view is None or page.text.wants_more:
            return
        self.other.set_value(json.dumps(page.settings.other, default=list))
        comparison = await run.io_bound(compare, page.text, page.view.index, page.settings.other)
        for line, html in zip(self.lines, compared_html(comparison), strict=True):
            line.set_content(html)
        self.figures.set_text(f"{comparison.differing} of {len(comparison.tokens)} tokens differ")
        self.caption.set_text(f"Row {page.view.index + 1}: what {DRAWS:,} seeds draw, A above, B below.")
        self.bars.set_content(draws_svg(comparison.draws, page.view.label))
