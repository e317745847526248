"""A grammar, what it allows after the text so far, and how it reads that text."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import run, ui

from engine_sampler import Grammar
from engine_sampler.explain import explain_mask, mask_lines

from ..exports import structured_name
from ..settings import MOST_GRAMMAR

KINDS = {
    "json_schema": (
        "JSON Schema",
        Grammar.from_json_schema,
        '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string", "maxLength": 20},\n'
        '    "age": {"type": "integer"}\n  },\n  "required": ["name", "age"]\n}',
    ),
    "regex": ("Pattern", Grammar.from_regex, r"[A-Z][a-z]+( [a-z]+){2,5}\."),
    "grammar": ("Lark", Grammar.from_lark, 'start: "the " noun " is " noun "."\nnoun[capture]: /[a-z]+/'),
}
"""Title, reader and an example, by the parameter that takes it."""


_MOST_ALLOWED = 20


class GrammarPart:
    """The grammar of the request."""

    title = "Grammar"

    def __init__(self, page: Any) -> None:
        self.page = page
        name = structured_name(page.settings.values)
        self.kind = ui.toggle(
            {key: kind[0] for key, kind in KINDS.items()}, value=name if name in KINDS else "json_schema"
        )
        self.kind.props("dense no-caps flat aria-label='kind of grammar'")
        self.kind.on_value_change(lambda: self.source.set_value(KINDS[self.kind.value][2]))
        given = page.settings.values.get(name) if name in KINDS else None
        self.source = ui.textarea("Grammar", value=str(given or KINDS[self.kind.value][2]))
        self.source.props(f"outlined dense autogrow maxlength={MOST_GRAMMAR}").classes("wide mono")
        with ui.element("div").classes("bar"):
            page.button("Use it", self._use).props("unelevated")
            page.button("Remove it", self._remove).props("outline")
            self.state = ui.label("").classes("muted")
        self.error = ui.label("").classes("pre mono grammar-error").props("role=alert")
        self.allowed = ui.html("", sanitize=False)
        self.captures = ui.label("").classes("pre")
        self.position = ui.label("").classes("pre mono scroll small")

    async def _use(self) -> None:
        kind, text = self.kind.value, str(self.source.value or "")[:MOST_GRAMMAR]
        try:
            await run.io_bound(KINDS[kind][1], text)
        except ValueError as error:
            self.error.set_text(str(error))
            return
        self.error.set_text("")
        values = {k: v for k, v in self.page.settings.values.items() if k not in KINDS}
        self.page.change(lambda: self.page.settings.use({**values, kind: text}))

    def _remove(self) -> None:
        self.error.set_text("")
        values = {k: v for k, v in self.page.settings.values.items() if k not in KINDS}
        self.page.change(lambda: self.page.settings.use(values))

    async def refresh(self, page: Any) -> None:
        """Show what the grammar allows, if this is seen."""
        name = structured_name(page.settings.values)
        self.state.set_text(f"in use: {name}" if name else "none is in use")
        is_shown = name in KINDS and page.view is not None and page.source.tokenizer is not None
        if not is_shown:
            self.allowed.set_content("")
            self.position.set_text("")
            self.captures.set_text("")
            return
        if page.is_open(self.title):
            allowed, lines, captures = await run.io_bound(_explained, page, name)
            self.allowed.set_content(allowed)
            self.position.set_text(lines)
            self.captures.set_text(captures)


def _explained(page: Any, name: str) -> tuple[str, str, str]:
    """The likeliest tokens with those that are allowed marked, the position, and the captures."""
    view, tokenizer = page.view, page.source.tokenizer
    grammar = KINDS[name][1](page.settings.values[name])
    beginning = b"".join(tokenizer.text_bytes(t) for t in page.text.token_ids[: view.index])
    explanation = explain_mask(grammar, tokenizer, beginning)
    masked = next((step.top[:_MOST_ALLOWED] for step in view.steps if step.name == "grammar"), [])
    tokens = [*dict((token.token_id, token) for token in (*masked, *view.steps[0].top)).values()]
    chips = "".join(
        f'<span class="chip {"yes" if explanation.allowed[token.token_id] else "no"}">{escape(token.text)}</span>'
        for token in tokens
    )
    title = f"{int(explanation.allowed.sum()):,} tokens are allowed in row {view.index + 1}; the likeliest of these and of all:"
    lines = "\n".join(mask_lines(explanation, tokenizer))
    found = grammar.captures(beginning) if grammar.program.captures else {}
    captures = "\n".join(f"{key}: {', '.join(repr(c.text) for c in some)}" for key, some in found.items())
    return f"<p>{title}</p><div class='chips'>{chips}</div>", lines, captures
