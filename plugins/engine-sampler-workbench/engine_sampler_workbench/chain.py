"""The chain: every registered sampler with its parameters, in an order that one changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nicegui import ui

from engine_sampler.contract import Param
from engine_sampler.explain import ChainPart, chain_parts
from engine_sampler.for_bridges import build_chain

from .settings import MOST_GRAMMAR, span
from .tabs import from_json, presets

_NOT_HERE = "logits_processors"
"""A sampler whose values are functions."""


class ChainColumn:
    """Sliders, presets, the order."""

    def __init__(self, page: Any) -> None:
        self.page, self.loading = page, False
        self.controls: dict[str, Callable[[Any], None]] = {}
        self.cards: dict[str, Any] = {}
        with ui.element("div").classes("bar"):
            ui.label("Chain").classes("strong grow")
            presets(lambda values: page.change(lambda: page.settings.use(values)), "Presets")
        with ui.element("div").classes("bar"):
            seed = ui.number("seed", min=0, max=2**53, precision=0, on_change=self._on("seed", int))
            seed.props("dense outlined").classes("grow")
            self.controls["seed"] = lambda value: seed.set_value(value or 0)
            page.button("+1", lambda: seed.set_value(int(seed.value or 0) + 1)).props(
                "aria-label='next seed'"
            )
        parts = [
            part
            for part in chain_parts()
            if part.name != _NOT_HERE and (part.params or part.role != "selector")
        ]
        with ui.column().classes("samplers") as self.list:
            for part in parts:
                if part.role not in ("edit", "selector"):
                    self.cards[part.name] = self._build_sampler(part, ordered=True)
        self.list.make_sortable(handle=".grip", on_end=lambda: self._take(self.order))
        for title, role in (("Selectors", "selector"), ("Masks and biases", "edit")):
            with ui.expansion(title).props("dense").classes("wide"):
                for part in parts:
                    if part.role == role:
                        self._build_sampler(part, ordered=False)
        with ui.expansion("All settings as JSON").props("dense").classes("wide"):
            self.json = ui.textarea().props(
                f"outlined dense autogrow maxlength={MOST_GRAMMAR} aria-label=JSON"
            )
            self.json.classes("wide mono")
            page.button("Apply", lambda: page.change(lambda: page.settings.use(from_json(self.json.value))))

    @property
    def order(self) -> list[str]:
        """The samplers as they stand in the list."""
        names = {card.id: name for name, card in self.cards.items()}
        return [names[child.id] for child in self.list.default_slot.children if child.id in names]

    def _build_sampler(self, sampler: ChainPart, ordered: bool) -> Any:
        main = next((p for p in sampler.params if p.switch), None)
        with ui.element("div").classes("sampler").props(f'data-name="{sampler.name}"') as card:
            with ui.element("div").classes("bar tight"):
                if ordered:
                    ui.icon("drag_indicator").classes("grip").props("aria-hidden=true")
                ui.label(sampler.name).classes("strong").tooltip(sampler.summary)
                ui.label(main.name if main and main.name != sampler.name else "").classes("muted owned")
                ui.space()
                for arrow, by, way in (("↑", -1, "up"), ("↓", 1, "down")) if ordered else ():
                    self._small(
                        arrow, f"move {sampler.name} {way}", lambda by=by: self._move(sampler.name, by)
                    )
                self._small("⋯", f"more about {sampler.name}", lambda: more.set_visibility(not more.visible))
            if main is not None:
                self._build_param(main)
            with ui.element("div").classes("more") as more:
                for param in sampler.params:
                    if param is not main:
                        ui.label(param.name).classes("muted").tooltip(param.doc)
                        self._build_param(param)
                ui.label(sampler.doc).classes("doc pre")
                ui.label(f"from {sampler.origin}").classes("muted")
            more.set_visibility(False)
        return card

    def _small(self, text: str, label: str, doing: Callable[[], Any]) -> None:
        self.page.button(text, doing, f'flat aria-label="{label}"').classes("arrow")

    def _build_param(self, param: Param) -> None:
        with ui.element("div").classes("param"):
            control, show = self._control(param)
            control.props(f'dense outlined aria-label="{param.name}"').tooltip(
                f"{param.doc} {param.allowed()}"
            )
        self.controls[param.name] = lambda value: show(param.neutral if value is None else value)

    def _control(self, param: Param) -> tuple[Any, Callable[[Any], None]]:
        """The control of a parameter, and what shows a value in it."""
        if param.type is bool:
            control: Any = ui.switch(on_change=self._on(param.name, bool))
        elif param.choices is not None:
            control = ui.select(list(param.choices), on_change=self._on(param.name, lambda value: value))
        elif param.type in (int, float):
            return self._numbers(param)
        else:
            text = ui.input(placeholder="JSON").props("maxlength=2000").classes("grow")
            text.on(
                "change", lambda: self._set(param.name, _read(text.value) if text.value else param.neutral)
            )
            return text, lambda value: text.set_value("" if value == param.neutral else _written(value))
        return control, control.set_value

    def _numbers(self, param: Param) -> tuple[Any, Callable[[Any], None]]:
        low, high, step = span(param)
        changed = self._on(param.name, param.type)
        slider = ui.slider(min=low, max=high, step=step, on_change=changed).classes("grow")
        number = ui.number(min=param.low, max=param.high, step=step, on_change=changed).classes("number")
        number.props(f'dense outlined aria-label="{param.name}, as a number"')

        def show(value: Any) -> None:
            slider.set_value(min(max(value or 0, low), high))
            number.set_value(value)

        return slider, show

    def _set(self, name: str, value: Any) -> None:
        self.page.change(lambda: self.page.settings.set(name, value))

    def _on(self, name: str, convert: Callable[[Any], Any]) -> Callable[[Any], None]:
        def changed(event: Any) -> None:
            if not self.loading and event.value is not None:
                self._set(name, convert(event.value))

        return changed

    def _move(self, name: str, by: int) -> None:
        order = self.order
        at = order.index(name)
        if 0 <= at + by < len(order):
            order[at], order[at + by] = order[at + by], order[at]
            self._take(order)
            # The focus stays with a button whose card has moved.
            button = f"document.querySelector('[aria-label=\"move {name} {'up' if by < 0 else 'down'}\"]')"
            self.list.client.run_javascript(f"setTimeout(() => {button}?.focus(), 300)")

    def _take(self, order: list[str]) -> None:
        self._set("order", order)

    def refresh(self) -> None:
        """Show the settings as they are."""
        values = self.page.settings.values
        self.loading = True
        try:
            for name, show in self.controls.items():
                show(values.get(name))
            self.json.set_value(json.dumps(values, indent=1, default=list))
        finally:
            self.loading = False
        names = [
            part.name for part in chain_parts(values.get("order", "llama.cpp")) if part.name in self.cards
        ]
        names += [name for name in self.cards if name not in names]
        if names != self.order:
            for index, name in enumerate(names):
                self.cards[name].move(target_index=index)
        active = {part.instead_of or part.name for part in build_chain(self.page.settings.params).samplers}
        for name, card in self.cards.items():
            card.classes(**{"add" if name in active else "remove": "active"})


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=list)
