"""The tables of the page of limits, from the constants that the code checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from engine_sampler.contract.params import MAX_SIZE
from engine_sampler.contract.values import MAX_TEXT_BYTES
from engine_sampler.contract.work import CAPTURE_STEPS_AT_ONCE, REQUEST_WORK, STEP_WORK
from engine_sampler.grammar import Limits
from engine_sampler.grammar.arguments import MAX_NAMED
from engine_sampler.grammar.compiled import MAX_BYTES, MAX_GRAMMARS
from engine_sampler.grammar.lark.extensions.parametric import MAX_INSTANCES
from engine_sampler.grammar.limits import CAPTURE_STEPS
from engine_sampler.grammar.plugin.stop_regex import MAX_PATTERN_BYTES
from engine_sampler.grammar.program.part_budgets import MAX_WITHIN
from engine_sampler.grammar.program.rules import MAX_UNIQUE_ITEMS
from engine_sampler.grammar.program.settings import MAX_SETTINGS
from engine_sampler.grammar.schema.limits import MAX_CLAUSES, MAX_DEPTH
from engine_sampler.messages.reading.following import MAX_SPACE
from engine_sampler.messages.value import MAX_DEPTH as MAX_LEVELS
from engine_sampler.messages.value import MAX_POINTER, MAX_SCALAR
from engine_sampler.params.costs import MAX_HISTORIES, MAX_PASSES, MAX_REPEATS, MAX_ROW_PASSES
from engine_sampler.registry import Catalogue
from engine_sampler.registry.phase_params import MAX_MARKERS, MAX_PHASES
from engine_sampler.requests.bans import MAX_REWINDS, MAX_WITHHELD
from engine_sampler.requests.phases.phases import DEAR_CHANGES, MAX_CHANGES, MAX_RULE_CHANGES, TOKENS_PER_DEAR

from .tables import table

FIELDS = {
    "memory": "bytes of one grammar's tables; a long text rebuilds them",
    "shared_memory": "bytes of the tables that all grammars of a tokenizer share",
    "grammar_memory": "bytes of the tables of all grammars of a tokenizer; the largest are dropped",
    "work": "steps of one call, each a few nanoseconds",
    "carried": "steps of all calls for one text that one step of a scheduler did not finish",
    "text": "characters of a grammar, a schema or a pattern",
    "reading": "steps of reading one grammar, each about a microsecond",
}


def limit_tables(catalogue: Catalogue) -> dict[str, Callable[[], str]]:
    """The tables by the names that the page marks their places with."""
    return {
        "limits of parameters": lambda: parameters(catalogue),
        "limits of a request": requests,
        "limits of a step": steps,
        "limits of grammars": grammars,
        "limits of messages": messages,
    }


def parameters(catalogue: Catalogue) -> str:
    """The limit of every parameter whose limit is not the general one; those with equal limits together."""
    limits: dict[int, list[str]] = {}
    for param in catalogue.params.values():
        limit = param.default_limit
        if limit is not None and limit != MAX_SIZE and param.choices is None:
            limits.setdefault(limit, []).append(f"`{param.name}`")
    rows = [[f"{limit:,}", " ".join(sorted(names))] for limit, names in sorted(limits.items())]
    return table(
        ["default limit", "parameters"],
        [*rows, [f"{MAX_SIZE:,}", "every other text or list, of plugins too"]],
    )


def requests() -> str:
    """What holds for a request besides the limits of its parameters."""
    return _constants(
        ("passes of the samplers of one row", MAX_PASSES),
        ("passes of the samplers of all rows", MAX_ROW_PASSES, "`RequestLimits(passes=…)`"),
        ("how often an `order` names one sampler", MAX_REPEATS),
        (
            "tokens of all rows' prompts, where phases change penalties",
            MAX_HISTORIES,
            "`RequestLimits(histories=…)`",
        ),
        ("bytes of `stop`, whatever `RequestLimits(stop=…)` allows", MAX_TEXT_BYTES),
        ("bytes of a pattern of `stop_regex` or `banned_regex`, likewise", MAX_PATTERN_BYTES),
        ("times that a request goes back because of bans", MAX_REWINDS),
        ("bytes withheld because a ban may still come", MAX_WITHHELD),
        ("phases", MAX_PHASES),
        ("markers of one kind in a phase", MAX_MARKERS),
        ("changes of phase", MAX_CHANGES),
        (f"those that count the history anew; one more for every {TOKENS_PER_DEAR} tokens", DEAR_CHANGES),
        ("changes of the part of a grammar in which other parameters hold", MAX_RULE_CHANGES),
    )  # fmt: skip


def steps() -> str:
    """What one step of a scheduler spends on work that clients cause."""
    return _constants(
        ("steps for all masks and accepts, at most 50 ms", STEP_WORK),
        ("steps for one request, at most 20 ms", REQUEST_WORK),
        ("steps for the captures of answers that end", CAPTURE_STEPS_AT_ONCE),
    )


def grammars() -> str:
    """The fields of `Limits`, and what holds besides."""
    defaults = Limits()
    rows = [
        (FIELDS[field.name], getattr(defaults, field.name), f"`Limits({field.name}=…)`")
        for field in fields(Limits)
    ]
    return _constants(
        *rows,
        ("steps of finding the captures of a text", CAPTURE_STEPS, "`captures(steps=…)`"),
        ("compiled grammars in the cache of a tokenizer", MAX_GRAMMARS),
        ("bytes of that cache", MAX_BYTES),
        ("items of an array with `uniqueItems`", MAX_UNIQUE_ITEMS),
        ("alternatives of one value of a schema", MAX_CLAUSES),
        ("subschemas of one value within each other", MAX_DEPTH),
        ("grammars within one, by name", MAX_NAMED),
        ("uses of Lark rules with a parameter, by value", MAX_INSTANCES),
        ("different sets of sampling parameters in rules", MAX_SETTINGS),
        ("rules with `max_tokens` within each other", MAX_WITHIN),
    )


def messages() -> str:
    """What the parser of answers holds back or follows."""
    return _constants(
        ("levels of nested arguments whose parts are reported", MAX_LEVELS),
        ("characters of a number in them", MAX_SCALAR),
        ("characters of a JSON pointer", MAX_POINTER),
        ("characters of white space that are held back", MAX_SPACE),
    )


def _constants(*rows: tuple[str, int] | tuple[str, int, str]) -> str:
    return table(
        ["what", "limit", "changed by"],
        [[what, f"{limit:,}", *(changed or [""])] for what, limit, *changed in rows],
    )
