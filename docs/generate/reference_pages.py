"""What stands on which page of the API reference."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .signatures import constant

HOOKS = "engine_sampler.contract.hookspecs"
"""The one module here that nobody imports: plugins define its functions."""


def prefix(module: str) -> str:
    """What goes before the names of `module` in the reference: nothing, but for integrations and what they
    share, which have some names in common."""
    last = module.rpartition(".")[2]
    if module.startswith("engine_sampler_"):
        return module.removeprefix("engine_sampler_").partition(".")[0] + "."
    return f"{last}." if last == "for_bridges" else ""


@dataclass(frozen=True)
class Page:
    """A page of the reference.

    modules  the modules whose public names it lists; a name that several export is imported from the first.
    names    the names that it lists, in order; default: all that no other page lists.
    stable   whether its names are, but for those in `EXPERIMENTAL`.
    """

    file: str
    title: str
    about: str
    modules: tuple[str, ...]
    names: tuple[str, ...] = ()
    stable: bool = True


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PAGES = (
    Page(
        "scheduler",
        "Scheduler and its results",
        "What an engine holds: requests join, each step takes logits and returns a `StepResult`. "
        "[Embed it in an engine](../embed.md) shows them at work; [Parameters](../parameters.md) lists what "
        "`SamplingParams` takes.",
        ("engine_sampler", "engine_sampler.contract"),
        _words(
            "Scheduler StepResult BegunStep Record RequestError SamplingParams RequestLimits ParameterError "
            "Logprobs LOGPROBS_KINDS"
        ),
    ),
    Page(
        "stateless",
        "Without a scheduler",
        "For whoever has a loop of their own: functions for rows of logits, and `RowSampler` for an engine "
        "that keeps its requests itself.",
        ("engine_sampler", "engine_sampler.stateless"),
        _words(
            "RowSampler RowResult ResultTensors LogprobsTable sample Sampled process_logits logprobs "
            "apply_bitmask fill_bitmasks"
        ),
    ),
    Page(
        "tokenizer",
        "Tokenizers",
        "The bytes of tokens, from the tokenizer of any library.",
        ("engine_sampler", "engine_sampler.contract"),
        _words("Tokenizer Vocabulary"),
    ),
    Page(
        "session",
        "Sessions and traces",
        "A loop around an engine, and what each step of a chain does to a row.",
        ("engine_sampler.session", "engine_sampler.explain"),
        stable=False,
    ),
    Page(
        "grammar",
        "Grammars and matchers",
        "[Grammars by example](../grammars.md) shows them at work. Any object with the methods of `Matcher` "
        "may constrain a request.",
        ("engine_sampler", "engine_sampler.grammar", "engine_sampler.contract"),
        _words(
            "Grammar CompiledGrammar Capture GrammarCompiler GrammarSource GrammarError GrammarLimitError "
            "UnsupportedKeywordError Limits library_grammar library_names constraint_of fill_masks "
            "tool_calls TOOL_FAMILIES tool_of openapi_tools schema_of prepare CacheInfo cache_info "
            "clear_cache grammar_cache_info clear_grammar_cache Matcher BoundedMatcher Work spending "
            "is_bounded UnfinishedError "
            "allocate_bitmask bitmask_words checked_bitmask unpack_bitmask allows "
            "ConstraintReader Compiled ConstraintError AnswerParser StopRegexCriteria"
        ),
    ),
    Page(
        "messages",
        "Messages",
        "Answers of models, read as thoughts, content and calls while they grow. "
        "[Messages](../messages.md) shows them at work.",
        ("engine_sampler.messages",),
        stable=False,
    ),
    Page(
        "criteria",
        "Stopping criteria",
        "What a criterion subclasses or returns. "
        "[Write a plugin](../plugins.md#a-stopping-criterion) has examples.",
        ("engine_sampler.contract",),
        _words("StoppingCriteria StopVerdict TextCriteria TextMatcher TextMatch TextState Watch"),
    ),
    Page(
        "stopping",
        "Criteria that come with the package",
        "Each may be called with rows of ids, or given values of its own. "
        "[Ends and text](../criteria/index.md) has their parameters.",
        ("engine_sampler.stopping",),
    ),
    Page(
        "samplers",
        "Samplers and selectors",
        "What samplers and selectors subclass and are given. [Write a plugin](../plugins.md) has examples.",
        ("engine_sampler.contract",),
    ),
    Page(
        "hooks",
        "Hooks and observers",
        "What a plugin defines, each function marked with `hookimpl`, and what observers are told.",
        (HOOKS, "engine_sampler.contract"),
        _words(
            "register_samplers register_stopping_criteria register_backends register_grammars "
            "register_constraints register_observers hookimpl StepMeasures GrammarMeasures"
        ),
    ),
    Page(
        "backends",
        "Backends",
        "The contract of what runs chains. [Backends and configuration](../backends.md) says which one runs.",
        ("engine_sampler", "engine_sampler.contract", "engine_sampler.for_backends"),
        _words(
            "Backend LibraryBackend BackendError Batch Group LogprobsRequest PreparedMasks SlotTable "
            "SlotEntry LookAhead flags_like token_rows"
        ),
    ),
    Page(
        "for_backends",
        "For backends",
        "What a backend in a plugin is built from.",
        ("engine_sampler.for_backends",),
        stable=False,
    ),
    Page(
        "for_bridges",
        "For bridges",
        "What a package shares with others that puts this library into an engine.",
        ("engine_sampler.for_bridges",),
        stable=False,
    ),
    Page(
        "arithmetic",
        "Arithmetic",
        "What samplers compute with. [Exactness](../exactness.md#the-contract) has the formulas.",
        ("engine_sampler.arithmetic",),
    ),
    Page(
        "integrations",
        "Integrations",
        "Other systems' interfaces, each a distribution of its own. "
        "[Coming from another system](../coming-from/index.md) shows them at work.",
        (
            "engine_sampler_llama_cpp",
            "engine_sampler_koboldai",
            "engine_sampler_transformers",
            "engine_sampler_vllm.logits_processor",
            "engine_sampler_mlx",
            "engine_sampler_lmdeploy",
            "engine_sampler_outlines",
            "engine_sampler_mindie",
            "engine_sampler_mindie.atb",
        ),
        stable=False,
    ),
    Page(
        "testing",
        "Contract kits",
        "The laws that plugins are tested by. [Write a plugin](../plugins.md#3-prove-it) shows one.",
        ("engine_sampler.testing",),
    ),
)
"""The pages in the order of the site."""

EXPERIMENTAL = frozenset(
    _words(
        "AnswerParser Capture Compiled ConstraintError ConstraintReader DeferredBackend LookAhead OnStream "
        "register_constraints TOOL_FAMILIES openapi_tools tool_calls tool_of"
    )
)
"""The names that may change although the rest of their page is stable."""

PUBLIC = tuple(dict.fromkeys(module for page in PAGES for module in page.modules))
"""The modules whose public names are in the reference."""


@dataclass(frozen=True)
class Entry:
    """A public name, and the module that it is imported from."""

    module: str
    name: str
    stable: bool = True

    @property
    def label(self) -> str:
        """What the reference calls it: its name, in an integration after that of the integration."""
        return prefix(self.module) + self.name

    @property
    def value(self) -> Any:
        """The object itself."""
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def is_constant(self) -> bool:
        """Whether it is neither a function nor a class; some of these are another's name."""
        is_class = inspect.isclass(self.value) and self.value.__name__ == self.name
        return not (is_class or inspect.isfunction(inspect.unwrap(self.value)))

    @cached_property
    def written(self) -> tuple[str, str]:
        """The value of a constant as its source has it, and its docstring."""
        return constant(importlib.import_module(self.module), self.name)

    @property
    def doc(self) -> str:
        """Its docstring."""
        return self.written[1] if self.is_constant else self.value.__doc__ or ""


def public_names(module: str) -> Sequence[str]:
    """What a module exports: its `__all__`, else the public classes and functions that it defines."""
    loaded = importlib.import_module(module)
    if (listed := getattr(loaded, "__all__", None)) is not None:
        return tuple(sorted(listed, key=str.lower))
    own = (name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module)
    return tuple(name for name in own if not name.startswith("_"))


def contents() -> Mapping[str, Sequence[Entry]]:
    """The entries of each page by its file, in order."""
    listed = {name for page in PAGES for name in page.names}
    pages: dict[str, Sequence[Entry]] = {}
    seen: set[str] = set()
    for page in PAGES:
        exported: dict[str, Entry] = {}
        for module, name in ((path, name) for path in page.modules for name in public_names(path)):
            entry = Entry(module, name, page.stable and name not in EXPERIMENTAL)
            exported.setdefault(entry.label, entry)
        wanted = page.names or tuple(label for label in exported if label not in listed | seen)
        seen.update(wanted)
        pages[page.file] = [exported[label] for label in wanted]
    return pages
