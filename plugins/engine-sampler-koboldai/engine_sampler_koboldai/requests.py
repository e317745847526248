"""Requests of front ends to KoboldAI and its relatives, read into parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine_sampler import SamplingParams, Tokenizer
from engine_sampler.for_bridges import Unknown, check_tokenizer, guarded, named_as_sent, one_of

from .koboldai import RENAMED, parameters_of
from .webuis import WEB_UIS, aliases_of, body_of

SYSTEMS = ("koboldai", "koboldcpp", *WEB_UIS)
"""The servers whose requests are read."""


def from_request(
    body: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
    *,
    system: str = "koboldai",
    unknown: Unknown = "error",
) -> SamplingParams:
    """The settings of a request to KoboldAI's API (/api/v1/generate), which koboldcpp shares, or to the
    completions of TabbyAPI, text-generation-webui and Aphrodite.

    tokenizer  for use_default_badwordsids in KoboldAI, for biases given as text, and for the tokens that
               TabbyAPI's XTC leaves alone.
    system     "koboldai": its order and its cutoffs. KoboldAI fills omitted keys from its settings page; here
               they are neutral.
               "koboldcpp": llama.cpp's cutoffs, DRY first and XTC last, and its own defaults: temperature
               0.75, top_k 100, top_p 0.92, a penalty window of 320 tokens; sampler_order 6 0 1 3 4 2 5.
               "tabbyapi", "text-generation-webui", "aphrodite": their orders, cutoffs and defaults.
    unknown    what becomes of unknown keys, as in `SamplingParams.from_dict`.

        >>> from_request({"sampler_order": [0, 5, 1, 2, 3, 4], "temperature": 0.5}).order
        (0, 5, 1, 2, 3, 4)
        >>> from_request({"sampler_order": [6, 5, 0]}, system="koboldcpp").order
        ('dry', 'penalties', 'temperature', 'smoothing', 'top_n_sigma', 'top_k', 'xtc')
        >>> from_request({"temperature_last": True, "rep_pen": 1.1}, system="tabbyapi").order[-4:]
        ('temperature', 'smoothing', 'infill', 'xtc')

    KoboldAI and koboldcpp:

    - Numbers out of range: KoboldAI refuses them in its own keys, koboldcpp takes the nearest in the range.
    - temperature: 0 is greedy. Below 0 is greedy in koboldcpp too, and not allowed in KoboldAI.
    - rep_pen_range: 0 is the whole context in KoboldAI, one token in koboldcpp.
    - rep_pen_slope: KoboldAI's curve. koboldcpp's two steps are not supported, except slopes flat there.
    - sampler_order: ids 0 to 6. KoboldAI takes all of them or, as its older versions did, all but 6, which
      then comes first; koboldcpp runs the listed ones, so the others are off. koboldcpp's initial truncation
      to a few thousand tokens is not performed.
    - sampler_seed: 0 is a seed in KoboldAI, and means random in koboldcpp.
    - stop_sequence: stays in the text in KoboldAI, and with trim_stop=false.
    - singleline: the text ends before a newline.
    - use_default_badwordsids: bans EOS, and in KoboldAI every token with a square bracket.
    - banned_tokens, banned_strings: banned_strings in koboldcpp, which takes text back, whatever the case of
      its letters; bad_words in KoboldAI.
    - custom_token_bans: ids of removed tokens.
    - grammar: as in llama.cpp, or a JSON schema as text.
    - logprobs: a number, or true for five.
    - bypass_eos, grammar_retain_state, guidance_scale and output formatting (frmt…) are not supported, and
      are refused unless switched off.

    The others:

    - temperature_last: the temperature follows the truncations, in Aphrodite XTC, too.
    - sampler_priority: text-generation-webui's order; samplers that it omits come first.
    - dynatemp_low, dynatemp_high (min_temp, max_temp; dynatemp_min, dynatemp_max): the ends of the range in
      which the temperature moves; they replace the temperature. text-generation-webui needs
      dynamic_temperature, too.
    - mirostat_mode: 2 is mirostat_v2; 1 is off.
    - penalty_range, repetition_penalty_range: the window of all penalties; 0 is none in TabbyAPI, and the
      whole text in text-generation-webui, where it is that of DRY, too.
    - epsilon_cutoff, eta_cutoff: in units of 1e-4 in text-generation-webui.
    - adaptive_target: below 0 it is off; so are TabbyAPI's 1 and text-generation-webui's 0.
    - custom_token_bans, banned_tokens: ids, in a list or a text. stop: texts, and ids.
    - All other keys are those of `SamplingParams.from_dict`.

    Parameters of ours that these systems lack pass under their own names. Raises `ParameterError` naming the
    key, the value and what is allowed; for unknown keys it names near matches.
    """
    check_tokenizer(tokenizer)
    one_of(SYSTEMS, "system", system)

    def read() -> SamplingParams:
        if system in WEB_UIS:
            return SamplingParams.from_dict(body_of(body, system, tokenizer), unknown=unknown)
        is_cpp = system == "koboldcpp"
        return SamplingParams(**parameters_of(body, tokenizer, unknown, is_cpp=is_cpp))

    with named_as_sent(body, aliases_of(system) if system in WEB_UIS else RENAMED):
        return guarded(read, "the request")
