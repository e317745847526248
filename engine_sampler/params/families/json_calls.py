"""Families that write the arguments of calls as JSON."""

from __future__ import annotations

from dataclasses import replace

from .family import THINK, Family

_JSON_BEGIN, _JSON_ARGUMENTS = '{"name": "{name}", "arguments": ', "}"
_HERMES = f"<tool_call>\n{_JSON_BEGIN}", f"{_JSON_ARGUMENTS}\n</tool_call>"
_HERMES_IN_A_LINE = (Family(f"<tool_call>{_JSON_BEGIN}", "}</tool_call>", trigger="<tool_call>"),)
_DEEPSEEK = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_DEEPSEEK_FUNCTION = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"


def _json_list(begin: str, end: str, *others: str) -> Family:
    """Calls as a list of JSON objects; `others` are what may precede it instead of `begin`."""
    variants = tuple(_json_list(other, end) for other in others)
    section = (f"{begin}[", f"]{end}")
    return Family(_JSON_BEGIN, "}", section=section, separator=", ", thinking=None, variants=variants)


JSON_FAMILIES: dict[str, Family] = {
    "llama": Family(
        '{"name": "{name}", "parameters": ',
        "}",
        trigger='{"name": ',
        thinking=None,
        excludes=THINK,
        content_marks=("<|python_tag|>",),
    ),
    "hermes": Family(*_HERMES, trigger="<tool_call>", thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_2_5": Family(*_HERMES, trigger="<tool_call>", thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_3": Family(*_HERMES, trigger="<tool_call>", after_thinking="\n\n", variants=_HERMES_IN_A_LINE),
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
    "command_r7b": Family(
        '{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
        "}",
        section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        separator=",\n    ",
        trigger="<|START_ACTION|>",
        thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
        content_marks=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    "harmony": Family(
        "",
        "<|call|>",
        thinking=("<|channel|>analysis<|message|>", "<|end|>"),
        closing="<|start|>assistant<|channel|>final<|message|>",
        content_marks=("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"),
        calls_end_thoughts=True,
        layout="harmony",
    ),
    "mistral": _json_list("[TOOL_CALLS]", "", "[TOOL_CALLS] "),
    "mistral_v11": Family(
        "[TOOL_CALLS]{name}[ARGS]",
        "",
        thinking=("[THINK]", "[/THINK]"),
        starts_inside=False,
        variants=(Family("[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]", "", id_pattern="[A-Za-z0-9]{9}"),),
        reads=(Family("[TOOL_CALLS]{name}", ""),),
    ),
    "granite": replace(
        _json_list("<|tool_call|>", "", "<|tool_call|> ", "<tool_call>", "<tool_call> "),
        content_marks=("<response>", "</response>"),
    ),
    "granite_4": Family(*_HERMES, trigger="<tool_call>", thinking=None, variants=_HERMES_IN_A_LINE),
    "exaone": Family(
        f"<tool_call>{_JSON_BEGIN}", "}</tool_call>", trigger="<tool_call>", after_thinking="\n\n"
    ),
    "ernie_4_5": Family(*_HERMES, trigger="<tool_call>", after_thinking="\n\n"),
    "longcat": Family(
        f"<longcat_tool_call>\n{_JSON_BEGIN}",
        "}\n</longcat_tool_call>",
        trigger="<longcat_tool_call>",
        thinking=None,
    ),
    "internlm_2": Family(
        '<|action_start|><|plugin|>\n{"name": "{name}", "parameters": ',
        "}<|action_end|>",
        trigger="<|action_start|>",
        thinking=None,
    ),
    "jamba": _json_list("<tool_calls>", "</tool_calls>"),
    "hunyuan_a13b": replace(
        _json_list("<tool_calls>", "</tool_calls>"), content_marks=("<answer>", "</answer>")
    ),
    "phi_4_mini": _json_list("functools", ""),
    "apertus": Family(
        '{"{name}": ', "}", section=("<|tools_prefix|>[", "]<|tools_suffix|>"), separator=", ", thinking=None
    ),
}
"""By name."""
