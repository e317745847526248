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
    names    the names that it lists, in order; "*" or none: all that no other page lists.
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


def _packaged(system: str) -> str:
    """What the page of an integration is about."""
    return f"[Coming from another system](../coming-from/{system}.md) shows it at work."


_CORE = ("engine_sampler", "engine_sampler.contract")
_GRAMMAR = ("engine_sampler", "engine_sampler.grammar", "engine_sampler.contract")
_CONTRACT = ("engine_sampler.contract",)
_BRIDGES = ("engine_sampler.for_bridges",)
_TESTING = ("engine_sampler.testing",)
_MINDIE = ("engine_sampler_mindie",)

GROUPS: Mapping[str, Sequence[Page]] = {
    "Sampling": (
        Page(
            "scheduler",
            "Scheduler",
            "What an engine holds. Requests join it, and each step takes logits and returns a `StepResult`. "
            "[Embed it in an engine](../embed.md) shows it at work.",
            _CORE,
            _words("Scheduler"),
        ),
        Page(
            "results",
            "Results of a step",
            "What a step says of each request, and what is left of one that has ended.",
            _CORE,
            _words("StepResult BegunStep Record RequestError"),
        ),
        Page(
            "logprobs",
            "Logprobs and masks",
            "How likely tokens were, and which ones a token was drawn from. [Replay for "
            "training](../replay.md) shows what the masks are for.",
            _CORE,
            _words("Logprobs LOGPROBS_KINDS GivenLogprobs SamplingMask PromptScores"),
        ),
        Page(
            "params",
            "Parameters and limits",
            "What a request asks for. [Parameters](../parameters.md) lists what `SamplingParams` takes.",
            _CORE,
            _words("SamplingParams RequestLimits ParameterError"),
        ),
        Page(
            "stateless",
            "Without a scheduler",
            "Functions for rows of logits, for whoever has a loop already. `RowSampler` is for an engine "
            "that keeps its requests itself.",
            ("engine_sampler", "engine_sampler.stateless"),
            _words(
                "RowSampler RowResult ResultTensors LogprobsTable sample Sampled process_logits logprobs "
                "apply_bitmask fill_bitmasks *"
            ),
        ),
        Page(
            "tokenizer",
            "Tokenizers",
            "The bytes of tokens, from the tokenizer of any library.",
            _CORE,
            _words("Tokenizer Vocabulary"),
        ),
        Page(
            "session",
            "Sessions and traces",
            "A loop around an engine, and what each step of a chain does to a row.",
            ("engine_sampler.session", "engine_sampler.explain"),
            stable=False,
        ),
    ),
    "Grammars and messages": (
        Page(
            "grammar",
            "Grammars",
            "A grammar, and the errors that refuse one. [Grammars by example](../grammars.md) shows them at "
            "work.",
            _GRAMMAR,
            _words(
                "Grammar GrammarError GrammarLimitError UnsupportedKeywordError library_grammar library_names"
            ),
        ),
        Page(
            "compiling",
            "Compiled grammars",
            "What a grammar is compiled to, in which process, within which limits, and what is cached.",
            _GRAMMAR[:2],
            _words(
                "CompiledGrammar Capture GrammarCompiler GrammarSource Limits constraint_of fill_masks "
                "prepare CacheInfo cache_info clear_cache grammar_cache_info clear_grammar_cache "
                "StopRegexCriteria"
            ),
        ),
        Page(
            "tools",
            "Tools and schemas",
            "Grammars of tool calls, and JSON Schemas of Python functions and types. "
            "[Tool calls](../grammars/tool-calls.md) has examples.",
            _GRAMMAR[1:2],
            _words("tool_calls TOOL_FAMILIES tool_of openapi_tools schema_of *"),
        ),
        Page(
            "matchers",
            "Matchers and constraints",
            "Any object with the methods of `Matcher` may constrain a request. A `ConstraintReader` makes "
            "one from a parameter.",
            (*_CORE, "engine_sampler.grammar"),
            _words(
                "Matcher BoundedMatcher Work spending is_bounded UnfinishedError allocate_bitmask "
                "bitmask_words checked_bitmask unpack_bitmask allows ConstraintReader Compiled "
                "ConstraintError AnswerParser"
            ),
        ),
        Page(
            "messages",
            "Messages",
            "Answers of models, read as thoughts, content and calls while they grow. "
            "[Messages](../messages.md) shows them at work.",
            ("engine_sampler.messages",),
            _words("MessageParser MessagePart Event ValueReader MalformedCallError"),
            stable=False,
        ),
        Page(
            "replies",
            "Chat formats and replies",
            "The format of a model's answers, and what a server sends of them to its clients.",
            ("engine_sampler.messages",),
            _words("ChatFormat family_of *"),
            stable=False,
        ),
    ),
    "Plugins": (
        Page(
            "samplers",
            "Samplers and selectors",
            "What samplers and selectors subclass and are given. "
            "[Write a plugin](../plugins.md) has examples.",
            _CONTRACT,
            _words("Sampler Selector Truncation Selection Stateful Example Rows"),
        ),
        Page(
            "criteria",
            "Stopping criteria",
            "What a criterion subclasses or returns. "
            "[A stopping criterion](../plugins/criteria.md) has examples.",
            _CONTRACT,
            _words("StoppingCriteria StopVerdict TextCriteria TextMatcher TextMatch TextState Watch"),
        ),
        Page(
            "stopping",
            "Built-in criteria",
            "Each may be called with rows of ids, or given values of its own. "
            "[Ends and text](../criteria/index.md) has their parameters.",
            ("engine_sampler.stopping",),
        ),
        Page(
            "contract",
            "Declared parameters and chains",
            "How a plugin declares parameters, and what a chain is made of.",
            _CONTRACT,
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
            "testing",
            "Kits for plugins",
            "The laws of samplers, selectors, criteria and observers. "
            "[Prove it](../plugins.md#3-prove-it) runs one.",
            _TESTING,
            _words(
                "Contract SamplerContract SelectorContract StoppingContract ObserverContract failing_laws "
                "registered KINDS"
            ),
        ),
        Page(
            "testing_engines",
            "Kits for backends and grammars",
            "The laws of backends, libraries in C, grammars and matchers.",
            _TESTING,
            _words("BackendContract LibraryContract GrammarContract MatcherContract"),
        ),
        Page(
            "testing_cases",
            "Cases for tests",
            "Rows, requests and chains that the kits draw, for tests of your own.",
            _TESTING,
        ),
        Page(
            "arithmetic",
            "Arithmetic",
            "What samplers compute with. [Exactness](../exactness.md#the-contract) has the formulas.",
            ("engine_sampler.arithmetic",),
        ),
        Page(
            "draws",
            "Weights and draws",
            "Integer weights of tokens, and random numbers that follow from seed and position.",
            ("engine_sampler.arithmetic",),
            _words(
                "weights distances weight_of_share ONE_WEIGHT WEIGHT_TERMS settle mass_within mass_reaching "
                "MASS_SLACK log2_mass information entropy_bits keep_heavy pick_by_weight draw64 scale_draw "
                "coin philox4x32 child_seed stream_of SELECTOR_STREAM DrawsAhead"
            ),
        ),
    ),
    "Backends and bridges": (
        Page(
            "backends",
            "Backends",
            "The contract of what runs chains. [Backends](../backends.md) says which one runs.",
            ("engine_sampler", "engine_sampler.contract", "engine_sampler.for_backends"),
            _words("Backend LibraryBackend BackendError"),
        ),
        Page(
            "batches",
            "Batches of a backend",
            "What a backend is given in a step.",
            ("engine_sampler", "engine_sampler.contract", "engine_sampler.for_backends"),
            _words(
                "Batch Group LogprobsRequest PreparedMasks SlotTable SlotEntry LookAhead flags_like "
                "token_rows"
            ),
        ),
        Page(
            "for_backends",
            "For backends: requests",
            "How a backend in a plugin takes requests and hands back results.",
            ("engine_sampler.for_backends",),
            stable=False,
        ),
        Page(
            "for_chains",
            "For backends: chains",
            "What the kernels of a backend need of each sampler.",
            ("engine_sampler.for_backends",),
            _words(
                "ADAPTIVE_PEAK ADAPTIVE_SHARPNESS ADAPTIVE_WIDTH MAX_TEMPERATURE MIROSTAT_HEAD "
                "MIROSTAT_STEP_SQUARES MIROSTAT_STEPS SIGMA_CHUNK corrected_adaptive_target current_mu "
                "dry_penalties favoured_ids highest_temperature ids_completing_bad_words "
                "ids_completing_ngrams is_below_min_tokens is_temperature_dynamic is_temperature_greedy "
                "lowest_temperature min_p_depth occurrence_shift PenaltyWindows repetition_factors "
                "smoothing_cube smoothing_square temperature_scale"
            ),
            stable=False,
        ),
        Page(
            "for_bridges",
            "For bridges: engines",
            "What packages share that put this library into an engine that runs already: rows, drafts, "
            "tensors, and what takes the place of an engine's parts.",
            _BRIDGES,
            _words(
                "BridgeSampler EngineRequest follow_slots follow_update processed_by tokens_beside "
                "tokens_in_slots within ngram_draft tokens_of_drafts Session PeerPlaces PeerError overriding "
                "dtype_name library_of like rows_of_nan to_numpy unmoved why_unreadable packed "
                "named_backend"
            ),
            stable=False,
        ),
        Page(
            "for_grammars",
            "For bridges: grammars and tools",
            "Grammars, schemas and tools as other systems' requests have them.",
            _BRIDGES,
            _words(
                "GrammarText fill_texts structured_grammar constraint_of matcher_of response_format "
                "from_gbnf GRAMMAR_OPTIONS STRUCTURED_PARAMS takes_grammar take_lazy_grammar LAZY_KEYS "
                "tool_calls call_list chosen_functions Function take_tools take_thinking MARKS Reasoning"
            ),
            stable=False,
        ),
        Page(
            "for_bodies",
            "For bridges: requests",
            "The keys of other systems' requests with what becomes of each, and checked arguments.",
            _BRIDGES,
            stable=False,
        ),
    ),
    "Integrations": (
        Page(
            "llama_cpp",
            "llama.cpp: the package",
            _packaged("llama.cpp"),
            ("engine_sampler_llama_cpp",),
            stable=False,
        ),
        Page(
            "llama_cpp_requests",
            "llama.cpp: requests and rows",
            _packaged("llama.cpp"),
            ("engine_sampler_llama_cpp",),
            _words("from_request Candidates candidates"),
            stable=False,
        ),
        Page(
            "koboldai",
            "KoboldAI: the package",
            _packaged("koboldai"),
            ("engine_sampler_koboldai",),
            stable=False,
        ),
        Page(
            "transformers",
            "transformers: the package",
            _packaged("transformers"),
            ("engine_sampler_transformers",),
            stable=False,
        ),
        Page(
            "vllm",
            "vLLM: the package",
            _packaged("vllm"),
            ("engine_sampler_vllm.logits_processor",),
            stable=False,
        ),
        Page("mlx", "MLX: the package", _packaged("mlx"), ("engine_sampler_mlx",), stable=False),
        Page(
            "lmdeploy",
            "LMDeploy: the package",
            _packaged("lmdeploy"),
            ("engine_sampler_lmdeploy",),
            stable=False,
        ),
        Page(
            "outlines",
            "outlines: the package",
            _packaged("outlines"),
            ("engine_sampler_outlines",),
            stable=False,
        ),
        Page("mindie", "MindIE: the package", _packaged("mindie"), _MINDIE, stable=False),
        Page(
            "mindie_data",
            "MindIE: inputs and outputs",
            _packaged("mindie"),
            _MINDIE,
            _words("SamplingData SamplingMetadata SamplingOutput SamplingParam"),
            stable=False,
        ),
        Page("atb", "ATB: the package", _packaged("atb"), ("engine_sampler_mindie.atb",), stable=False),
    ),
}
"""The pages by the headings of the site's navigation, in its order. A new public name appears on the page of
its module that names none, or "*"."""

PAGES = tuple(page for pages in GROUPS.values() for page in pages)
"""All pages."""

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
    exported = {page.file: _exported(page) for page in PAGES}
    named = {page.file: [_label(page, name) for name in page.names if name != "*"] for page in PAGES}
    seen = {label for labels in named.values() for label in labels}
    pages: dict[str, Sequence[Entry]] = {}
    for page in PAGES:
        labels = named[page.file]
        if not page.names or "*" in page.names:
            labels = [*labels, *(label for label in exported[page.file] if label not in seen)]
            seen.update(labels)
        pages[page.file] = [exported[page.file][label] for label in labels]
    return pages


def _exported(page: Page) -> Mapping[str, Entry]:
    """What the modules of a page export, by its label."""
    exported: dict[str, Entry] = {}
    for module, name in ((path, name) for path in page.modules for name in public_names(path)):
        entry = Entry(module, name, page.stable and name not in EXPERIMENTAL)
        exported.setdefault(entry.label, entry)
    return exported


def _label(page: Page, name: str) -> str:
    """The label of a name that a page lists."""
    return next(prefix(module) + name for module in page.modules if name in public_names(module))
