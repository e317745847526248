"""What one takes along: settings for other systems, pictures, a table, a link."""

from __future__ import annotations

import io
from html import escape
from typing import Any

from nicegui import run, ui

from engine_sampler import SamplingParams
from engine_sampler.explain import picture

from ..exports import exports


class TakePart:
    """Settings in the words of other systems, downloads, the link."""

    title = "Take it with you"

    def __init__(self, page: Any) -> None:
        self.page = page
        with ui.element("div").classes("bar"):
            for kind in ("PNG", "SVG", "CSV"):
                page.button(kind, lambda kind=kind: self._download(kind)).props("outline")
            page.button("Copy the link", lambda: ui.clipboard.write(self.link.value)).props("unelevated")
        self.link = (
            ui.input("Link that restores this page").props("dense outlined readonly").classes("wide mono")
        )
        ui.label(
            "The link works while this workbench runs. Later: engine-sampler workbench --restore 'LINK'"
        ).classes("muted")
        self.blocks = ui.element("div").classes("wide")

    def refresh(self, page: Any) -> None:
        """Write the settings, if this is seen."""
        if not page.is_open(self.title):
            return
        self.link.set_value(f"{page.address}&state={page.settings.link()}")
        self.blocks.clear()
        with self.blocks:
            for export in exports(SamplingParams(**page.settings.values)):
                with ui.element("div").classes("bar"):
                    ui.label(export.system).classes("strong grow")
                    code = export.code
                    page.button("Copy", lambda code=code: ui.clipboard.write(code)).props("flat")
                ui.html(f"<pre>{escape(code)}</pre>", sanitize=False).classes("wide scroll")
                for sentence in export.missing:
                    ui.label(f"⚠ {sentence}").classes("missing")

    async def _download(self, kind: str) -> None:
        view = self.page.view
        if view is None:
            self.page.show_error("There is no row yet: generate a text first.")
            return
        content = await run.io_bound(view.csv if kind == "CSV" else lambda: _drawn(view, kind.lower()))
        ui.download.content(content, f"row-{view.index + 1}.{kind.lower()}")


def _drawn(view: Any, suffix: str) -> bytes:
    file = io.BytesIO()
    figure = picture(view.steps, title=f"row {view.index + 1}")
    figure.savefig(file, format=suffix, dpi=150)
    return file.getvalue()
