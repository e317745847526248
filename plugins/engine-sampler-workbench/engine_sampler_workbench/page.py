"""The page: its frame, its text, and the one task that does its work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from nicegui import background_tasks, run, ui

from engine_sampler import SamplingParams

from . import parts
from .picture import text_html
from .row_view import RowView
from .session import Text
from .settings import MOST_PROMPT, Settings
from .sources import EngineDied, Source

logger = logging.getLogger("engine_sampler.workbench")

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")

_CLICKED = "(e) => { const b = e.target.closest('[data-i]'); if (b) emit(+b.dataset.i) }"
_ARROW = """(e) => {
  const by = {ArrowRight: 1, ArrowLeft: -1}[e.key], at = document.activeElement.dataset.i;
  if (by && at !== undefined) { e.preventDefault(); emit(Math.max(0, +at + by)) }
}"""


class Part(Protocol):
    """A part of the page, built once."""

    def refresh(self, page: Page) -> Any:
        """Show what the page has now; a coroutine if that takes long."""


class Page:
    """What one browser tab sees.

    text, view  None until the engine has answered for the first time.
    """

    def __init__(self, source: Source, settings: Settings, address: str) -> None:
        self.source, self.settings, self.address = source, settings, address
        self.text: Text | None = None
        self.view: RowView | None = None
        self.asked: set[str] = set()
        self.running = False
        self.by_key = False

    # --- what is to be done -----------------------------------------------------------------------

    def ask(self, what: str) -> None:
        """Have one of "start", "replay", "grow" and "look" done; what is asked twice meanwhile is done once."""
        self.asked.add(what)
        if not self.running:
            self.running = True
            background_tasks.create(self._work())

    def change(self, change: Callable[[], Any]) -> bool:
        """Change the settings, and draw the text again; False, and the error is shown, if that is not allowed."""
        try:
            change()
        except ValueError as error:
            self.show_error(str(error))
            return False
        self.show_error("")
        self.ask("replay")
        return True

    async def _work(self) -> None:
        try:
            while self.asked:
                asked, self.asked = self.asked, set()
                await self._do(asked)
        except EngineDied as error:
            self.show_error(str(error), died=True)
        except Exception as error:  # whatever a model or a plugin raises is shown, and the page lives on
            logger.debug("the page could not be drawn", exc_info=True)
            known = isinstance(error, ValueError)
            self.show_error(str(error) if known else f"{type(error).__name__}: {error}")
        finally:
            self.running = False
            self.status.set_text("")

    async def _do(self, asked: set[str]) -> None:
        self.status.set_text("working …")
        if "start" in asked or self.text is None:
            self.text = await run.io_bound(self._started)
        elif "replay" in asked:
            self.text = await run.io_bound(self.text.under, SamplingParams(**self.settings.values))
        self.text.length = max(1, min(self.settings.length, self.text.most))
        await self._look()
        while self.text.wants_more and not self.asked:
            await run.io_bound(self.text.advance)
            self.show_text()
            if self.view is None:
                await self._look()
        if not self.asked:
            await self._look()

    def _started(self) -> Text:
        token_ids = self.source.encode(self.settings.prompt)
        return Text(self.source, token_ids, SamplingParams(**self.settings.values), self.settings.length)

    @property
    def chosen(self) -> int:
        """The token whose row is shown."""
        count = len(self.text.tokens) if self.text else 0
        at = self.settings.chosen
        return count - 1 if at < 0 else min(at, count - 1)

    async def _look(self) -> None:
        self.show_text()
        if self.text is None or not self.text.tokens:
            self.view = None
        else:
            self.view = await run.io_bound(RowView, self.text, self.chosen)
        for part in self.parts:
            if (shown := part.refresh(self)) is not None:
                await shown

    def restart(self) -> None:
        """Start the engine again."""

        async def again() -> None:
            await run.io_bound(self.source.restart)
            self.ask("start")

        self.show_error("")
        background_tasks.create(self._guarded(again))

    async def _guarded(self, doing: Callable[[], Any]) -> None:
        try:
            await doing()
        except (EngineDied, ValueError, OSError) as error:
            self.show_error(str(error), died=True)

    # --- what is shown ----------------------------------------------------------------------------

    def build(self) -> None:
        """Build the page, once."""
        ui.add_css(STYLE)
        ui.colors(primary="#1864ab")
        self.dark = ui.dark_mode(None)
        with ui.element("header").classes("top"):
            ui.label("engine-sampler workbench").classes("brand")
            ui.label(self.source.title).classes("muted source")
            self.status = ui.label("").classes("muted").props("role=status")
            ui.space()
            themes = {None: "auto", False: "light", True: "dark"}
            ui.toggle(themes, value=None).props("dense no-caps flat aria-label=theme").bind_value(self.dark)
        with ui.element("div").classes("fault").props("role=alert") as self.fault:
            self.fault_text = ui.label("").classes("pre")
            self.again = ui.button("Start the engine again", on_click=self.restart).props(
                "dense no-caps outline"
            )
        self.fault.set_visibility(False)
        with ui.element("main").classes("wb"):
            with ui.element("section").classes("card text").props("aria-label=Text"):
                self._build_text()
            with ui.element("section").classes("card tabs"):
                self.parts = self._build_tabs()
            with ui.element("aside").classes("card chain").props("aria-label=Chain"):
                self.parts.append(parts.ChainPart(self))

    def _build_text(self) -> None:
        settings = self.settings
        if not self.source.is_fixed:
            prompt = (
                ui.textarea("Prompt")
                .props(f"autogrow outlined dense maxlength={MOST_PROMPT}")
                .classes("wide")
            )
            prompt.bind_value(settings, "prompt").on("keydown.ctrl.enter", self.generate)
        with ui.element("div").classes("bar"):
            self.button("Generate", self.generate).props("unelevated")
            self.button("Step", self.step).props("outline")
            self.button("Stop", self.stop).props("outline")
            count = ui.number("tokens", min=1, max=400, precision=0, on_change=self._set_length)
            count.set_value(settings.length)
            count.props("dense outlined").classes("count")
            ui.html('<span class="tok p0">unlikely</span><span class="tok p4"> </span>'
                    '<span class="tok p9">certain</span><span class="tok p9 differs">changed</span>',
                    sanitize=False).classes("legend")  # fmt: skip
        self.tokens = ui.html("", sanitize=False).classes("tokens")
        self.tokens.on("click", lambda e: self.choose(e.args), js_handler=_CLICKED)
        self.tokens.on("keydown", lambda e: self.choose(e.args, by_key=True), js_handler=_ARROW)
        self.ended = ui.label("").classes("muted")

    def _build_tabs(self) -> list[Part]:
        kinds = (parts.RowPart, parts.ComparePart, parts.GrammarPart, parts.TakePart)
        with ui.tabs().props("dense no-caps align=left inline-label outside-arrows") as tabs:
            names = [ui.tab(kind.title) for kind in kinds]
        built: list[Part] = []
        with ui.tab_panels(tabs, value=names[0], animated=False, keep_alive=True).classes(
            "panels"
        ) as self.panels:
            for name, kind in zip(names, kinds, strict=True):
                with ui.tab_panel(name):
                    built.append(kind(self))
        self.panels.on_value_change(lambda: self.ask("look"))
        return built

    def is_open(self, title: str) -> bool:
        """Whether a tab is the one that is seen."""
        return bool(self.panels.value == title)

    def button(self, text: str, doing: Callable[[], Any]) -> Any:
        """A small button."""
        return ui.button(text, on_click=lambda: doing()).props("dense no-caps")

    def show_error(self, text: str, died: bool = False) -> None:
        """Show an error above the page; "" removes it."""
        self.fault_text.set_text(text)
        self.fault.set_visibility(bool(text))
        self.again.set_visibility(died)

    def show_text(self) -> None:
        """Show the tokens."""
        if self.text is None:
            return
        self.tokens.set_content(text_html(self.text, self.chosen))
        self.ended.set_text(f"ended: {self.text.ended}" if self.text.ended else "")
        if self.by_key:
            self.by_key = False
            self.tokens.client.run_javascript(
                "requestAnimationFrame(() => document.querySelector('.tok.on')?.focus())"
            )

    # --- what people do ---------------------------------------------------------------------------

    def generate(self) -> None:
        """Draw the text from the prompt."""
        self.settings.length, self.settings.chosen = int(self.wanted), 0
        self.show_error("")
        self.ask("start")

    def step(self) -> None:
        """Draw one more token."""
        self.settings.length = len(self.text.tokens) + 1 if self.text else 1
        self.settings.chosen = -1
        self.ask("grow")

    def stop(self) -> None:
        """Draw no more."""
        if self.text is not None:
            self.settings.length = self.text.length = len(self.text.tokens)

    def choose(self, index: Any, by_key: bool = False) -> None:
        """Show the row of a token."""
        self.settings.chosen, self.by_key = max(0, int(index)), by_key
        self.ask("look")

    @property
    def wanted(self) -> int:
        """The number of tokens that `generate` draws."""
        return getattr(self, "_wanted", self.settings.length)

    def _set_length(self, event: Any) -> None:
        self._wanted = max(1, min(int(event.value or 1), 400))
