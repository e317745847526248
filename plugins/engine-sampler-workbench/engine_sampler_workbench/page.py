"""The page: its frame, its text, and the one task that does its work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import background_tasks, run, ui

from engine_sampler.explain import TraceReading

from .chain import ChainColumn
from .picture import text_html
from .session import MOST_TOKENS, Text
from .settings import MOST_PROMPT, PageSettings
from .sources import EngineDied, Source
from .tabs import TABS

logger = logging.getLogger("engine_sampler.workbench")

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")

_CLICKED = "(e) => { const b = e.target.closest('[data-i]'); if (b) emit(+b.dataset.i) }"
_ARROW = """(e) => {
  const by = {ArrowRight: 1, ArrowLeft: -1}[e.key], at = document.activeElement.dataset.i;
  if (by && at !== undefined) { e.preventDefault(); emit(Math.max(0, +at + by)) }
}"""
_FOCUS = "requestAnimationFrame(() => document.querySelector('.tok.on')?.focus())"
_LEGEND = (
    '<span class="tok p0">unlikely</span><span class="tok p4"> … </span><span class="tok p9">certain</span>'
    '<span class="tok p9 differs">changed</span>'
)


class Page:
    """What one browser tab sees.

    text, reading  the text, and its row that is shown; None until the engine has answered.
    """

    def __init__(self, source: Source, settings: PageSettings, address: str) -> None:
        self.source, self.settings, self.address = source, settings, address
        self.text: Text | None = None
        self.reading: TraceReading | None = None
        self.wanted = settings.length
        self.asked: set[str] = set()
        self.running = self.by_key = False

    # --- what is to be done -----------------------------------------------------------------------

    def ask(self, what: str) -> None:
        """Have "start", "replay", "look" or "restart" done; what is asked twice meanwhile is done once."""
        self.asked.add(what)
        if not self.running:
            self.running = True
            background_tasks.create(self._work())

    def change(self, change: Callable[[], Any]) -> None:
        """Change the settings, and draw the text again, or show the error if that is not allowed."""
        try:
            change()
        except ValueError as error:
            self.show_error(str(error))
        else:
            self.show_error("")
            self.ask("replay")

    async def _work(self) -> None:
        self.status.set_text("working …")
        try:
            while self.asked:
                asked, self.asked = self.asked, set()
                await self._do(asked)
        except EngineDied as error:
            self.show_error(str(error), died=True)
        except Exception as error:  # whatever a model or a plugin raises is shown, and the page lives on
            logger.debug("the page could not be drawn", exc_info=True)
            self.show_error(
                str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            )
        self.running = False
        self.status.set_text("")

    async def _do(self, asked: set[str]) -> None:
        if "restart" in asked:
            await run.io_bound(self.source.restart)
            self.show_error("")
        if self.text is None or asked & {"start", "restart"}:
            self.text = await run.io_bound(self._started)
        elif "replay" in asked:
            self.text = await run.io_bound(self.text.under, self.settings.params)
        text = self.text
        text.length = max(1, min(self.settings.length, text.most))
        await self._look()
        if text.wants_more:
            while text.wants_more and not self.asked:
                drawn = len(text.tokens)
                await run.io_bound(text.advance)
                if self.tokens.is_deleted or (len(text.tokens) == drawn and not text.ended):
                    return  # the tab is closed, or the server: then nothing runs in threads any more
                self.show_text()
            await self._look()

    def _started(self) -> Text:
        prompt = self.source.encode(self.settings.prompt)
        return Text(self.source, prompt, self.settings.params, self.settings.length)

    @property
    def chosen(self) -> int:
        """The token whose row is shown."""
        last = len(self.text.tokens) - 1 if self.text else -1
        return last if self.settings.chosen < 0 else min(self.settings.chosen, last)

    async def _look(self) -> None:
        self.show_text()
        is_drawn = self.text is not None and self.text.tokens
        self.reading = await run.io_bound(self.text.reading, self.chosen) if self.text and is_drawn else None
        for part in self.parts:
            if (shown := part.refresh()) is not None:
                await shown

    # --- what is shown ----------------------------------------------------------------------------

    def open(self, fault: str) -> None:
        """Build the page, and draw its text."""
        ui.add_css(STYLE)
        ui.colors(primary="#1864ab")
        with ui.element("header").classes("top"):
            ui.label("engine-sampler workbench").classes("strong")
            ui.label(self.source.title).classes("muted source")
            self.status = ui.label("").classes("muted").props("role=status")
            ui.space()
            theme = ui.toggle({None: "auto", False: "light", True: "dark"}, value=None)
            theme.props("dense no-caps flat aria-label=theme").bind_value(ui.dark_mode(None))
        with ui.element("div").classes("fault").props("role=alert") as self.fault:
            self.fault_text = ui.label("").classes("pre")
            self.again = self.button("Start the engine again", lambda: self.ask("restart"))
        with ui.element("main").classes("wb"):
            with ui.element("section").classes("card text").props("aria-label=Text"):
                self._build_text()
            with ui.element("section").classes("card tabs"):
                self._build_tabs()
            with ui.element("aside").classes("card chain").props("aria-label=Chain"):
                self.parts = [*self.parts, ChainColumn(self)]
        self.show_error(fault)
        self.ask("start")

    def _build_text(self) -> None:
        if not self.source.is_fixed:
            prompt = ui.textarea("Prompt").props(f"autogrow outlined dense maxlength={MOST_PROMPT}")
            prompt.classes("wide").bind_value(self.settings, "prompt").on("keydown.ctrl.enter", self.generate)
        with ui.element("div").classes("bar"):
            self.button("Generate", self.generate, "unelevated")
            self.button("Step", self.step)
            self.button("Stop", self.stop)
            count = ui.number("tokens", min=1, max=MOST_TOKENS, precision=0, value=self.wanted)
            count.props("dense outlined").classes("count")
            count.bind_value_to(self, "wanted", lambda value: max(1, min(int(value or 1), MOST_TOKENS)))
            ui.html(_LEGEND, sanitize=False).classes("legend")
        self.tokens = ui.html("", sanitize=False).classes("tokens")
        self.tokens.on("click", lambda e: self.choose(e.args), js_handler=_CLICKED)
        self.tokens.on("keydown", lambda e: self.choose(e.args, by_key=True), js_handler=_ARROW)
        self.ended = ui.label("").classes("muted")

    def _build_tabs(self) -> None:
        with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
            names = [ui.tab(kind.title) for kind in TABS]
        with ui.tab_panels(tabs, value=TABS[0].title, animated=False, keep_alive=True) as self.panels:
            self.parts: list[Any] = []
            for name, kind in zip(names, TABS, strict=True):
                with ui.tab_panel(name):
                    self.parts.append(kind(self))
        self.panels.classes("panels").on_value_change(lambda: self.ask("look"))

    def is_open(self, title: str) -> bool:
        """Whether a tab is the one that is seen."""
        return bool(self.panels.value == title)

    def button(self, text: str, doing: Callable[[], Any], style: str = "outline") -> Any:
        """A small button."""
        return ui.button(text, on_click=lambda: doing(), color=None).props(f"dense no-caps {style}")

    def show_error(self, text: str, died: bool = False) -> None:
        """Show an error above the page; "" removes it."""
        self.fault_text.set_text(text)
        self.fault.set_visibility(bool(text))
        self.again.set_visibility(died)

    def show_text(self) -> None:
        """Show the tokens."""
        if self.text is not None:
            self.tokens.set_content(text_html(self.text, self.chosen))
            self.ended.set_text(f"ended: {self.text.ended}" if self.text.ended else "")
        if self.by_key:
            self.by_key = False
            self.tokens.client.run_javascript(_FOCUS)

    # --- what people do ---------------------------------------------------------------------------

    def generate(self) -> None:
        """Draw the text from the prompt."""
        self.settings.length, self.settings.chosen = self.wanted, 0
        self.show_error("")
        self.ask("start")

    def step(self) -> None:
        """Draw one more token."""
        self.settings.length = len(self.text.tokens) + 1 if self.text else 1
        self.settings.chosen = -1
        self.ask("look")

    def stop(self) -> None:
        """Draw no more."""
        if self.text is not None:
            self.settings.length = self.text.length = len(self.text.tokens)

    def choose(self, index: int, by_key: bool = False) -> None:
        """Show the row of a token."""
        self.settings.chosen, self.by_key = max(0, int(index)), by_key
        self.ask("look")
