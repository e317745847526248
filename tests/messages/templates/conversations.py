"""Random messages of assistants: names, nested arguments, unicode, empty arguments, several calls, thoughts."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from ..families import CalledTools, WrittenCall, random_answer, tools_of


class Said(NamedTuple):
    """What an assistant says."""

    thoughts: str
    content: str
    calls: list[WrittenCall]
    tools: list[dict[str, Any]]

    @property
    def shown_tools(self) -> list[dict[str, Any]]:
        """The tools as chat templates take them: some can show few types, and names alone matter here."""
        argument = {"type": "string", "description": "An argument."}
        shown = []
        for tool in self.tools:
            names = tool["function"]["parameters"]["properties"]
            parameters = {"type": "object", "properties": dict.fromkeys(names, argument), "required": []}
            function = {**tool["function"], "description": "A function.", "parameters": parameters}
            shown.append({"type": "function", "function": function})
        return shown

    @property
    def message(self) -> dict[str, Any]:
        """The message as chat templates take it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.thoughts:
            message |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), self.thoughts)
        if self.calls:
            message["tool_calls"] = [
                {"id": f"abc{number:06}", "type": "function", "function": call._asdict()}
                for number, call in enumerate(self.calls)
            ]
        return message


def random_message(family: str, seed: int, *, most_calls: int, says_before_calls: bool) -> Said:
    """A message: every second one has arguments of which the text is plain, without `true`, `null` and quotes."""
    random = Random(seed)
    answer = random_answer(family, random, CalledTools(family))
    calls = answer.calls[:most_calls]
    if seed % 2:
        calls = [WrittenCall(name, _plain(arguments)) for name, arguments in calls]
    content = answer.content if says_before_calls or not calls else ""
    tools = tools_of(calls) or tools_of([WrittenCall("f", {"a": 1})])
    return Said(answer.thoughts if seed % 3 else "", content, calls, tools)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return value if value in ("Paris", "two words", "été 東京 🙂") else "x"
    return 7 if isinstance(value, bool) or value is None else value
