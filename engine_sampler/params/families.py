"""How families of models write calls of tools: one entry for each. To add a family, add an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..base.arguments import one_of

THINK = ("<think>", "</think>")

Reasoning = Literal["disabled", "enabled", "auto"]
"""Whether an answer has thoughts before its calls."""


def check_reasoning(value: Any) -> None:
    """Raise `ParameterError` for an argument `reasoning` that is not one of `Reasoning`."""
    one_of(get_args(Reasoning), "reasoning", value)


@dataclass(frozen=True)
class Family:
    """How the models of a family call tools, and how they think before that.

    begin      what precedes a call's arguments: `{name}` is the function's name, `{id}` a number
    end        what follows them
    style      how the arguments are written: a style of the structural tag's json_schema
    section    what stands around all calls that are made at once; None: calls may stand anywhere in the text
    separator  what stands between the calls of a section
    lead       what precedes a section at the beginning of an answer
    trigger    what can only be the beginning of a call in free text; "": all that precedes calls in
               `section`, or else `begin` up to the first placeholder
    thinking   the marks around the model's thoughts; None: it has none
    after_thinking  what follows them
    closing         what is put after the second mark where thoughts are cut short, so that an answer follows
    starts_inside   whether the chat template opens the thoughts, so that a text begins within them
    skipped    what may stand in place of thoughts that are left out
    excludes   what occurs neither in thoughts nor in free text, besides the marks around thoughts; if
               there is anything, calls do not begin in thoughts
    before     what may precede calls, a pattern, where nothing else may: white space of some templates
    id_pattern what `{id}` is, a pattern
    variants   other ways in which models of the family write calls: all but what concerns thoughts. Sections
               have the same ends and separators
    layout     "text": free text with calls; others are functions in `grammar.bodies.tools.building`
    """

    begin: str
    end: str
    style: str = "json"
    section: tuple[str, str] | None = None
    separator: str = ""
    lead: str = ""
    trigger: str = ""
    thinking: tuple[str, str] | None = THINK
    after_thinking: str = ""
    closing: str = ""
    starts_inside: bool = True
    skipped: str = ""
    excludes: tuple[str, ...] = ()
    before: str = ""
    id_pattern: str = r"\d+"
    variants: tuple[Family, ...] = ()
    layout: str = "text"

    @property
    def trigger_text(self) -> str:
        """What can only be the beginning of a call in free text."""
        begin = self.section[0] if self.section else self.begin.partition("{")[0]
        return self.trigger or begin


_JSON_BEGIN, _JSON_ARGUMENTS = '{"name": "{name}", "arguments": ', "}"
_PYTHON = "{name}(", ")", "pythonic"
_XML = "<tool_call>\n<function={name}>\n", "\n</function>\n</tool_call>"
_HERMES = f"<tool_call>\n{_JSON_BEGIN}", f"{_JSON_ARGUMENTS}\n</tool_call>"
_HERMES_IN_A_LINE = (Family(f"<tool_call>{_JSON_BEGIN}", "}</tool_call>", trigger="<tool_call>"),)
_DEEPSEEK = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_DEEPSEEK_FUNCTION = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"
_MINIMAX = "]<]minimax[>["
_GLM_MARKS = ("</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def _dsml(calls: str, invoke: str, style: str) -> Family:
    return Family(
        f'<｜DSML｜{invoke} name="{{name}}">\n',
        f"</｜DSML｜{invoke}>\n",
        style,
        section=(f"<｜DSML｜{calls}>\n", f"</｜DSML｜{calls}>"),
        lead="\n\n",
        trigger=f"<｜DSML｜{calls}>",
    )


def _json_list(begin: str, end: str, *others: str) -> Family:
    """Calls as a list of JSON objects; `others` are what may precede it instead of `begin`."""
    variants = tuple(_json_list(other, end) for other in others)
    section = (f"{begin}[", f"]{end}")
    return Family(_JSON_BEGIN, "}", section=section, separator=", ", thinking=None, variants=variants)


TOOL_FAMILIES: dict[str, Family] = {
    "llama": Family(
        '{"name": "{name}", "parameters": ', "}", trigger='{"name": ', thinking=None, excludes=THINK
    ),
    "hermes": Family(*_HERMES, trigger="<tool_call>", thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_2_5": Family(*_HERMES, trigger="<tool_call>", thinking=None, variants=_HERMES_IN_A_LINE),
    "qwen_3": Family(*_HERMES, trigger="<tool_call>", after_thinking="\n\n", variants=_HERMES_IN_A_LINE),
    "qwen_3_5": Family(*_XML, "qwen_xml", trigger="<tool_call>\n<function=", after_thinking="\n\n"),
    "qwen_3_coder": Family(*_XML, "qwen_xml", trigger="<tool_call>\n<function=", after_thinking="\n\n"),
    "nemotron_3": Family(*_XML, "qwen_xml", trigger="<tool_call>\n<function=", after_thinking="\n\n"),
    "mimo": Family(
        "<tool_call><function={name}>",
        "</function></tool_call>",
        "qwen_xml",
        trigger="<tool_call>",
        starts_inside=False,
        excludes=("</tool_call>", "<function="),
    ),
    "seed_oss": Family(
        "<seed:tool_call>\n<function={name}>\n",
        "\n</function>\n</seed:tool_call>",
        "qwen_xml",
        trigger="<seed:tool_call>",
        thinking=("<seed:think>", "</seed:think>"),
        starts_inside=False,
    ),
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
    "deepseek_v3_2": _dsml("function_calls", "invoke", "deepseek_xml"),
    "deepseek_v4": _dsml("tool_calls", "invoke", "deepseek_xml"),
    "deepseek_v4_1": _dsml(" calls", " invoke", "deepseek_v4_1_xml"),
    "kimi": Family(
        "<|tool_call_begin|>functions.{name}:{id}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        excludes=("<|tool_call_begin|>",),
    ),
    "kimi_k3": Family(
        '<|open|>call tool="{name}" index="{id}"<|sep|>',
        "<|close|>call<|sep|>",
        "kimi_k3_xml",
        section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        thinking=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        excludes=("<|open|>", "<|close|>"),
        layout="kimi_k3",
    ),
    "minimax": Family(
        '<invoke name="{name}">\n',
        "</invoke>\n",
        "minimax_xml",
        section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
        lead="\n",
        trigger="<minimax:tool_call>",
        after_thinking="\n\n",
    ),
    "minimax_m3": Family(
        f'{_MINIMAX}<invoke name="{{name}}">',
        f"{_MINIMAX}</invoke>\n",
        "minimax_m3_xml",
        section=(f"{_MINIMAX}<tool_call>\n", f"{_MINIMAX}</tool_call>"),
        trigger=f"{_MINIMAX}<tool_call>",
        thinking=("<mm:think>", "</mm:think>"),
        skipped="</mm:think>",
        excludes=(f"{_MINIMAX}</tool_call>", f"{_MINIMAX}<invoke", f"{_MINIMAX}</invoke>"),
    ),
    "glm_4_5": Family("<tool_call>{name}\n", "\n</tool_call>", "glm_xml", excludes=_GLM_MARKS, before=r"\n?"),
    "glm_4_7": Family("<tool_call>{name}", "</tool_call>", "glm_xml", excludes=_GLM_MARKS),
    "cohere": Family(
        '<cofl:tool_call id="{id}" name="{name}">',
        "</cofl:tool_call>",
        "cohere_xml",
        section=("<cofl:tool_calls>", "</cofl:tool_calls>"),
        thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    "command_r7b": Family(
        '{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": ',
        "}",
        section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        separator=",\n    ",
        trigger="<|START_ACTION|>",
        thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    "harmony": Family(
        "",
        "<|call|>",
        thinking=("<|channel|>analysis<|message|>", "<|end|>"),
        closing="<|start|>assistant<|channel|>final<|message|>",
        layout="harmony",
    ),
    "mistral": _json_list("[TOOL_CALLS]", "", "[TOOL_CALLS] "),
    "mistral_v11": Family(
        "[TOOL_CALLS]{name}[ARGS]",
        "",
        thinking=("[THINK]", "[/THINK]"),
        starts_inside=False,
        variants=(Family("[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]", "", id_pattern="[A-Za-z0-9]{9}"),),
    ),
    "gemma_4": Family(
        "<|tool_call>call:{name}",
        "<tool_call|>",
        "gemma",
        trigger="<|tool_call>",
        thinking=("<|channel>thought\n", "<channel|>"),
        starts_inside=False,
    ),
    "granite": _json_list("<|tool_call|>", "", "<|tool_call|> ", "<tool_call>", "<tool_call> "),
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
    "hunyuan_a13b": _json_list("<tool_calls>", "</tool_calls>"),
    "phi_4_mini": _json_list("functools", ""),
    "apertus": Family(
        '{"{name}": ', "}", section=("<|tools_prefix|>[", "]<|tools_suffix|>"), separator=", ", thinking=None
    ),
    "llama_4": Family(*_PYTHON, section=("[", "]"), separator=", ", thinking=None, layout="whole"),
    "lfm_2": Family(
        *_PYTHON, section=("<|tool_call_start|>[", "]<|tool_call_end|>"), separator=", ", thinking=None
    ),
    "olmo_3": Family(
        *_PYTHON, section=("<function_calls>\n", "\n</function_calls>"), separator="\n", thinking=None
    ),
    "step_3": Family(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
        "</steptml:invoke><｜tool_call_end｜>",
        "step3_xml",
        section=("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
    ),
}
"""The families by name: those of xgrammar under its names, and others that vLLM's tool parsers read."""
