"""Calls of `get_weather(city="Paris")` as models of each family write them."""

from __future__ import annotations

from typing import Any, NamedTuple

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    },
]

ARGUMENTS = '{"city": "Paris"}'
JSON = f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'
HERMES = f"<tool_call>\n{JSON}\n</tool_call>"
QWEN_XML = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
)
R1 = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>"
PYTHON = 'get_weather(city="Paris")'
M3 = "]<]minimax[>["
GLM = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>"
GLM_IN_LINES = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
THOUGHTS = "I look it up.</think>"


def dsml(space: str) -> str:
    return (
        f'<｜DSML｜{space}invoke name="get_weather">\n'
        f'<｜DSML｜{space}parameter name="city" string="true">Paris'
        f"</｜DSML｜{space}parameter>\n</｜DSML｜{space}invoke>\n"
    )


class Transcript(NamedTuple):
    """One call, the text around one or more calls, and between them; thoughts, if the family has any."""

    call: str
    begin: str = ""
    end: str = ""
    between: str = ""
    thoughts: str = ""

    def calls(self, count: int = 1) -> str:
        return self.begin + self.between.join([self.call] * count) + self.end


TRANSCRIPTS = {
    "llama": Transcript(JSON.replace("arguments", "parameters")),
    "hermes": Transcript(HERMES, between="\n"),
    "qwen_2_5": Transcript(HERMES, between="\n"),
    "qwen_3": Transcript(HERMES, between="\n", thoughts="I look it up.</think>\n\n"),
    "qwen_3_5": Transcript(QWEN_XML, between="\n", thoughts="I look it up.</think>\n\n"),
    "qwen_3_coder": Transcript(QWEN_XML, between="\n", thoughts="I look it up.</think>\n\n"),
    "nemotron_3": Transcript(QWEN_XML, between="\n", thoughts="I look it up.</think>\n\n"),
    "mimo": Transcript(
        "<tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>",
        thoughts="<think>I look it up.</think>",
    ),
    "seed_oss": Transcript(
        QWEN_XML.replace("tool_call", "seed:tool_call"), thoughts="<seed:think>I look it up.</seed:think>"
    ),
    "deepseek_v3": Transcript(R1, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "\n"),
    "deepseek_r1": Transcript(
        R1, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "\n", thoughts="I look it up.</think>"
    ),
    "deepseek_v3_1": Transcript(
        f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        thoughts="I look it up.</think>",
    ),
    "deepseek_v3_2": Transcript(
        dsml(""),
        "\n\n<｜DSML｜function_calls>\n",
        "</｜DSML｜function_calls>",
        thoughts="I look it up.</think>",
    ),
    "deepseek_v4": Transcript(
        dsml(""), "\n\n<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>", thoughts="I look it up.</think>"
    ),
    "deepseek_v4_1": Transcript(
        dsml(" "), "\n\n<｜DSML｜ calls>\n", "</｜DSML｜ calls>", thoughts="I look it up.</think>"
    ),
    "kimi": Transcript(
        f"<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        thoughts="I look it up.</think>",
    ),
    "kimi_k3": Transcript(
        '<|open|>call tool="get_weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Paris'
        "<|close|>argument<|sep|><|close|>call<|sep|>",
        "Let me see.<|close|>response<|sep|><|open|>tools<|sep|>",
        "<|close|>tools<|sep|><|close|>message<|sep|>",
    ),
    "minimax": Transcript(
        '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n',
        "\n<minimax:tool_call>\n",
        "</minimax:tool_call>",
        thoughts="I look it up.</think>\n\n",
    ),
    "minimax_m3": Transcript(
        f'{M3}<invoke name="get_weather">{M3}<city>Paris{M3}</city>{M3}</invoke>\n',
        f"{M3}<tool_call>\n",
        f"{M3}</tool_call>",
        thoughts="I look it up.</mm:think>",
    ),
    "glm_4_5": Transcript(
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        between="\n",
        thoughts="I look it up.</think>",
    ),
    "glm_4_7": Transcript(
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>",
        thoughts="I look it up.</think>",
    ),
    "cohere": Transcript(
        '<cofl:tool_call id="0" name="get_weather"><cofl:value name="city" type="raw">Paris</cofl:value>'
        "</cofl:tool_call>",
        "<cofl:tool_calls>",
        "</cofl:tool_calls>",
        thoughts="I look it up.<|END_THINKING|>",
    ),
    "command_r7b": Transcript(
        f'{{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {ARGUMENTS}}}',
        "<|START_ACTION|>[\n    ",
        "\n]<|END_ACTION|>",
        ",\n    ",
        thoughts="I look it up.<|END_THINKING|>",
    ),
    "harmony": Transcript(
        f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        between="<|start|>assistant",
        thoughts="<|channel|>analysis<|message|>I look it up.<|end|><|start|>assistant",
    ),
    "mistral": Transcript(JSON, "[TOOL_CALLS][", "]", ", "),
    "mistral_v11": Transcript(
        f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}", thoughts="[THINK]I look it up.[/THINK]"
    ),
    "gemma_4": Transcript(
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
        thoughts="<|channel>thought\nI look it up.<channel|>",
    ),
    "granite": Transcript(JSON, "<|tool_call|>[", "]", ", ", "<think>I look it up.</think>"),
    "granite_4": Transcript(HERMES, between="\n"),
    "exaone": Transcript(
        f"<tool_call>{JSON}</tool_call>", between="\n", thoughts="I look it up.</think>\n\n"
    ),
    "ernie_4_5": Transcript(HERMES, between="\n", thoughts="I look it up.</think>\n\n"),
    "longcat": Transcript(HERMES.replace("tool_call", "longcat_tool_call")),
    "internlm_2": Transcript(
        f"<|action_start|><|plugin|>\n{JSON.replace('arguments', 'parameters')}<|action_end|>", between="\n"
    ),
    "jamba": Transcript(JSON, "<tool_calls>[", "]</tool_calls>", ", "),
    "hunyuan_a13b": Transcript(
        JSON, "<tool_calls>[", "]</tool_calls>", ", ", "<think>I look it up.</think>\n"
    ),
    "phi_4_mini": Transcript(JSON, "functools[", "]", ", "),
    "apertus": Transcript(f'{{"get_weather": {ARGUMENTS}}}', "<|tools_prefix|>[", "]<|tools_suffix|>", ", "),
    "llama_4": Transcript(PYTHON, "[", "]", ", "),
    "lfm_2": Transcript(PYTHON, "<|tool_call_start|>[", "]<|tool_call_end|>", ", "),
    "olmo_3": Transcript(PYTHON, "<function_calls>\n", "\n</function_calls>", "\n", THOUGHTS),
    "step_3": Transcript(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">'
        '<steptml:parameter name="city">'
        "Paris</steptml:parameter></steptml:invoke><｜tool_call_end｜>",
        "<｜tool_calls_begin｜>",
        "<｜tool_calls_end｜>",
        thoughts="I look it up.</think>",
    ),
    "hunyuan_3": Transcript(
        "<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n"
        "<arg_value:opensource>Paris</arg_value:opensource>\n</tool_call:opensource>",
        "<tool_calls:opensource>\n",
        "\n</tool_calls:opensource>",
        "\n",
        "I look it up.</think:opensource>",
    ),
    "hunyuan_3_preview": Transcript(
        "<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        "<tool_calls>\n",
        "\n</tool_calls>",
        "\n",
        THOUGHTS,
    ),
    "step_3_5": Transcript(QWEN_XML, thoughts="I look it up.</think>\n"),
    "laguna": Transcript(GLM, thoughts=THOUGHTS),
    "muse_glimmer": Transcript(
        ' to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n'
        '<atem:parameter name="city">Paris</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
        between="<|eom|><|start|>assistant",
        thoughts=" to=self<|message|>I look it up.<|eom|><|start|>assistant",
    ),
    "minicpm_5": Transcript(
        '<function name="get_weather"><param name="city">Paris</param></function>',
        between="\n",
        thoughts="I look it up.</think>\n\n",
    ),
    "function_gemma": Transcript(
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>"
    ),
    "ling_3": Transcript(GLM_IN_LINES, between="\n", thoughts=THOUGHTS),
    "dots": Transcript(
        '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n',
        "<dots_function_call>\n",
        "</dots_function_call>",
        thoughts=THOUGHTS,
    ),
    "inkling": Transcript(
        f'get_weather<|content_invoke_tool_json|>{{"name":"get_weather","args":{ARGUMENTS}}}<|end_message|>',
        between="<|message_model|>",
        thoughts="<|content_thinking|>I look it up.<|end_message|><|message_model|>",
    ),
    "command_a": Transcript(
        f'{{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {ARGUMENTS}}}',
        "<|START_ACTION|>[\n    ",
        "\n]<|END_ACTION|>",
        ",\n    ",
        thoughts="I look it up.<|END_THINKING|>",
    ),
    "gigachat_3": Transcript(f"<|message_sep|>\n\nfunction call<|role_sep|>\n{JSON}"),
    "gigachat_3_1": Transcript(f"<|function_call|>{JSON}"),
    "granite_3_2": Transcript(
        JSON,
        "<|tool_call|>[",
        "]",
        ", ",
        "Here is my thought process:I look it up.Here is my response:",
    ),
    "granite_20b_fc": Transcript(f"<function_call> {JSON}", between="\n"),
    "nemotron_nano_2": Transcript(JSON, "<TOOLCALL>[", "]</TOOLCALL>", ", ", f"{THOUGHTS}\n\n"),
    "apriel_1_5": Transcript(
        JSON,
        "<tool_calls>[",
        "]</tool_calls>",
        ", ",
        "Here are my reasoning steps:\nI look it up.[BEGIN FINAL RESPONSE]\n",
    ),
    "apriel_1_6": Transcript(
        JSON, "<tool_calls>[", "]</tool_calls>", ", ", "I look it up.[BEGIN FINAL RESPONSE]\n"
    ),
    "xlam": Transcript(JSON, "[", "]", ", "),
    "solar_open": Transcript(
        f"<|tool_call:begin|>call_1<|tool_call:name|>get_weather<|tool_call:args|>{ARGUMENTS}<|tool_call:end|>",
        "<|tool_calls|>",
        "<|calls|>",
        thoughts="<|think|>I look it up.<|end|><|begin|>assistant",
    ),
    "reka_edge": Transcript(HERMES, thoughts="I look it up.</think>\n\n"),
    "functionary_3_1": Transcript(f"<function=get_weather>{ARGUMENTS}</function>"),
    "functionary_3_2": Transcript(f"get_weather\n{ARGUMENTS}", between=">>>"),
    "firefunction_2": Transcript(JSON, "functools[", "]", ", "),
    "command_r_plus": Transcript(
        f'{{\n        "tool_name": "get_weather",\n        "parameters": {ARGUMENTS}\n    }}',
        "Action:\n```json\n[\n    ",
        "\n]```",
        ",\n    ",
    ),
    "smollm_3": Transcript(HERMES, between="\n", thoughts="<think>I look it up.</think>\n"),
    "minimax_m1": Transcript(
        JSON, "<tool_calls>\n", "\n</tool_calls>", "\n", "<think>I look it up.</think>\n\n"
    ),
    "json_list": Transcript(JSON, "[", "]", ", "),
    "pythonic": Transcript(PYTHON, "[", "]", ", "),
}


IN_A_LINE = f"<tool_call>{JSON}</tool_call>"
VARIANTS: list[tuple[str, Transcript]] = [
    ("smollm_3", Transcript(IN_A_LINE, between="\n", thoughts="<think>I look it up.</think>\n")),
    ("reka_edge", Transcript(IN_A_LINE, thoughts="I look it up.</think>\n\n")),
    ("firefunction_2", Transcript(JSON, " functools[", "]", ", ")),
    ("laguna", Transcript(GLM_IN_LINES, "\n", between="\n", thoughts=THOUGHTS)),
    (
        "hunyuan_3_preview",
        Transcript(
            GLM.replace("<arg_key>", "<tool_sep><arg_key>", 1),
            "<tool_calls>\n",
            "\n</tool_calls>",
            "\n",
            THOUGHTS,
        ),
    ),
    ("apriel_1_5", Transcript(JSON, "\n<tool_calls>[", "]</tool_calls>", ", ")),
    ("command_r_plus", TRANSCRIPTS["command_r_plus"]._replace(begin="\nAction:\n```json\n[\n    ")),
    ("hermes", Transcript(IN_A_LINE, between="\n")),
    ("qwen_2_5", Transcript(IN_A_LINE)),
    ("qwen_3", Transcript(IN_A_LINE, between="\n", thoughts="I look it up.</think>\n\n")),
    ("granite_4", Transcript(IN_A_LINE, between="\n")),
    ("granite", Transcript(JSON, "<|tool_call|> [", "]", ", ")),
    ("granite", Transcript(JSON, "<tool_call>[", "]", ", ")),
    ("granite", Transcript(JSON, "<tool_call> [", "]", ", ")),
    ("mistral", Transcript(JSON, "[TOOL_CALLS] [", "]", ", ")),
    ("mistral_v11", Transcript(f"[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{ARGUMENTS}")),
    (
        "deepseek_r1",
        Transcript(R1, "\n\n<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "\n", "I look it up.</think>"),
    ),
    (
        "glm_4_5",
        Transcript(
            "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
            "\n",
            between="\n",
            thoughts="I look it up.</think>",
        ),
    ),
    (
        "harmony",
        Transcript(
            f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant",
            thoughts="<|channel|>analysis<|message|>I look it up.<|end|><|start|>assistant",
        ),
    ),
]
"""Other ways of families, as their chat templates or older models write calls."""
