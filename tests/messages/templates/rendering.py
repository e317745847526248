"""Chat templates of models, rendered as transformers does it; what the assistant says is cut out of them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(sys.prefix, "templates")
"""Where `.ci/peers` puts llama.cpp's templates."""

_ENDS = re.compile(
    r"(?:<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end_of_text\|>|<EOS>|<seed:eos>|\[e~\[|<turn\|>|<\|tool_response>"
    r"|<\|end_of_msg\|>|<｜end▁of▁sentence｜>|<\|END_OF_TURN_TOKEN\|>[\s\S]*)\s*$"
)
"""What ends the turn of an assistant: tokens that end the text, and what a template writes after them."""


class Turn(NamedTuple):
    """The turn of an assistant: what a model would have written, and whether the prompt opens its thoughts."""

    text: str
    is_inside: bool


class TemplateRefusesError(Exception):
    """The template has no way to write a conversation."""


@lru_cache
def _compiled(path: Path) -> Any:
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import SandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, which marks what the assistant says."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

        def _inside(self, caller: Callable[[], str]) -> str:
            return caller()

    def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)

    def raise_exception(message: str) -> None:
        raise TemplateRefusesError(message)

    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: "2026-11-29"
    return environment.from_string(path.read_text(encoding="utf-8"))


def turn_of(
    template: str,
    message: Mapping[str, Any],
    tools: Sequence[Any],
    thinking: bool,
    marks: tuple[str, str] | None,
) -> Turn:
    """The turn of an assistant who says `message`, after the beginning that it has in common with a prompt.

    marks  those around thoughts

    Raises `TemplateRefusesError` where the template refuses the conversation.
    """
    user = {"role": "user", "content": "Hi"}
    options = {
        "tools": tools,
        "bos_token": "<BOS>",
        "eos_token": "<EOS>",
        "enable_thinking": thinking,
        "thinking": thinking,
    }
    render = _compiled(FOLDER / f"{template}.jinja").render
    before = render(messages=[user], add_generation_prompt=False, **options)
    prompt = render(messages=[user], add_generation_prompt=True, **options)
    whole = render(messages=[user, message], add_generation_prompt=False, **options)
    begin = os.path.commonprefix([prompt, whole])
    if begin != prompt:  # not within a mark
        cut = max(begin.rfind(one) for one in (">", "\n", "]"))
        begin = begin[: cut + 1]
    if len(begin) < len(before) and not before.startswith(begin):
        raise TemplateRefusesError("the conversation does not go on with the message")
    text = _ENDS.sub("", whole[len(begin) :])
    if marks is None:
        return Turn(text, False)
    is_inside = begin.rfind(marks[0]) > begin.rfind(marks[1])
    if not is_inside and text.startswith(marks[1]) and prompt.endswith(marks[1]):
        text = text[len(marks[1]) :]  # the prompt ends thoughts that the history only ends
    return Turn(text, is_inside)
