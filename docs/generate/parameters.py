"""The tables of all parameters, and of the keys of other systems' requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine_sampler_koboldai import koboldai
from engine_sampler_llama_cpp import requests

from engine_sampler.contract import Param
from engine_sampler.params.costs import PASSES, passes_of
from engine_sampler.params.openai import LEFT_TO_THE_SERVER, NOTICED, RENAMED
from engine_sampler.params.orders import full_order
from engine_sampler.params.unknown_keys import UNSUPPORTED
from engine_sampler.registry import CORE_PARAMS, GRAMMAR_OPTIONS, PHASE_PARAMS, STRUCTURED_PARAMS, Catalogue

from .docstrings import inline
from .parts import GROUPS, group_of, in_chain_order
from .tables import code, kind_of, range_of, table

TRANSFORMERS = {
    "bad_words": "bad_words_ids",
    "beam_width": "num_beams",
    "max_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "n": "num_return_sequences",
    "stop": "stop_strings",
}
"""What `generate` calls a parameter, where the name differs."""

GRAMMAR_PAGES = {
    "regex": "grammars.md#choices-and-patterns",
    "choice": "grammars.md#choices-and-patterns",
    "grammar": "grammars/lark.md",
    "lexer": "grammars/lark.md",
    "start": "grammars/lark.md",
    "structural_tag": "grammars/tool-calls.md",
}
"""Where a parameter of grammars is described, if not on the page about JSON Schema."""


def names_elsewhere() -> dict[str, list[str]]:
    """For each parameter, what other systems call it if the name differs: "llama.cpp `repeat_penalty`"."""
    systems: dict[str, dict[str, list[str]]] = {}

    def add(system: str, theirs: str, ours: str) -> None:
        if theirs != ours:
            systems.setdefault(ours, {}).setdefault(system, []).append(theirs)

    for theirs, ours in RENAMED.items():
        add("bodies", theirs, ours)
    for system, module in (("llama.cpp", requests), ("KoboldAI", koboldai)):
        for theirs, field in module.FIELDS.items():
            add(system, theirs, field.name)
    for ours, theirs in TRANSFORMERS.items():
        add("transformers", theirs, ours)
    return {
        ours: [f"{system} {', '.join(f'`{name}`' for name in names)}" for system, names in found.items()]
        for ours, found in systems.items()
    }


def sections(catalogue: Catalogue) -> str:
    """A table for each group of parameters."""
    elsewhere = names_elsewhere()
    sections: list[str] = []
    for title, params, owners in _groups(catalogue):
        rows = [_row(param, owners.get(param.name), elsewhere.get(param.name, [])) for param in params]
        sections.append(f"## {title}")
        sections.append(table(["name", "neutral", "allowed", "meaning"], rows))
    return "\n\n".join(sections)


def _row(param: Param, page: str | None, elsewhere: list[str]) -> list[str]:
    """A line of the table; the name is an anchor, and leads to the page of what owns the parameter."""
    name = f"`{param.name}`" if page is None else f"[`{param.name}`]({page})"
    is_fixed = param.type is object and param.limit is None  # such as seed
    limit = None if param.choices is not None or is_fixed else param.default_limit
    allowed = [kind_of(param), range_of(param), "" if limit is None else f"limit {limit:,}"]
    return [
        f'<a id="{param.name}"></a>{name}',
        code(param.neutral),
        ", ".join(filter(None, allowed)),
        ". ".join([inline(param.doc), *([f"In {'; '.join(elsewhere)}"] if elsewhere else [])]),
    ]


def _groups(catalogue: Catalogue) -> Iterator[tuple[str, list[Param], Mapping[str, str]]]:
    """Title, parameters and the page of the owner of each, group by group."""
    parts = in_chain_order(catalogue)
    for group, title in GROUPS.items():
        members = [part for part in parts if group_of(part) == group]
        owners = {p.name: f"samplers/{part.name}.md" for part in members for p in part.params}
        yield title, [p for part in members for p in part.params], owners
    structure = {**STRUCTURED_PARAMS, **{name: CORE_PARAMS[name] for name in GRAMMAR_OPTIONS}}
    yield (
        "Structure",
        list(structure.values()),
        {**dict.fromkeys(structure, "grammars/json-schema.md"), **GRAMMAR_PAGES},
    )
    criteria = catalogue.stopping_criteria.values()
    owners = {p.name: f"criteria/{part.name}.md" for part in criteria for p in part.params}
    yield "Ends", [p for part in criteria for p in part.params], owners
    phases = {param.name: param for param in PHASE_PARAMS}
    yield "Phases", list(PHASE_PARAMS), dict.fromkeys(phases, "reasoning.md")
    drafters = [CORE_PARAMS["drafter"], *(p for d in catalogue.drafters.values() for p in d.params)]
    drafting = {param.name: "drafts.md" for param in drafters}
    yield "Drafts", drafters, drafting
    others = {**structure, **phases, **drafting}
    yield "Request", [p for name, p in CORE_PARAMS.items() if name not in others], {}


CLASSES = {
    "pass": "",
    "select": ", a selection",
    "history": ", a long history",
    "sort": ", a sort",
    "bytes": ", the bytes of all tokens",
}
"""What the samplers of each class do beyond a pass."""

NOTES = {
    "history": "; `logits_processors` also cost what their functions do",
    "sort": "; those of plugins, unless they say otherwise",
}


def cost_table(catalogue: Catalogue) -> str:
    """The samplers that can be ordered, by what they cost."""
    ordered = [catalogue.samplers[name] for name in full_order("llama.cpp", catalogue.samplers)]
    rows = []
    for cost, words in CLASSES.items():
        names = " ".join(f"`{sampler.name}`" for sampler in ordered if sampler.cost == cost)
        rows.append([f"{PASSES[cost]}{words}", names + NOTES.get(cost, "")])
    listed = table(["passes", "samplers"], rows)
    return f"{listed}\n\nAll built-in samplers at once cost {passes_of(ordered)} passes."


def request_table(system: str) -> str:
    """The keys of a request to "llama.cpp" or "koboldai": our name, the system's default."""
    fields = (requests if system == "llama.cpp" else koboldai).FIELDS
    rows = [
        [f"`{key}`", f"`{field.name}`", "" if field.default is None else code(field.default)]
        for key, field in fields.items()
    ]
    return table(["key", "here", "default of a body"], rows)


def missing_table(catalogue: Catalogue) -> str:
    """The features that are missing: their keys, the value that switches each off, and the reason."""
    missing = {
        reason: {key: code(values[0]) for key, values in keys.items() if key not in catalogue.params}
        for reason, keys in UNSUPPORTED.items()
    }
    rows = [
        [" ".join(f"`{key}`" for key in keys), " ".join(keys.values()), reason]
        for reason, keys in missing.items()
        if keys
    ]
    return table(["key", "off", "why others are refused"], rows)


def body_table() -> str:
    """What becomes of the keys of a body that are not parameters: those that are left to the server."""
    rows = [[topic, " ".join(f"`{key}`" for key in keys)] for topic, keys in LEFT_TO_THE_SERVER.items()]
    noticed = ", ".join(f"`{key}`" for key in sorted(NOTICED))
    return (
        table(["topic", "keys without an effect here"], rows)
        + "\n\nWhere one of them asks for something that a client would miss, the logger `engine_sampler` "
        f"says so, once for each key: {noticed}."
    )
