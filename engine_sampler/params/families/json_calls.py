"""Families that write the arguments of calls as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .family import THINK, Family

_JSON_BEGIN, _JSON_ARGUMENTS = '{"name": "{name}", "arguments": ', "}"
_HERMES = f"<tool_call>\n{_JSON_BEGIN}", f"{_JSON_ARGUMENTS}\n</tool_call>"
_HERMES_IN_A_LINE = (Family(f"<tool_call>{_JSON_BEGIN}", "}</tool_call>"),)
_MISTRAL_ID = "[A-Za-z0-9]{9}"
_MISTRAL_WITH_ID = Family("[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]", "", id_pattern=_MISTRAL_ID)
_DEEPSEEK = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_DEEPSEEK_FUNCTION = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"


def _json_list(begin: str, end: str, *others: str, **more: Any) -> Family:
    """Calls as a list of JSON objects; `others` are what may precede it instead of `begin`, `more` are other
    fields."""

    def form(begin: str) -> Family:
        section, trigger = (f"{begin}[", f"]{end}"), "" if begin.isalpha() else begin.rstrip()
        fields = {"thinking": None, **more}
        return Family(_JSON_BEGIN, "}", section=section, separator=", ", trigger=trigger, **fields)

    return replace(form(begin), variants=tuple(map(form, others)))


_COMMAND_R7B = Family(
    '{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
    "}",
    section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
    separator=",\n    ",
    trigger="<|START_ACTION|>",
    thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    layout="blocks",
    content=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
)
_APRIEL = _json_list(
    "<tool_calls>",
    "</tool_calls>",
    thinking=("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    after_thinking="\n",
    starts_inside=False,
    before=r"\n?",
    content_marks=("[END FINAL RESPONSE]",),
)
_GIGACHAT = "<|message_sep|>\n\nfunction call<|role_sep|>\n"


def _gigachat(begin: str, **more: Any) -> Family:
    return Family(f"{begin}{_JSON_BEGIN}", "}", thinking=None, **more)


JSON_FAMILIES: dict[str, Family] = {
    "llama": Family(
        '{"name": "{name}", "parameters": ',
        "}",
        trigger='{"name": ',
        thinking=None,
        excludes=THINK,
        content_marks=("<|python_tag|>",),
    ),
    "hermes": Family(*_HERMES, thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_2_5": Family(*_HERMES, thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_3": Family(*_HERMES, after_thinking="\n\n", variants=_HERMES_IN_A_LINE),
    "deepseek_v3": Family(
        _DEEPSEEK_FUNCTION, "\n```<｜tool▁call▁end｜>", section=_DEEPSEEK, separator="\n", thinking=None
    ),
    "deepseek_r1": Family(
        _DEEPSEEK_FUNCTION,
        "\n```<｜tool▁call▁end｜>",
        section=_DEEPSEEK,
        separator="\n",
        before=r"(\n\n)?",
    ),
    "deepseek_v3_1": Family(
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>", section=_DEEPSEEK
    ),
    "kimi": Family(
        "<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        excludes=("<|tool_call_begin|>",),
        reads=(
            Family(
                "<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
                "<|tool_call_end|>",
                section=("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
            ),
        ),
        calls_end_thoughts=True,
    ),
    "command_r7b": _COMMAND_R7B,
    "harmony": Family(
        "",
        "<|call|>",
        thinking=("<|channel|>analysis<|message|>", "<|end|>"),
        closing="<|start|>assistant<|channel|>final<|message|>",
        starts_inside=False,
        content_marks=("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"),
        calls_end_thoughts=True,
        layout="harmony",
    ),
    "mistral": replace(
        _json_list("[TOOL_CALLS]", "", "[TOOL_CALLS] ", trailer=', "id": "{id}"', id_pattern=_MISTRAL_ID),
        reads=(Family("[TOOL_CALLS]{name}[ARGS]", ""), _MISTRAL_WITH_ID, Family("[TOOL_CALLS]{name}", "")),
    ),
    "mistral_v11": Family(
        "[TOOL_CALLS]{name}[ARGS]",
        "",
        thinking=("[THINK]", "[/THINK]"),
        starts_inside=False,
        variants=(_MISTRAL_WITH_ID,),
        reads=(Family("[TOOL_CALLS]{name}", ""), _json_list("[TOOL_CALLS]", "")),
    ),
    "granite": _json_list(
        "<|tool_call|>",
        "",
        "<|tool_call|> ",
        "<tool_call>",
        "<tool_call> ",
        thinking=THINK,
        starts_inside=False,
        content=("<response>", "</response>"),
    ),
    "granite_4": Family(*_HERMES, thinking=None, variants=_HERMES_IN_A_LINE),
    "exaone": Family(f"<tool_call>{_JSON_BEGIN}", "}</tool_call>", after_thinking="\n\n"),
    "ernie_4_5": Family(*_HERMES, after_thinking="\n\n"),
    "longcat": Family(
        f"<longcat_tool_call>\n{_JSON_BEGIN}",
        "}\n</longcat_tool_call>",
        thinking=None,
    ),
    "internlm_2": Family(
        '<|action_start|><|plugin|>\n{"name": "{name}", "parameters": ',
        "}<|action_end|>",
        trigger="<|action_start|>",
        thinking=None,
    ),
    "jamba": _json_list("<tool_calls>", "</tool_calls>"),
    "hunyuan_a13b": _json_list(
        "<tool_calls>",
        "</tool_calls>",
        thinking=THINK,
        after_thinking="\n",
        starts_inside=False,
        content=("<answer>", "</answer>"),
    ),
    "phi_4_mini": _json_list("functools", ""),
    "apertus": Family(
        '{"{name}": ',
        "}",
        section=("<|tools_prefix|>[", "]<|tools_suffix|>"),
        separator=", ",
        trigger="<|tools_prefix|>",
        thinking=None,
    ),
    "inkling": Family(
        '{name}<|content_invoke_tool_json|>{"name":"{name}","args":',
        "}<|end_message|>",
        separator="<|message_model|>",
        trigger="<|content_invoke_tool_json|>",
        thinking=("<|content_thinking|>", "<|end_message|>"),
        after_thinking="<|message_model|>",
        starts_inside=False,
        excludes=("<|message_model|>", "<|content_text|>", "<|content_model_end_sampling|>"),
        layout="blocks",
        content=("<|content_text|>", "<|end_message|>"),
        joint="<|message_model|>",
        finish="<|content_model_end_sampling|>",
        stops=("<|content_model_end_sampling|>",),
        content_marks=("<|message_model|>", "<|content_tool_error|>", "<|content_invoke_tool_text|>"),
        reads=(Family('<|content_invoke_tool_json|>{"name":"{name}","args":', "}<|end_message|>"),),
        calls_end_thoughts=True,
    ),
    "command_a": replace(
        _COMMAND_R7B,
        content=("<|START_TEXT|>", "<|END_TEXT|>"),
        content_marks=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    "gigachat_3": _gigachat(
        _GIGACHAT,
        content_marks=("<|message_sep|>",),
        reads=(_gigachat("<|function_call|>"), _gigachat("function call<|role_sep|>\n")),
    ),
    "gigachat_3_1": _gigachat(
        "<|function_call|>", content_marks=("<|message_sep|>",), reads=(_gigachat(_GIGACHAT),)
    ),
    "granite_3_2": _json_list(
        "<|tool_call|>",
        "",
        thinking=("Here is my thought process:", "Here is my response:"),
        reads_thinking=(("Here's my thought process:", "Here's my response:"),),
        starts_inside=False,
    ),
    "granite_20b_fc": Family(f"<function_call> {_JSON_BEGIN}", "}", thinking=None),
    "nemotron_nano_2": _json_list("<TOOLCALL>", "</TOOLCALL>", thinking=THINK, before=r"\n{0,2}"),
    "apriel_1_5": _APRIEL,
    "apriel_1_6": replace(_APRIEL, starts_inside=True),
    "xlam": _json_list(
        "",
        "",
        layout="whole",
        reads=(
            _json_list("```json\n", "\n```"),
            _json_list("[TOOL_CALLS]", ""),
            _json_list("<tool_call>", "</tool_call>"),
        ),
    ),
    "solar_open": Family(
        "<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>",
        "<|tool_call:end|>",
        section=("<|tool_calls|>", "<|calls|>"),
        thinking=("<|think|>", "<|end|>"),
        after_thinking="<|begin|>assistant",
        starts_inside=False,
        excludes=("<|begin|>", "<|content|>"),
        id_pattern="[A-Za-z0-9_-]{1,64}",
        layout="blocks",
        content=("<|content|>", "<|end|>"),
        joint="<|begin|>assistant",
        stops=("<|end|>", "<|calls|>"),
        content_marks=("<|begin|>assistant",),
    ),
    "reka_edge": Family(*_HERMES, after_thinking="\n\n", before=" ?", variants=_HERMES_IN_A_LINE),
    "functionary_3_1": Family("<function={name}>", "</function>", thinking=None),
    "functionary_3_2": Family(
        "{name}\n",
        "",
        separator=">>>",
        trigger=">>>",
        thinking=None,
        after_thinking=">>>",
        excludes=(">>>",),
        layout="blocks",
        content=("all\n", ""),
        joint=">>>",
    ),
    "firefunction_2": _json_list("functools", "", before=" ?"),
    "command_r_plus": Family(
        '{\n        "tool_name": "{name}",\n        "parameters": ',
        "\n    }",
        section=("Action:\n```json\n[\n    ", "\n]```"),
        separator=",\n    ",
        trigger="Action:\n```json",
        thinking=None,
        before=r"\n?",
    ),
    "smollm_3": Family(
        *_HERMES,
        after_thinking="\n",
        starts_inside=False,
        variants=_HERMES_IN_A_LINE,
    ),
    "minimax_m1": Family(
        _JSON_BEGIN,
        "}",
        section=("<tool_calls>\n", "\n</tool_calls>"),
        separator="\n",
        starts_inside=False,
        before=r"\n{0,2}",
    ),
    "json_list": _json_list("", "", layout="whole"),
}
"""By name."""
