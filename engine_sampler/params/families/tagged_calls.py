"""Families that mark each argument of a call."""

from __future__ import annotations

from .family import Family

_XML = "<tool_call>\n<function={name}>\n", "</function>\n</tool_call>"
_FUNCTION = (Family("<function={name}>\n", "\n</function>", "qwen_xml"),)
_MINIMAX = "]<]minimax[>["
_GLM_MARKS = ("</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def _dsml(calls: str, invoke: str, style: str) -> Family:
    return Family(
        f'<｜DSML｜{invoke} name="{{name}}">\n',
        f"</｜DSML｜{invoke}>\n",
        style,
        section=(f"<｜DSML｜{calls}>\n", f"</｜DSML｜{calls}>"),
        lead="\n\n",
        reads=(Family(f'<｜DSML｜{invoke} name="{{name}}"/>\n', "", style),),
        calls_end_thoughts=True,
    )


def _hunyuan_3(suffix: str, style: str, reads: tuple[Family, ...] = ()) -> Family:
    """The family of Hunyuan 3; `suffix` ends the names of all marks."""
    return Family(
        f"<tool_call{suffix}>{{name}}<tool_sep{suffix}>",
        f"</tool_call{suffix}>",
        style,
        section=(f"<tool_calls{suffix}>\n", f"\n</tool_calls{suffix}>"),
        separator="\n",
        thinking=(f"<think{suffix}>", f"</think{suffix}>"),
        reads=reads,
        calls_end_thoughts=True,
    )


TAGGED_FAMILIES: dict[str, Family] = {
    "qwen_3_5": Family(
        *_XML,
        "qwen_xml",
        after_thinking="\n\n",
        reads=_FUNCTION,
        calls_end_thoughts=True,
    ),
    "qwen_3_coder": Family(*_XML, "qwen_xml", after_thinking="\n\n", reads=_FUNCTION),
    "nemotron_3": Family(
        *_XML,
        "qwen_xml",
        after_thinking="\n\n",
        after=r"\n?",
        reads=_FUNCTION,
    ),
    "mimo": Family(
        "<tool_call><function={name}>",
        "</function></tool_call>",
        "mimo_xml",
        trigger="<tool_call>",
        starts_inside=False,
        excludes=("</tool_call>", "<function="),
        reads=(Family("<function={name}>", "</function>", "qwen_xml"),),
    ),
    "seed_oss": Family(
        "<seed:tool_call>\n<function={name}>\n",
        "</function>\n</seed:tool_call>",
        "seed_xml",
        trigger="<seed:tool_call>",
        thinking=("<seed:think>", "</seed:think>"),
        starts_inside=False,
        reads=_FUNCTION,
    ),
    "deepseek_v3_2": _dsml("function_calls", "invoke", "deepseek_xml"),
    "deepseek_v4": _dsml("tool_calls", "invoke", "deepseek_xml"),
    "deepseek_v4_1": _dsml(" calls", " invoke", "deepseek_v4_1_xml"),
    "kimi_k3": Family(
        '<|open|>call tool="{name}" index="{id}"<|sep|>',
        "<|close|>call<|sep|>",
        "kimi_k3_xml",
        section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        thinking=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        excludes=("<|open|>", "<|close|>"),
        layout="blocks",
        content=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
        text_first=True,
        finish="<|close|>message<|sep|>",
    ),
    "minimax": Family(
        '<invoke name="{name}">\n',
        "</invoke>\n",
        "minimax_xml",
        section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
        lead="\n",
        after_thinking="\n\n",
    ),
    "minimax_m3": Family(
        f'{_MINIMAX}<invoke name="{{name}}">',
        f"{_MINIMAX}</invoke>\n",
        "minimax_m3_xml",
        section=(f"{_MINIMAX}<tool_call>\n", f"{_MINIMAX}</tool_call>"),
        thinking=("<mm:think>", "</mm:think>"),
        skipped="</mm:think>",
        excludes=(f"{_MINIMAX}</tool_call>", f"{_MINIMAX}<invoke", f"{_MINIMAX}</invoke>"),
    ),
    "glm_4_5": Family(
        "<tool_call>{name}\n",
        "</tool_call>",
        "glm_xml",
        excludes=_GLM_MARKS,
        before=r"\n?",
        calls_end_thoughts=True,
    ),
    "glm_4_7": Family(
        "<tool_call>{name}", "</tool_call>", "glm_xml", excludes=_GLM_MARKS, calls_end_thoughts=True
    ),
    "cohere": Family(
        '<cofl:tool_call id="{id}" name="{name}">',
        "</cofl:tool_call>",
        "cohere_xml",
        section=("<cofl:tool_calls>", "</cofl:tool_calls>"),
        thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    "gemma_4": Family(
        "<|tool_call>call:{name}",
        "<tool_call|>",
        "gemma",
        trigger="<|tool_call>",
        thinking=("<|channel>thought\n", "<channel|>"),
        starts_inside=False,
        reads_thinking=(("<|channel>", "<channel|>"),),
        content_marks=("<|channel>thought<channel|>", "<|tool_response>"),
    ),
    "step_3": Family(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
        "</steptml:invoke><｜tool_call_end｜>",
        "step3_xml",
        section=("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
        reads=(
            Family(
                '<｜tool_call_begin｜><steptml:invoke name="{name}">',
                "</steptml:invoke><｜tool_call_end｜>",
                "step3_xml",
            ),
        ),
    ),
    "hunyuan_3": _hunyuan_3(":opensource", "hunyuan_3_xml", reads=(_hunyuan_3("", "glm_xml"),)),
    "hunyuan_3_preview": _hunyuan_3("", "glm_xml"),
    "step_3_5": Family(
        *_XML,
        "qwen_xml",
        after_thinking="\n",
        reads=_FUNCTION,
        calls_end_thoughts=True,
    ),
    "laguna": Family("<tool_call>{name}", "</tool_call>", "glm_xml", before=r"\n?", after=r"\n?"),
    "muse_glimmer": Family(
        ' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n',
        "</atem:invoke>\n</atem:function_calls>",
        "atem_xml",
        separator="<|eom|><|start|>assistant",
        trigger="<atem:function_calls>",
        thinking=(" to=self<|message|>", "<|eom|>"),
        after_thinking="<|start|>assistant",
        starts_inside=False,
        excludes=("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"),
        layout="blocks",
        content=(" to=user<|message|>", ""),
        joint="<|eom|><|start|>assistant",
        finish="<|eot|>",
        stops=("<|eot|>",),
        content_marks=(
            "<|eom|>",
            "<|start|>assistant",
            "<atem:function_calls>",
            "</atem:function_calls>",
        ),
        reads=(Family('<atem:invoke name="{name}">\n', "</atem:invoke>\n", "atem_xml"),),
    ),
    "minicpm_5": Family('<function name="{name}">', "</function>", "minicpm_5_xml", after_thinking="\n\n"),
    "function_gemma": Family(
        "<start_function_call>call:{name}",
        "<end_function_call>",
        "function_gemma",
        trigger="<start_function_call>",
        thinking=None,
        content_marks=("<start_function_response>",),
    ),
    "ling_3": Family(
        "<tool_call>{name}\n", "\n</tool_call>", "glm_xml", before=r"\n?", calls_end_thoughts=True
    ),
    "dots": Family(
        '<invoke name="{name}">\n',
        "</invoke>\n",
        "minimax_xml",
        section=("<dots_function_call>\n", "</dots_function_call>"),
        before=r"\n{0,2}",
        reads=(Family('{"name": "{name}", "arguments": ', "}"),),
    ),
}
"""By name."""
