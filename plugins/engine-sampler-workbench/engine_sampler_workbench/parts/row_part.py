"""The row of a token, step by step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nicegui import ui

from ..picture import draw_svg, row_svg
from ..row_view import RowView


class RowPart:
    """The picture of a row, the draw, and what removed a token that one asks for."""

    title = "Row"

    def __init__(self, page: Any) -> None:
        self.page = page
        with ui.element("div").classes("bar"):
            page.button("◀", lambda: page.choose(page.chosen - 1)).props("flat aria-label='row before'")
            self.place = ui.label("").classes("strong")
            page.button("▶", lambda: page.choose(page.chosen + 1)).props("flat aria-label='next row'")
            self.scale = ui.toggle(["log", "linear"], value="log", on_change=lambda: self.refresh(page))
            self.scale.props("dense no-caps flat aria-label=scale")
        self.figures = ui.label("")
        self.draw = ui.html("", sanitize=False)
        self.drawn = ui.label("").classes("muted")
        with ui.element("div").classes("bar"):
            self.asked = ui.input("Why not …? a token’s text, or #id", on_change=self._answer)
            self.asked.props("dense outlined clearable maxlength=100").classes("why")
        self.answer = ui.label("").classes("pre answer").props("role=status")
        self.picture = ui.html("", sanitize=False).classes("row-picture").props("tabindex=0")
        self.others = ui.label("").classes("muted")

    def refresh(self, page: Any) -> None:
        """Show the row that is chosen now."""
        view: RowView | None = page.view
        if view is None:
            self.figures.set_text("No row yet: press Generate or Step.")
            return
        first, last = view.steps[0], view.steps[-2]
        self.place.set_text(f"row {view.index + 1} of {len(view.text.tokens)}")
        self.figures.set_text(
            f"{first.candidates:,} tokens, {first.entropy_bits:.2f} bits → {last.candidates:,} left, "
            f"{last.entropy_bits:.2f} bits → {view.label(view.chosen or 0)}"
        )
        self.draw.set_content(draw_svg(view))
        self.drawn.set_text(_sentence(view))
        self.picture.set_content(row_svg(view, self.scale.value == "log"))
        self.others.set_text(_others(view))
        self._answer()

    def _answer(self) -> None:
        typed, view = self.asked.value, self.page.view
        self.answer.set_text("\n".join(view.why_not(typed)) if typed and view else "")


def _sentence(view: RowView) -> str:
    if view.draw is None:
        return f"{view.steps[-1].name} draws no random number."
    if view.draw.share is None:
        return f"The random number is {view.draw.number:.6f}; {view.steps[-1].name} has a rule of its own for it."
    start, end = view.draw.share
    return f"The random number is {view.draw.number:.6f}; it fell between {start:.4f} and {end:.4f}."


def _others(view: RowView) -> str:
    """What removed all tokens that the picture does not show."""
    shown = set(view.token_ids)
    removed = Counter(view.removed_at.tolist())
    by = ", ".join(f"{view.steps[n].name} {count:,}" for n, count in sorted(removed.items()) if n)
    return f"{len(view.logits) - len(shown):,} more tokens are not shown. Removed in all: {by or 'none'}."
