"""What the parameters `thinking` and `phases` mean: an automaton whose states are phases of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..base.errors import quoted
from ..contract import Param, ParameterError, Sampler, Selector
from ..contract.values import Phrase
from ..registry import MAX_COUNT, PHASE_PARAMS, Catalogue, default_registry
from .families import TOOL_FAMILIES, Family

if TYPE_CHECKING:
    from .sampling_params import SamplingParams

ANSWER, REASONING = "answer", "reasoning"
"""The names of the phases that `thinking` means."""

_NEUTRAL: Mapping[str, Any] = {param.name: param.neutral for param in PHASE_PARAMS}
_OF_THE_REQUEST = ("min_keep", "order")
"""Parameters without an owner that a phase may change."""

_FIXED = ("min_tokens", "grammar_bias")
"""Parameters of samplers that hold for a request as a whole."""


class End(NamedTuple):
    """A marker that ends a phase.

    then      the number of the phase that follows.
    is_begin  whether the marker belongs to that phase.
    """

    marker: Phrase
    then: int
    is_begin: bool = False


@dataclass(frozen=True)
class Phase:
    """One state of the automaton.

    name      under which its tokens are counted.
    params    those of its chain.
    changed   the names of those that are given for it alone.
    ends      the markers that end it.
    tokens    after how many of its tokens it ends; None: never.
    then      the number of the phase that follows then.
    forced    what is put at its end then, piece by piece; it counts as a part of the phase.
    completed  markers that are completed in place of `forced` if the last tokens are the beginning of one.
    closing   what is put after either.
    closes    whether an EOS token ends it in the same way, in place of the request.
    has_grammar  whether the grammar holds in it. It begins anew wherever it has not held before.
    has_stops    whether stop strings, patterns and tokens, and `min_tokens`, hold in it.
    is_output    whether its samplers and `min_tokens` see what precedes it as a part of the prompt.
    """

    name: str
    params: SamplingParams
    changed: tuple[str, ...] = ()
    ends: tuple[End, ...] = ()
    tokens: int | None = None
    then: int = 0
    forced: tuple[Phrase, ...] = ()
    completed: tuple[Phrase, ...] = ()
    closing: tuple[Phrase, ...] = ()
    closes: bool = False
    has_grammar: bool = True
    has_stops: bool = True
    is_output: bool = False


@dataclass(frozen=True)
class PhasePlan:
    """The phases of a request, of which it begins in the first.

    opened  the number of the phase that the prompt may have opened; None: none.
    inside  whether it has: True, False, or "auto" if the end of the prompt tells.
    within  for each set of parameters that rules of the grammar give, the phases under these.
    is_given  whether the parameters describe phases; else there is one, for the rules.
    """

    phases: tuple[Phase, ...]
    opened: int | None = None
    inside: bool | Literal["auto"] = False
    within: tuple[tuple[Phase, ...], ...] = ()
    is_given: bool = True


def plan_of(params: SamplingParams, catalogue: Catalogue) -> PhasePlan | None:
    """The phases that the parameters describe; None if there is one phase only. Raises `ParameterError`."""
    if params["thinking"] is None:
        for name in ("thinking_token_budget", "answer"):
            if params[name] not in (None, -1, ()):
                value = quoted(dict(params[name]) if name == "answer" else params[name])
                raise ParameterError(f"{name}={value} is not allowed here: it needs thinking={{...}}")
        if not params["phases"]:
            return None
    elif params["phases"]:
        raise ParameterError("thinking and phases are not allowed together: at most one of them")
    named = "phases" if params["thinking"] is None else "thinking"
    if params["use_beam_search"]:
        raise ParameterError(f"{named} is not allowed with use_beam_search=True")
    if params["grammar_bias"] is not None:
        raise ParameterError(f"{named} is not allowed with grammar_bias={params['grammar_bias']}")
    changing = _Changing(params, catalogue)
    return _general_plan(changing) if named == "phases" else _thinking_plan(changing)


def _owned(catalogue: Catalogue) -> dict[str, Param]:
    """The parameters of samplers and selectors that may change within a request."""
    parts: list[Sampler | Selector] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    return {param.name: param for part in parts for param in part.params if param.name not in _FIXED}


def rule_parameters() -> dict[str, Param]:
    """The parameters that a rule of a grammar may set: those of samplers and selectors that are numbers or
    switches."""
    owned = _owned(default_registry().catalogue)
    return {name: param for name, param in owned.items() if param.type in (int, float, bool)}


RuleParameters = tuple[str, tuple[tuple[str, Any], ...]]
"""The name of a rule of a grammar, and the names and values of the parameters that hold in it."""


def plan_with_rules(
    params: SamplingParams, plan: PhasePlan | None, rules: Sequence[RuleParameters]
) -> PhasePlan:
    """The phases of `plan`, in which rules of the grammar change the parameters. Raises `ParameterError`."""
    if params["use_beam_search"]:
        named = f"the grammar sets parameters in its rule {quoted(rules[0][0])}"
        raise ParameterError(f"{named}, which is not allowed with use_beam_search=True")
    if plan is None:
        plan = PhasePlan((Phase(ANSWER, params),), is_given=False)
    within = tuple(tuple(_within(phase, rule) for phase in plan.phases) for rule in rules)
    return replace(plan, within=within)


def _within(phase: Phase, rule: RuleParameters) -> Phase:
    """A phase where a rule holds."""
    name, changes = rule
    if not phase.has_grammar:
        return phase
    try:
        return replace(phase, params=phase.params.replace(**dict(changes)))
    except ParameterError as error:
        raise ParameterError(f"the rule {quoted(name)} of the grammar: {error}") from None


class _Changing:
    """The parameters of a request, of which phases change some."""

    def __init__(self, params: SamplingParams, catalogue: Catalogue) -> None:
        self.params = params
        self._allowed = {*_owned(catalogue), *_OF_THE_REQUEST}

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def changed(self, where: str, changes: Mapping[str, Any]) -> SamplingParams:
        """The parameters of a phase, of which `where` gives `changes`; its errors name `where`."""
        for name in changes:
            if name not in self._allowed:
                raise ParameterError(
                    f"{where} names {quoted(name)}, which is not allowed there; allowed are "
                    f"{', '.join(_OF_THE_REQUEST)}, and the parameters of samplers and selectors except "
                    f"{', '.join(_FIXED)}"
                )
        try:
            return self.params.replace(**{**_NEUTRAL, **changes})
        except ParameterError as error:
            raise ParameterError(f"{where}: {error}") from None


# --- phases ----------------------------------------------------------------------------------------


def _general_plan(changing: _Changing) -> PhasePlan:
    listed = [dict(fields) for fields in changing["phases"]]
    phases = [_phase(changing, number, fields, len(listed)) for number, fields in enumerate(listed)]
    return PhasePlan(tuple(phases))


def _phase(changing: _Changing, number: int, fields: Mapping[str, Any], count: int) -> Phase:
    where = f"phases[{number}]"
    ends = "until" in fields or "tokens" in fields
    then = fields.get("then", number + 1 if ends else number)
    if not 0 <= then < count:
        raise ParameterError(
            f"{where} ends, but then={then} is not allowed: the number of a phase, from 0 to {count - 1}"
        )
    forced = (fields["force"],) if fields.get("force") else ()
    if forced and "tokens" not in fields:
        raise ParameterError(f"{where}.force is not allowed without {where}.tokens")
    if fields.get("tokens") == 0 and not forced:
        raise ParameterError(f"{where}.tokens=0 is not allowed without {where}.force: at least 1")
    changes = dict(fields.get("params", ()))
    return Phase(
        name=fields.get("name", str(number)),
        params=changing.changed(f"{where}.params", changes),
        changed=tuple(changes),
        ends=tuple(End(marker, then) for marker in fields.get("until", ())),
        tokens=fields.get("tokens"),
        then=then,
        forced=forced,
        completed=tuple(marker for marker in fields.get("until", ()) if marker in forced),
    )


# --- thinking ----------------------------------------------------------------------------------------


def _thinking_plan(changing: _Changing) -> PhasePlan:
    """An answer, which a start marker leaves for the thoughts, which an end marker leaves for the answer."""
    thinking = dict(changing["thinking"])
    family = _family(thinking)
    starts, ends = _marks(thinking, family)
    is_apart, params = thinking.get("scope", "answer") == "answer", changing.params
    calls = tuple(End(marker, 0, is_begin=True) for marker in _calls(thinking, family))
    changes = dict(params["answer"])
    answer = Phase(
        name=ANSWER,
        params=changing.changed("answer", changes),
        changed=tuple(changes),
        ends=tuple(End(marker, 1) for marker in starts),
        is_output=is_apart,
    )
    reasoning = Phase(
        name=REASONING,
        params=_while_thinking(changing, thinking, is_apart),
        changed=(),
        ends=(*(End(marker, 0) for marker in ends), *calls),
        tokens=None if params["thinking_token_budget"] == -1 else params["thinking_token_budget"],
        then=0,
        forced=tuple(piece for piece in (thinking.get("message", ""), ends[0]) if piece),
        completed=tuple(ends),
        closing=(family.closing,) if family is not None and family.closing else (),
        closes=thinking.get("eos") == "close",
        has_grammar=thinking.get("grammar") == "all",
        has_stops=not is_apart,
    )
    return PhasePlan((answer, reasoning), 1, thinking.get("starts_inside", "auto"))


def _while_thinking(changing: _Changing, given: Mapping[str, Any], is_apart: bool) -> SamplingParams:
    """The parameters of the thoughts, from which `min_tokens` of the answer keeps the request from ending."""
    params = changing.params
    changes: dict[str, Any] = {}
    if given.get("eos") == "mask":
        changes["ignore_eos"] = True
    if is_apart and params["min_tokens"]:
        changes |= {"min_tokens": MAX_COUNT, "stop_token_ids": (), "stop": ()}
    return params.replace(**{**_NEUTRAL, **changes})


def _family(given: Mapping[str, Any]) -> Family | None:
    name = given.get("family")
    if name is None:
        return None
    if name not in TOOL_FAMILIES:
        raise ParameterError(
            f"thinking names the family {quoted(name)}, allowed are {', '.join(thinking_families())}"
        )
    return TOOL_FAMILIES[name]


def thinking_families() -> Sequence[str]:
    """The families of models whose marks around thoughts are known."""
    return [name for name, family in TOOL_FAMILIES.items() if family.thinking is not None]


def _marks(thinking: Mapping[str, Any], family: Family | None) -> tuple[Sequence[Phrase], Sequence[Phrase]]:
    """The markers at which thoughts start and end."""
    known = (None, None) if family is None or family.thinking is None else family.thinking
    starts = thinking.get("start", () if known[0] is None else (known[0],))
    ends = thinking.get("end", () if known[1] is None else (known[1],))
    if not ends:
        raise ParameterError(
            f"thinking={quoted(dict(thinking))} is not allowed: it has no end; allowed are end, or one of "
            f"the families {', '.join(thinking_families())}"
        )
    if not starts and thinking.get("starts_inside") is not True:
        raise ParameterError(
            f"thinking={quoted(dict(thinking))} is not allowed: without start, starts_inside must be True"
        )
    return starts, ends


def _calls(given: Mapping[str, Any], family: Family | None) -> Sequence[Phrase]:
    """The markers at which calls of tools begin, if they end thoughts."""
    asked = given.get("tool_call", False)
    if asked is not True:
        return asked or ()
    begin = "" if family is None else family.trigger_text
    if not begin:
        raise ParameterError(
            "thinking.tool_call=True is not allowed: it needs a family, whose calls begin in a known way"
        )
    return (begin,)
