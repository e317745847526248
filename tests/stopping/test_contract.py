"""Every built-in criterion obeys the laws of the contract kit."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.plugin import StopRegexCriteria
from engine_sampler.registry import default_registry
from engine_sampler.stopping import (
    ConfidenceCriteria,
    DeepConfCriteria,
    EosTokenCriteria,
    LoopCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MaxTokensCriteria,
    RepetitionCriteria,
    StopStringCriteria,
    StopTokenIdsCriteria,
)
from engine_sampler.testing import StoppingContract
from engine_sampler.testing.stopping import EOS, PIECES
from engine_sampler.tokenizer import Tokenizer

pytestmark = pytest.mark.quick_share(6)


class TestConfidence(StoppingContract):
    criterion = ConfidenceCriteria()
    params = ({"assistant_confidence_threshold": 0.3}, {"assistant_confidence_threshold": 1.0})
    called = ConfidenceCriteria(0.3)


class TestDeepConf(StoppingContract):
    criterion = DeepConfCriteria()
    params = (
        {"deepconf_threshold": 4.3, "deepconf_window_size": 3},
        {"deepconf_threshold": 3.9, "deepconf_window_size": 6, "deepconf_top_k": 5},
    )


class TestEos(StoppingContract):
    criterion = EosTokenCriteria()
    params = ({},)
    called = EosTokenCriteria([3, 5])


class TestOwnEos(StoppingContract):
    criterion = EosTokenCriteria([2, EOS])
    params = ({},)


class TestLoop(StoppingContract):
    criterion = LoopCriteria()
    params = (
        {"loop_detect_window": 3},
        {"loop_detect_window": 8, "loop_detect_min_reps": 2},
        {"loop_detect_window": 5, "loop_detect_min_reps": 5},
    )
    called = LoopCriteria(4, 2)


class TestMaxLength(StoppingContract):
    criterion = MaxLengthCriteria()
    params = ({"max_length": 1}, {"max_length": 7})
    called = MaxLengthCriteria(5)


class TestMaxTime(StoppingContract):
    criterion = MaxTimeCriteria()
    params = ({"max_time": 1e5},)
    called = MaxTimeCriteria(1e5)
    test_some_outputs_end_by_it: Any = None  # only time ends them


class TestMaxTokens(StoppingContract):
    criterion = MaxTokensCriteria()
    params = ({"max_tokens": 1}, {"max_tokens": 9})
    called = MaxTokensCriteria(7)


class TestRepetition(StoppingContract):
    criterion = RepetitionCriteria()
    params = (
        {"repetition_detection": {"max_pattern_size": 3}},
        {"repetition_detection": {"max_pattern_size": 4, "min_pattern_size": 2, "min_count": 2}},
    )
    called = RepetitionCriteria({"max_pattern_size": 2})


class TestStopStrings(StoppingContract):
    criterion = StopStringCriteria()
    params = (
        {"stop": "é"},
        {"stop": ["ab", "bc0", "x", "yx."]},
        {"stop": ["ca", "10"], "include_stop_str_in_output": True},
        {"stop": ["<end>", "cab"]},
    )
    called = StopStringCriteria(Tokenizer(PIECES, [EOS]), ["ab", "x", "10"])


class TestOwnStopStrings(StoppingContract):
    criterion = StopStringCriteria(stop_strings=["ab", "é"])
    params = ({"stop": ["d"]},)


class TestStopRegex(StoppingContract):
    criterion = StopRegexCriteria()
    params = (
        {"stop_regex": r"[abc]{2}"},
        {"stop_regex": [r"\d+ ?[xyz]", "é.", "(ab|c)+x"]},
        {"stop_regex": "a.b?c|y", "include_stop_str_in_output": True},
    )


class TestStopTokenIds(StoppingContract):
    criterion = StopTokenIdsCriteria()
    params = (
        {"stop_token_ids": [0, 14]},
        {"stop_token_ids": [13], "include_stop_str_in_output": True},
    )
    called = StopTokenIdsCriteria([1, 2])


WRITTEN = {kit.criterion.name for kit in StoppingContract.__subclasses__() if kit.__module__ == __name__}
for _name, _criterion in default_registry().catalogue.stopping_criteria.items():
    if _name not in WRITTEN:  # its examples are enough
        _attributes = {"__module__": __name__, "criterion": _criterion}
        globals()[f"Test_{_name}"] = type(f"Test_{_name}", (StoppingContract,), _attributes)
