"""Answers of models as other servers' tests record them: read as there, or decided otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler.messages import MessageParser, chat_message

from ...conftest import shared_data

FILE = "chat_cases_missing_families.jsonl"
FAMILIES = {
    "DotsToolParser": "dots",
    "FunctionGemmaToolParser": "function_gemma",
    "GigaChat3Detector": "gigachat_3",
    "Granite20bFCToolParser": "granite_20b_fc",
    "GraniteReasoningParser": "granite_3_2",
    "HYV3ReasoningParser": "hunyuan_3_preview",
    "HYV3ToolParser": "hunyuan_3_preview",
    "HunyuanA13BReasoningParser": "hunyuan_a13b",
    "HunyuanA13BToolParser": "hunyuan_a13b",
    "HunyuanDetector": "hunyuan_3_preview",
    "InklingDetector": "inkling",
    "InklingEngineToolParser": "inkling",
    "InklingParser": "inkling",
    "Ling3ParserReasoningAdapter": "ling_3",
    "Ling3ToolParser": "ling_3",
    "MiniCPM5Detector": "minicpm_5",
    "MiniCPM5XMLToolParser": "minicpm_5",
    "MuseGlimmerReasoningParser": "muse_glimmer",
    "MuseGlimmerToolParser": "muse_glimmer",
    "PoolsideV1Detector": "laguna",
    "PoolsideV1ToolParser": "laguna",
    "Step3p5ReasoningParser": "step_3_5",
    "Step3p5ToolParser": "step_3_5",
    "xLAMToolParser": "xlam",
}
"""The family that each of their classes reads."""
BEGIN_INSIDE = {"HYV3ReasoningParser", "Step3p5ReasoningParser"}
"""Those whose texts begin within thoughts."""

_TEXT_IS_KEPT = "text after calls is content"
_CHECKED = "what a model calls is shown, whether or not it is valid: what is wrong is the client's to say"
_REPAIRED = "its names are mended by guesses"
_DECODED = "its text was not decoded: a tokenizer's letter stands for white space"
_ONE_PASS = "thoughts and calls are read at once, there by two parsers of which each leaves the other's"
_BROKEN = "of a call that is not as defined, what can be read is, and the rest is content without marks"
_NO_MARK = "a mark of the family is no text, wherever it stands"
DECIDED = {
    "test_arg_key_without_value_emits_empty_call": _BROKEN,
    "test_orphan_key_followed_by_new_key_uses_new_key": _BROKEN,
    "test_truncated_after_complete_call_keeps_complete": _BROKEN,
    "test_incomplete_missing_function_end": _BROKEN,
    "test_incomplete_missing_function_end_v3": _BROKEN,
    "test_duplicate_param_names_invalid": _BROKEN,
    "test_duplicate_param_names_invalid_v3": _BROKEN,
    "test_detect_and_parse_arguments_not_dict": _BROKEN,
    "test_detect_and_parse_invalid_json": _BROKEN,
    "test_detect_and_parse_missing_name": _BROKEN,
    "test_empty_name_is_allowed_on_the_canonical_path": _BROKEN,
    "test_nonfinite_numbers_rejected_canonically_but_recovered": _BROKEN,
    "test_raw_text_tool_invocation_surfaces_as_a_call": _BROKEN,
    "test_recovery_uses_only_the_last_marker": _BROKEN,
    "test_hunyuan_a13b_tool_parser_extract": _TEXT_IS_KEPT,
    "test_case_sensitive_param_name_invalid": _CHECKED,
    "test_case_sensitive_param_name_invalid_v3": _CHECKED,
    "test_wrapped_arguments_still_validate_schema": _CHECKED,
    "test_extra_arguments_ignored_when_required_present": _CHECKED,
    "test_zero_arg_tool_ignores_extra_arguments": _CHECKED,
    "test_unknown_tool_dropped": _CHECKED,
    "test_non_stream_unknown_tool_is_left_as_content": _CHECKED,
    "test_malformed_input[False]": _BROKEN,
    "test_properties_wrapped_arguments": _REPAIRED,
    "test_alias_get_line_details": _REPAIRED,
    "test_tokenizer_space_marker": _DECODED,
    "test_collapsed_param_tags_with_tokenizer_space_function": _DECODED,
    "test_skip_tool_parsing_round_trip": _ONE_PASS,
    "test_echoed_invoke_in_reasoning_is_not_parsed": _ONE_PASS,
    "test_reasoning_to_toolcall_handoff": _ONE_PASS,
    "test_reasoning_then_parallel_calls": _ONE_PASS,
    "test_ling3_enable_thinking_keeps_open_reasoning_as_content": "thoughts that were cut are thoughts",
    "test_quoted_message_model_token_inside_content_is_preserved": _NO_MARK,
    "test_clean_normal_text_strips_the_full_control_alphabet": _NO_MARK,
    "test_json_object_array_and_bool_params_decode": "without a schema, a text is a string",
}
"""The tests whose answers are read otherwise, by name, and why."""


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in shared_data(FILE).read_text(encoding="utf-8").splitlines()]


def read(case: dict[str, Any], pieces: list[str]) -> tuple[str, str, list[tuple[str, Any]]]:
    """Content, thoughts and calls."""
    name = case["peer_class"]
    functions = [tool["function"] for tool in case["tools"] or ()]
    given = [{key: value for key, value in function.items() if value is not None} for function in functions]
    tools = [{"type": "function", "function": function} for function in given]
    inside = name in BEGIN_INSIDE
    parser = MessageParser(FAMILIES[name], tools or None, reasoning="auto", starts_inside=inside)
    for piece in pieces:
        parser.feed(piece)
    parser.finish()
    message = chat_message(parser)
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return parts_of({**message, "reasoning": message.get("reasoning_content"), "calls": calls})


def parts_of(message: dict[str, Any]) -> tuple[str, str, list[tuple[str, Any]]]:
    """Content and thoughts without white space around them, and the calls."""
    calls = [(one["name"], _value(one["arguments"])) for one in message.get("calls") or ()]
    return (message["content"] or "").strip(), (message.get("reasoning") or "").strip(), calls


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def name_of(case: dict[str, Any]) -> str:
    """The name of a test, with its parameters where `DECIDED` names them."""
    name = case["source"].rpartition("::")[2]
    return name if name in DECIDED or name.partition("[")[0] not in DECIDED else name.partition("[")[0]


def test_answers_are_read_as_other_servers_do_or_it_is_decided_otherwise(cases: list[dict[str, Any]]) -> None:
    differing = {name_of(one) for one in cases if read(one, [one["text"]]) != parts_of(one["want"])}
    assert differing == DECIDED.keys()


def test_answers_are_read_alike_however_they_are_cut(cases: list[dict[str, Any]]) -> None:
    for one in cases:
        assert read(one, list(one["text"])) == read(one, [one["text"]]), one["source"]
