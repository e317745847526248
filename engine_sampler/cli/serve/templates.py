"""Chat templates: the text that a model is given for a list of messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

Render = Callable[[Any, Any], str]
"""`render(messages, tools) -> text`"""


def plain(messages: Any, tools: Any) -> str:
    """What a model without a template is given."""
    return "".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant:"


def jinja(text: str, **tokens: str) -> Render:
    """The template of a model, in Jinja, in a sandbox. `tokens` are the special ones that it may name:
    `bos_token`, say. Raises ValueError for what is no template."""
    from jinja2 import TemplateError, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def fail(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = time.strftime
    try:
        template = environment.from_string(text)
    except TemplateSyntaxError as error:
        raise ValueError(f"the chat template cannot be read: {error}") from None

    def render(messages: Any, tools: Any) -> str:
        return template.render(messages=messages, tools=tools or None, add_generation_prompt=True, **tokens)

    return render


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
