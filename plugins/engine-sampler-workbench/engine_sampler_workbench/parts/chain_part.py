"""The chain: every registered sampler with its parameters, in an order that one changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nicegui import ui

from engine_sampler.contract import Param
from engine_sampler.explain import ChainPart as Sampler
from engine_sampler.explain import chain_parts
from engine_sampler.for_bridges import build_chain

from ..settings import PRESETS, span

_SCALARS = (int, float, bool, str)
_NOT_HERE = {"logits_processors"}
"""Parameters whose values are functions."""
_MOST_JSON = 20_000


class ChainPart:
    """Sliders, presets, the order."""

    title = "Chain"

    def __init__(self, page: Any) -> None:
        self.page = page
        self.loading = False
        self.controls: dict[str, Callable[[Any], None]] = {}
        self.cards: dict[str, Any] = {}
        self._build_top()
        order = page.settings.values.get("order", "llama.cpp")
        listed = chain_parts(order if isinstance(order, str) else "llama.cpp")
        with ui.element("div").classes("samplers"), ui.column().classes("samplers") as self.list:
            for sampler in listed:
                if sampler.role not in ("edit", "selector") and sampler.name not in _NOT_HERE:
                    self._build_sampler(sampler, ordered=True)
        self.list.make_sortable(handle=".grip", on_end=self._dropped)
        for title, role in (("Selectors", "selector"), ("Masks and biases", "edit")):
            with ui.expansion(title).props("dense").classes("wide"):
                for sampler in listed:
                    if sampler.role == role and sampler.params and sampler.name not in _NOT_HERE:
                        self._build_sampler(sampler, ordered=False)
        with ui.expansion("All settings as JSON").props("dense").classes("wide"):
            self.json = ui.textarea().props(f"outlined dense autogrow maxlength={_MOST_JSON} aria-label=JSON")
            self.json.classes("wide mono")
            page.button("Apply", self._apply_json).props("outline")
        self.refresh(page)

    @property
    def order(self) -> list[str]:
        """The samplers as they stand in the list."""
        names = {card.id: name for name, card in self.cards.items()}
        return [names[child.id] for child in self.list.default_slot.children if child.id in names]

    def _build_top(self) -> None:
        page = self.page
        with ui.element("div").classes("bar"):
            ui.label("Chain").classes("strong")
            ui.space()
            with ui.button("Presets").props("dense no-caps outline"), ui.menu():
                for name, values in PRESETS.items():
                    ui.menu_item(name, lambda values=values: page.change(lambda: page.settings.use(values)))
        with ui.element("div").classes("bar"):
            seed = ui.number("seed", min=0, max=2**53, precision=0, on_change=self._on("seed", int))
            self.controls["seed"] = seed.set_value
            seed.props("dense outlined").classes("grow")
            page.button("+1", lambda: seed.set_value(int(seed.value or 0) + 1)).props(
                "outline aria-label='next seed'"
            )

    def _build_sampler(self, sampler: Sampler, ordered: bool) -> None:
        main = next((p for p in sampler.params if p.switch), None)
        rest = [param for param in sampler.params if param is not main]
        with ui.element("div").classes("sampler").props(f'data-name="{sampler.name}"') as card:
            with ui.element("div").classes("bar tight"):
                if ordered:
                    self.cards[sampler.name] = card
                    ui.icon("drag_indicator").classes("grip").props("aria-hidden=true")
                ui.label(sampler.name).classes("strong").tooltip(sampler.summary)
                ui.label(main.name if main and main.name != sampler.name else "").classes("muted grow owned")
                for arrow, by in (("↑", -1), ("↓", 1)) if ordered else ():
                    move = self._small(arrow, f"move {sampler.name} {'up' if by < 0 else 'down'}")
                    move.on_click(lambda by=by: self._move(sampler.name, by))
                about = self._small("⋯", f"more about {sampler.name}")
            if main is not None:
                self._build_param(main)
            with ui.element("div").classes("more") as more:
                for param in rest:
                    ui.label(param.name).classes("muted").tooltip(param.doc)
                    self._build_param(param)
                ui.label(sampler.doc).classes("doc pre")
                ui.label(f"from {sampler.origin}").classes("muted")
            more.set_visibility(False)
            about.on_click(lambda: more.set_visibility(not more.visible))

    def _small(self, text: str, label: str) -> Any:
        return ui.button(text).props(f'dense no-caps flat aria-label="{label}"').classes("arrow")

    def _build_param(self, param: Param) -> None:
        with ui.element("div").classes("param"):
            if param.type is bool:
                control = ui.switch(on_change=self._on(param.name, bool))
                self.controls[param.name] = lambda value: control.set_value(
                    param.neutral if value is None else value
                )
            elif param.choices is not None:
                control = ui.select(list(param.choices), on_change=self._on(param.name, lambda value: value))
                control.props("dense outlined options-dense")
                self.controls[param.name] = lambda value: control.set_value(
                    param.neutral if value is None else value
                )
            elif param.type in (int, float):
                self._build_number(param)
                return
            else:
                control = ui.input(placeholder="JSON").props("dense outlined maxlength=2000").classes("grow")
                control.on("change", lambda: self._set_json(param, control.value))
                self.controls[param.name] = lambda value: control.set_value(_as_json(param, value))
            control.props(f'aria-label="{param.name}"').tooltip(f"{param.doc} {param.allowed()}")

    def _build_number(self, param: Param) -> None:
        low, high, step = span(param)
        convert = int if param.type is int else float
        slider = ui.slider(min=low, max=high, step=step, on_change=self._on(param.name, convert))
        slider.props(f'dense aria-label="{param.name}"').classes("grow").mark(param.name)
        number = ui.number(min=param.low, max=param.high, on_change=self._on(param.name, convert))
        number.props(f'dense outlined step={step:g} aria-label="{param.name}, as a number"').classes("number")
        number.tooltip(f"{param.doc} {param.allowed()}")

        def show(value: Any) -> None:
            shown = param.neutral if value is None else value
            if shown is not None:
                slider.set_value(min(max(shown, low), high))
            number.set_value(shown)

        self.controls[param.name] = show

    def _on(self, name: str, convert: Callable[[Any], Any]) -> Callable[[Any], None]:
        def changed(event: Any) -> None:
            if not self.loading and event.value is not None:
                self.page.change(lambda: self.page.settings.set(name, convert(event.value)))

        return changed

    def _set_json(self, param: Param, typed: str) -> None:
        if not typed:
            self.page.change(lambda: self.page.settings.set(param.name, param.neutral))
            return
        try:
            value = json.loads(typed)
        except (ValueError, RecursionError):
            value = typed
        self.page.change(lambda: self.page.settings.set(param.name, value))

    def _apply_json(self) -> None:
        try:
            values = json.loads(self.json.value or "{}")
            if not isinstance(values, dict):
                raise ValueError
        except (ValueError, RecursionError):
            self.page.show_error('All settings as JSON: an object is needed, such as {"top_k": 40}')
            return
        self.page.change(lambda: self.page.settings.use(values))

    def _move(self, name: str, by: int) -> None:
        order = self.order
        at = order.index(name)
        if 0 <= at + by < len(order):
            order[at], order[at + by] = order[at + by], order[at]
            self._take(order)
            self._focus(f"move {name} {'up' if by < 0 else 'down'}")

    def _focus(self, label: str) -> None:
        """Give the focus back to a button whose card has moved."""
        button = f"document.querySelector('[aria-label=\"{label}\"]')"
        self.list.client.run_javascript(f"setTimeout(() => {button}?.focus(), 50)")

    def _dropped(self, event: Any) -> None:
        self._take(self.order)

    def _take(self, order: list[str]) -> None:
        self.page.change(lambda: self.page.settings.set("order", order))

    def refresh(self, page: Any) -> None:
        """Show the settings as they are."""
        values = page.settings.values
        self.loading = True
        try:
            for name, show in self.controls.items():
                show(values.get(name))
            self.json.set_value(json.dumps(values, indent=1, default=list))
            self._arrange(values.get("order", "llama.cpp"))
        finally:
            self.loading = False

    def _arrange(self, order: Any) -> None:
        names = [part.name for part in chain_parts(order) if part.name in self.cards]
        names += [name for name in self.cards if name not in names]
        if names != self.order:
            for index, name in enumerate(names):
                self.cards[name].move(target_index=index)
        text = self.page.text
        active = {part.name for part in build_chain(text.params).samplers} if text else set()
        for name, card in self.cards.items():
            card.classes(add="active" if name in active else "", remove="" if name in active else "active")


def _as_json(param: Param, value: Any) -> str:
    if value is None or value == param.neutral:
        return ""
    return value if isinstance(value, str) else json.dumps(value, default=list)
