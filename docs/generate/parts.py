"""The page of a sampler, selector or stopping criterion, and the lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine_sampler.contract import Example, Sampler, Selector, StoppingCriteria, TextCriteria, Truncation
from engine_sampler.params.orders import NAMED, full_order
from engine_sampler.registry import Catalogue

from .docstrings import body, inline, summary
from .pictures.scenes import Scene, scene_of
from .pictures.timelines import story_of
from .tables import code, keywords, kind_of, range_of, source, table

Part = Sampler | Selector | StoppingCriteria

GROUPS = {
    "masks": "Masks and biases",
    "penalties": "Repetition",
    "truncations": "Truncation",
    "shape": "Shape",
    "selectors": "Selection",
}
"""The groups of samplers and selectors, in the order of a chain."""

INTRODUCTIONS = {
    "masks": "Edits come first, whatever the `order`, after the mask of a grammar.",
    "penalties": "Penalties read the history of the request.",
    "truncations": "A truncation removes tokens and keeps at least one.",
    "shape": "These change the probabilities of the tokens that are left.",
    "selectors": "The last step of a chain chooses the token: `greedy` at temperature 0, a selector that the "
    "parameters ask for, otherwise `dist`.",
}


def group_of(part: Sampler | Selector) -> str:
    """The key of its group in `GROUPS`."""
    if isinstance(part, Selector):
        return "selectors"
    if part.role != "warp":
        return "masks" if part.role == "edit" else "penalties"
    return "truncations" if isinstance(part, Truncation) or part.name == "infill" else "shape"


def in_chain_order(catalogue: Catalogue) -> list[Sampler | Selector]:
    """All samplers in the order of a chain under the default order, then the selectors."""
    stand_ins = {s.instead_of: s.name for s in catalogue.samplers.values()}
    order = []
    for name in full_order("llama.cpp", catalogue.samplers):
        order += [name, stand_ins[name]] if name in stand_ins else [name]
    edits = sorted(name for name, sampler in catalogue.samplers.items() if sampler.role == "edit")
    parts = [catalogue.samplers[name] for name in (*edits, *order)]
    groups = list(GROUPS)
    return sorted([*parts, *catalogue.selectors.values()], key=lambda part: groups.index(group_of(part)))


def by_group(catalogue: Catalogue) -> Mapping[str, Sequence[Sampler | Selector]]:
    """The samplers and selectors of each group, by its key in `GROUPS`."""
    members = in_chain_order(catalogue)
    return {group: [part for part in members if group_of(part) == group] for group in GROUPS}


# --- pages ---------------------------------------------------------------------------------------


def sampler_page(part: Sampler | Selector, catalogue: Catalogue) -> str:
    """The page of a sampler or selector."""
    scene = scene_of(part)
    sections = [
        *_head(part, f"What {part.name} does to a peaked and to a flat distribution"),
        _caption(part, scene),
        _use(f"sample(logits, SamplingParams({keywords(scene.settings[0])}), tokenizer=tokenizer)"),
        *_parameters(part.params),
        *_examples(part.examples),
        "## Definition",
        _linked(body(type(part)) or summary(type(part))),
        *_bases(type(part)),
        *_place(part, catalogue),
    ]
    return _page(sections)


def criterion_page(part: StoppingCriteria) -> str:
    """The page of a stopping criterion."""
    settings = keywords(story_of(part).params)
    told, also = f"up to the end that {part.name} gives it", ""
    if isinstance(part, TextCriteria) and part.takes_back:
        told, also = f"of which {part.name} takes some back", ", nor for those that are taken back"
    sections = [
        *_head(part, f"The tokens of a request {told}"),
        f"Below each token is the text that it let stream, – for none{also}. "
        "What would have followed is dashed.",
        _use(f"scheduler.add(SamplingParams({settings}), prompt_token_ids)", "Scheduler"),
        *_parameters(part.params),
        "## Definition",
        body(type(part)) or summary(type(part)),
    ]
    return _page(sections)


def sampler_list(catalogue: Catalogue) -> str:
    """Tables of all samplers and selectors, by group."""
    sections = []
    for group, members in by_group(catalogue).items():
        sections += [f"## {GROUPS[group]}", INTRODUCTIONS[group], _list(members)]
    return "\n\n".join(sections)


def criterion_list(catalogue: Catalogue) -> str:
    """The table of all stopping criteria."""
    return _list(catalogue.stopping_criteria.values())


def _list(parts: Iterable[Part]) -> str:
    return table(
        ["name", "what it does"],
        ([f"[`{part.name}`]({part.name}.md)", summary(type(part))] for part in parts),
    )


# --- sections ------------------------------------------------------------------------------------


def _head(part: Part, alternative: str) -> list[str]:
    picture = f"![{alternative}](../pictures/{part.name}.svg)"
    if not isinstance(part, StoppingCriteria):
        picture = (
            f'<picture><source media="(max-width: 45em)" srcset="../pictures/narrow/{part.name}.svg">'
            f'<img alt="{alternative}" src="../pictures/{part.name}.svg"></picture>'
        )
    return [f"# {part.name}", summary(type(part)), picture]


def _caption(part: Sampler | Selector, scene: Scene) -> str:
    named = {name for settings in scene.settings for name in settings}
    if isinstance(part, Selector):
        return "100 requests drew 40 words each."
    return "Token ids count the words from 0." if {"allowed_token_ids", "logit_bias"} & named else ""


def _use(call: str, name: str = "sample") -> str:
    lines = [f"from engine_sampler import SamplingParams, {name}", ""]
    if name == "Scheduler":
        lines.append("scheduler = Scheduler(vocab_size, tokenizer)")
    return "\n".join(["```python", *lines, call, "```"])


def _linked(text: str) -> str:
    return text.replace("`arithmetic`", "[`arithmetic`](../exactness.md#the-contract)")


def _bases(cls: type) -> Iterator[str]:
    """The documented classes between it and the contract."""
    for base in cls.__mro__[1:]:
        if base.__module__.startswith("engine_sampler.samplers."):
            yield f"### `{base.__name__}`"
            yield summary(base)
            yield body(base)


def _parameters(params: Iterable[Any]) -> Iterator[str]:
    rows = [[f"`{p.name}`", kind_of(p), code(p.neutral), range_of(p), inline(p.doc)] for p in params]
    if rows:
        yield "## Parameters"
        yield table(["name", "type", "neutral", "allowed", "meaning"], rows)


def _examples(examples: Iterable[Example]) -> Iterator[str]:
    rows = [[_row(e.logits), _given(e), _context(e), _result(e), inline(e.note)] for e in examples]
    if rows:
        yield "## Examples"
        yield "The tests run them. “–” is a removed token, −∞."
        yield table(["logits", "parameters", "history", "result", ""], rows)


def _row(logits: Iterable[float]) -> str:
    return " ".join("–" if x == float("-inf") else source(float(x)).replace("-", "−") for x in logits)


def _given(example: Example) -> str:
    return f"`{keywords(example.params)}`" if example.params else ""


def _result(example: Example) -> str:
    return f"token {example.token}" if example.expect is None else _row(example.expect)


def _context(example: Example) -> str:
    parts = (
        ("tokens", [token.decode() for token in example.token_bytes]),
        ("prompt", example.prompt_token_ids),
        ("output", example.output_token_ids),
        ("EOS", example.eos_token_ids),
    )
    return ", ".join(f"{name} {' '.join(map(str, values))}" for name, values in parts if values)


def _place(part: Sampler | Selector, catalogue: Catalogue) -> Iterator[str]:
    """Where it stands in each named order."""
    if isinstance(part, Selector) or part.role == "edit":
        return
    yield "## Place"
    if part.instead_of is not None:
        yield f"That of {_link(part.instead_of)}, in its stead; an `order` names that one."
        return
    rows = []
    for name in NAMED:
        order = full_order(name, catalogue.samplers)
        at = order.index(part.name)
        before, after = order[at - 1] if at else "", order[at + 1] if at + 1 < len(order) else ""
        rows.append([f"`{name}`", _link(before) if before else "first", _link(after) if after else "last"])
    yield table(["order", "after", "before"], rows)


def _link(name: str) -> str:
    return f"[`{name}`]({name}.md)"


def _page(sections: Iterable[str]) -> str:
    return "\n\n".join(section for section in sections if section) + "\n"
