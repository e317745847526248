"""OpenAI's custom tools, whose input is a text in place of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....base.errors import quoted
from ....contract import ParameterError
from ....params.bodies import mapping

_SYNTAXES = {"lark": "grammar", "regex": "regex"}


class CustomInput(NamedTuple):
    """The text that a custom tool takes.

    syntax      "text", "lark" or "regex"
    definition  the grammar or pattern; "" for any text
    """

    syntax: str
    definition: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The structured parameter of an answer that is nothing but this text."""
        return {} if self.syntax == "text" else {_SYNTAXES[self.syntax]: self.definition}

    @property
    def format(self) -> dict[str, Any]:
        """Its format in a structural tag."""
        if self.syntax == "text":
            return {"type": "any_text", "excludes": []}
        if self.syntax == "lark":
            return {"type": "grammar", "grammar": self.definition}
        return {"type": "regex", "pattern": self.definition}

    def schema(self, name: str) -> dict[str, Any]:
        """The schema of `{"input": text}`, for models that write JSON. Raises `ParameterError` for a grammar,
        which no schema can hold."""
        if self.syntax == "lark":
            raise ParameterError(
                f"tools: the Lark grammar of the custom tool {quoted(name)} is not allowed in arguments in "
                "JSON: allowed is a tool_family that writes them as text (harmony), or a call of this tool "
                "alone without a tool_family"
            )
        text = {"type": "string"}
        if self.syntax == "regex":
            text["pattern"] = f"^(?:{self.definition})$"
        properties = {"input": text}
        return {
            "type": "object",
            "properties": properties,
            "required": ["input"],
            "additionalProperties": False,
        }


def custom_input(tool: Mapping[str, Any]) -> CustomInput | None:
    """The input of a custom tool, in the form of chat completions or of Responses; None for other tools."""
    if tool.get("type") != "custom":
        return None
    wanted = mapping("tools.custom", tool.get("custom", tool)).get("format")
    if wanted is None:
        return CustomInput("text")
    form = mapping("tools.custom.format", wanted)
    if form.get("type") == "text":
        return CustomInput("text")
    grammar = mapping("tools.custom.format.grammar", form.get("grammar", form))
    syntax, definition = grammar.get("syntax"), grammar.get("definition")
    texts = isinstance(syntax, str) and isinstance(definition, str)
    if form.get("type") == "grammar" and texts and syntax in _SYNTAXES and definition:
        return CustomInput(syntax, definition)
    allowed = "the type text, or grammar with the syntax lark or regex and a definition"
    raise ParameterError(f"tools.custom.format={quoted(wanted)} is not allowed: {allowed}")
