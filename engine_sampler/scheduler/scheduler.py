"""`Scheduler`: the object an engine holds. Logits of all live requests in, their tokens out."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic import LogitRows
from ..backends.choose import named_backend
from ..base.arguments import integers_of
from ..base.errors import check_hashable, quoted
from ..contract import AnswerParser, Backend, Vocabulary
from ..params import RequestLimits, SamplingParams, limits_of
from ..registry import CORE_PARAMS, constraint_reader, default_registry, structured_in
from ..requests.answers import check_parser
from ..requests.ending import RequestError
from ..requests.results import BegunStep, Record, RequestId, StepResult
from ..requests.slots import Slots
from ..tokenizer import Tokenizer, check_tokenizer
from .arguments import POSITION, all_drafts_in, check_at_least_one, chosen_tokens_in, scheduler_name
from .beam_groups import check_beam_rows
from .drafting import _Drafting
from .logprobs.prompts import _ScoresPrompts
from .membership.joining import Newcomers, check_single, checked_count, matcher_for
from .membership.live_requests import LiveRequests
from .membership.siblings import ranked
from .membership.waiting import WaitingRequests
from .moving import _Movable
from .report import GroupReport
from .row_plans import BeamPlan, DraftPlan, RowPlan
from .runner import BegunRun, StepRunner


class Scheduler(_Drafting, _Movable, _ScoresPrompts):
    """Samples for many requests at once; requests join and leave between any two steps.

    vocab_size      tokens; logits may be wider (padded heads).
    tokenizer       for text, also in parameters.
    eos_token_ids   default: the tokenizer's.
    max_model_len   prompt and output together; reaching it ends a request with `length`.
    backend         "auto", a registered name, or a `Backend`.
    num_threads     for backends that use threads (`native` uses one by default).
    limits          how much one request may ask for; default: `RequestLimits()`.
    grammar_limits  what grammars that requests bring as text may need; default: `grammar.Limits()`.
    grammar_engine  the name of the `ConstraintReader` that reads them; default:
                    `ENGINE_SAMPLER_GRAMMAR_ENGINE`, or this package's own.
    grammar_compiler  a `grammar.GrammarCompiler`, which compiles them in the background: until then, their
                    requests are among `waiting_ids`. By default, `add` compiles them.
    on_ready        called, usually on a thread of the compiler, when a waiting request can start.
    postpone        whether a step leaves out requests whose grammar or samplers need more work than it may
                    do: their rows give no token. False: steps take what they need.
    keep_faulty     whether requests go on whose rows are faulty (NaN, +inf, nothing left), but for beams.
    name            its name for observers, 1 to 100 characters; default: a number.

    `add`, `add_group`, `accept` and `remove` may be called from any thread, and by plugins: they take effect
    at once, or after the running step. Other methods that change or run requests belong to one thread: called
    during a step, by another thread or by a plugin, they raise RuntimeError and change nothing.

    An exception from outside (a signal handler, `sys.exit` in a plugin, scarce memory) may interrupt any
    call. A `step`, `add`, `add_group`, `accept`, `fork`, `prepare` or `process` that raises has changed
    nothing, and can be repeated: a step with the same logits gives the same tokens. A `remove`, `rollback` or
    `suspend` that had begun is completed, `resume` is undone; `record` and `request_ids` tell which. An
    interruption after the last change finds the work done: `last_result` is then a new one. A request ends
    with `error` there if its sampler or criterion runs out of memory, another part of it does twice, or its
    grammar is an object of your own that was interrupted in a change.

    In the child of `os.fork` a scheduler goes on, unless another thread was inside one of its methods: then
    they raise RuntimeError. Compiled grammars may be used there, and tokenizers, unless
    a thread was using one for the first time.
    """

    def __init__(
        self,
        vocab_size: int,
        tokenizer: Tokenizer | None = None,
        *,
        eos_token_ids: Sequence[int] = (),
        max_model_len: int | None = None,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
        limits: RequestLimits | None = None,
        grammar_limits: Any = None,
        grammar_engine: str | None = None,
        grammar_compiler: Any = None,
        on_ready: Callable[[], Any] | None = None,
        postpone: bool = True,
        keep_faulty: bool = False,
        name: str | None = None,
    ) -> None:
        check_at_least_one(vocab_size=vocab_size, max_model_len=max_model_len, num_threads=num_threads)
        check_tokenizer(tokenizer)
        self.name = scheduler_name(name)
        default_eos = () if tokenizer is None else tokenizer.eos_token_ids
        eos = tuple(integers_of("eos_token_ids", eos_token_ids)) or default_eos
        if grammar_limits is not None or grammar_engine is not None:
            constraint_reader(grammar_engine).check_limits(grammar_limits)
        self.vocabulary = Vocabulary(vocab_size, eos, tokenizer, grammar_limits, grammar_engine, self.name)
        self.vocabulary.check_ids("eos_token_ids", eos)
        self.max_model_len = max_model_len
        self.num_threads = num_threads
        self.limits = limits_of(limits)
        registry = default_registry()
        slots = Slots(self.vocabulary, registry.catalogue.params, num_threads=num_threads)
        self._requests = LiveRequests(slots, registry)
        self._step_lock = self._requests.step_lock
        self._runner = StepRunner(self._requests, named_backend(backend), postpone, keep_faulty)
        self._waiting = WaitingRequests(self._requests, self.vocabulary)
        self._compiler, self._on_ready = grammar_compiler, on_ready
        if grammar_compiler is not None:
            constraint_reader(grammar_engine).prepare(self.vocabulary)
            if tokenizer is not None:
                tokenizer.prepare()

    @property
    def backend(self) -> Backend | None:
        """The backend in use; None until the first step has chosen one."""
        return self._runner.backend

    @property
    def last_result(self) -> StepResult | None:
        """The result of the last step that was done; None before the first. A step that is interrupted
        too late to return leaves its result here."""
        self._step_lock.settle()
        return self._requests.keeping.last_result

    # --- requests --------------------------------------------------------------------------------

    @property
    def request_ids(self) -> list[RequestId]:
        """The live requests in the order in which they started. Waiting ones can start only here."""
        self._step_lock.settle()
        with self._step_lock.lock:
            self._waiting.start_ready()
            return list(self._requests.live)

    @property
    def waiting_ids(self) -> list[RequestId]:
        """The requests whose grammars the `grammar_compiler` compiles, in order of arrival. The next reading
        of `request_ids` after that includes them, and their `max_time` begins."""
        return self._waiting.ids

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds until a waiting request can start; False if none can."""
        return self._waiting.wait(timeout)

    def add(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_id: RequestId | None = None,
        output_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        position: int | None = None,
        client: Hashable = None,
        parser: AnswerParser | None = None,
    ) -> RequestId:
        """Add a request; returns its id (`request_id`, or a new integer).

        output_token_ids  output that it already has: it continues as if these tokens had been drawn here.
                          But selectors that learn from their draws (mirostat, adaptive_p) start from
                          scratch, and these tokens have no logprobs: `suspend` and `resume` keep both.
        grammar           a compiled grammar, any object with a matcher's methods
                          (`engine_sampler.grammar.Matcher`), Lark text, or the name of a grammar. Text and
                          a `Grammar` are compiled first, which may take long: a
                          `grammar_compiler` does it in the background.
        stopping_criteria  further criteria: `StoppingCriteria`, or functions and objects that are called as
                          transformers' are, `(input_ids, scores) -> bool [rows]`. These are called after
                          each token, with prompt and output as one row and without scores.
        position          the index of its next token; default: the length of its history.
        client            whose request it is, see `GrammarCompiler.submit`: clients take turns where grammars
                          are compiled.
        parser            what reads the answer: `StepResult.deltas` says what it has read. It follows the
                          request through drafts, `accept`, `rollback` and `fork`.

        Raises `ParameterError` or `RequestError` before anything changes, also for parameters beyond the
        `limits`, and RuntimeError if the `grammar_compiler` is closed.
        """
        check_single(params, checked_count(self, params, grammar))
        position = POSITION.check(position)
        check_parser(parser)
        ids = [self._requests.free_id(request_id)]
        tokens = prompt_token_ids, output_token_ids
        newcomers = Newcomers.of(
            self, ids, params, tokens, stopping_criteria, position=position, parser=parser, grammar=grammar
        )
        self._admit(newcomers, grammar, client)
        return ids[0]

    def add_group(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_ids: Sequence[RequestId] | None = None,
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        client: Hashable = None,
        parser: AnswerParser | None = None,
    ) -> list[RequestId]:
        """Add `best_of` (default `n`) siblings of one prompt; returns their ids. `parser` and copies of it
        read their answers, as in `add`; `Record.parser` is each one's.

        Sibling 0 has the request's seed, sibling i its Philox child. The engine may give the same
        row of logits for all of them in the first step. `best` ranks them when they are done.

        With `use_beam_search` the siblings are the `beam_width` (default `best_of`, or `n`) texts of one
        search. All their rows belong in the same step; `StepResult.parent_ids` names for each row the request
        whose cache it continues. They end together, the best text under the first id; until then they have no
        text.
        """
        count = checked_count(self, params, grammar)
        check_parser(parser, is_search=params["use_beam_search"])
        if request_ids is None:
            request_ids = [self._requests.free_id(None) for _ in range(count)]
        if len(request_ids) != count or len(set(request_ids)) != count:
            raise RequestError(
                f"request_ids={quoted(list(request_ids))} is not allowed: {count} different ids"
            )
        ids, tokens = list(request_ids), (prompt_token_ids, ())
        newcomers = Newcomers.of(
            self, ids, params, tokens, stopping_criteria, is_group=True, parser=parser, grammar=grammar
        )
        self._admit(newcomers, grammar, client)
        return ids

    def best(self, request_ids: Sequence[RequestId]) -> list[RequestId]:
        """The `n` best of a group's siblings by cumulative logprob, those of a beam search by its score,
        the best first; ties keep their order.

        Siblings that ended with `error` come last. Raises `RequestError` if the logprobs of only some of the
        others are known.
        """
        requests = [self._requests.find(r) for r in request_ids]
        return [r.id for r in ranked(requests)[: requests[0].params.n]]

    def accept(self, request_id: RequestId, token_ids: Sequence[int], logprobs: Sequence[float] = ()) -> None:
        """Add tokens chosen elsewhere (jump-forward, another sampler); they may end the request.

        logprobs  the logprob of each token, for criteria that use it (`assistant_confidence_threshold`);
                  default: 0 for each.

        Tokens after the one that ends it are dropped. Selector state that follows drawn tokens (mirostat's)
        does not move. What needs more of the grammar's work than one step may do joins with the next steps.
        """
        tokens, known = chosen_tokens_in(token_ids, logprobs, self.vocabulary)
        with self._step_lock.lock:
            request = self._requests.find_single(request_id)
            self._step_lock.when_idle(lambda: self._runner.accepting.accept(request, tokens, known))

    def remove(self, request_id: RequestId) -> Record:
        """Forget a request; a live one ends with `abort`. Returns its record.

        During a step, the record shows how far that step has come. A waiting request's grammar
        is only compiled if others wait for it or compiling has begun.
        """
        with self._step_lock.lock:
            record = self._requests.remove(request_id)
            self._waiting.drop_removed()
        return record

    def record(self, request_id: RequestId) -> Record:
        """Everything known about a request, live or finished."""
        return self._requests.find(request_id).record()

    def fork(
        self, request_id: RequestId, *, new_request_id: RequestId | None = None, seed: int | None = None
    ) -> RequestId:
        """A copy of a live request that continues on its own; without `seed` it keeps the seed."""
        seed = CORE_PARAMS["seed"].check(seed)
        with self._step_lock.lock:
            with self._step_lock:
                parent = self._requests.find_single(request_id)
                child = parent.fork(self._requests.free_id(new_request_id), seed)
                child.position = int(self._requests.slots.positions[parent.slot])
            self._requests.add([child])
            return child.id

    def rollback(self, request_id: RequestId, n: int) -> None:
        """Undo the last n output tokens of a live request, in every part of its state.

        A part that cannot be rolled back ends its request with `error`.
        """
        with self._step_lock.lock, self._step_lock:
            request = self._requests.find_single(request_id)
            have = len(request.history.output_token_ids) + len(request.backlog)
            if not 0 <= n <= have:
                raise RequestError(
                    f"n={n} is not allowed: request {quoted(request_id)} has {have} output tokens"
                )
            self._requests.roll_back(request, n)

    # --- steps -----------------------------------------------------------------------------------

    def prepare(self, request_ids: Sequence[RequestId] | None = None) -> None:
        """Fill grammar masks for the next step, and let samplers prepare, while the forward pass runs: with
        more work than a step."""
        with self._step_lock:
            self._runner.accepting.go_on()
            self._runner.fill_masks(self._requests.plan(request_ids).inputs)

    def forced_tokens(self, request_id: RequestId) -> list[int]:
        """The tokens about which the request's grammar, or its phase, leaves no choice; [] if none.

        An engine may run them through the model in one pass and hand them to `accept` (jump-forward). A
        grammar that fails ends its request with the next step.
        """
        with self._step_lock.lock, self._step_lock:
            request = self._requests.find_live(request_id)
            self._requests.keeping.keep([request], np.array([request.slot]))
            return request.forced_tokens() if request.live else []

    def step(
        self,
        logits: Any,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Sequence[Sequence[int]] | Mapping[RequestId, Sequence[int]] | None = None,
        *,
        draft_trees: Sequence[Any] | Mapping[RequestId, Any] | None = None,
        strict: bool = False,
    ) -> StepResult:
        """Sample one token for each row of `logits` [rows, ≥ vocab] and advance the requests.

        request_ids      the requests of the rows, in order; default all live ones. Pass it if other threads
                         add requests.
        draft_token_ids  guesses for each request (in row order, or by id). A request with k drafts
                         has k + 1 consecutive rows; drafts are accepted as long as they equal the draw.
        draft_trees      likewise trees of at most 1,024 guesses: (token_ids, parents) for each request, or
                         None. Node i follows node parents[i] < i, or for −1 the request itself, and has row
                         1 + i of the request's k + 1. One path is accepted (`StepResult.accepted_rows`): of
                         children with the same token, the first. A request has a tree or `draft_token_ids`.
        strict           refuse ids whose requests have left. By default their rows are skipped, and
                         `StepResult.skipped` names them: another thread may end a request during the
                         forward pass.

        A faulty row ends its request with `error`. Raises `RequestError`, `ParameterError`,
        ValueError or TypeError for wrong ids and arrays before anything changes.

        If the backend runs out of memory in the step that repeats an interrupted one, its requests end with
        `error`.
        """
        started = time.perf_counter()
        with self._step_lock:
            plan, rows = self._plan(logits, request_ids, draft_token_ids, draft_trees, strict)
            result = self._runner.run(plan, rows)
            self._requests.keeping.finish_step(result)
        self._notify(result, plan, rows, started)
        return result

    def begin(
        self,
        logits: Any,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Sequence[Sequence[int]] | Mapping[RequestId, Sequence[int]] | None = None,
        *,
        draft_trees: Sequence[Any] | Mapping[RequestId, Any] | None = None,
        strict: bool = False,
    ) -> BegunStep:
        """The first half of `step`: it queues the device's work and does not wait for it. The engine begins
        its next forward pass with the tokens that will be there, and finishes the step while that runs.

            begun = scheduler.begin(logits)
            logits = model(begun.token_ids_on_device)  # queued behind the draws
            result = begun.finish()                     # waits for the draws alone

        Arguments and errors are those of `step`. The step counts as running until it is finished: requests
        can be added, `accept` and `remove` wait. Requests that end in it have a row in the pass under way:
        name them in the next step, which skips them. Backends without a device draw here, and
        `token_ids_on_device` is None.
        """
        started = time.perf_counter()
        with self._step_lock:
            plan, rows = self._plan(logits, request_ids, draft_token_ids, draft_trees, strict)
            run = self._runner.begin(plan, rows)
            begun = BegunStep(
                run.token_ids_on_device,
                run.step.is_done,
                partial(self._finish, run),
                partial(self._step_lock.let_go, run.step),
            )
            begun.seconds = time.perf_counter() - started
            self._step_lock.hold(run.step)
        return begun

    def process(
        self,
        logits: Any,
        request_ids: Sequence[RequestId] | None = None,
        *,
        before_choice: bool = False,
        on_device: bool = False,
    ) -> Any:
        """The chain without selector and without state change: float32 [rows, vocab], −inf = removed.

        before_choice  leave out temperature 0, too, after which only the best token is left.
        on_device      return a new tensor of the backend's kind if it processes the logits on their device;
                       else a NumPy array.

        A faulty row is all NaN, and the reason is logged; so is the row of a request that has left, or that
        needs more work than one step may do: another call continues it.
        """
        with self._step_lock:
            inputs = self._requests.plan(request_ids).inputs
            rows = self._rows(logits, len(inputs.named))
            return self._runner.process(inputs, rows, before_choice, on_device)

    def explain(self) -> list[GroupReport]:
        """The groups of the live requests: their chains, and which backend runs each sampler."""
        with self._step_lock:
            return self._runner.reports(self._requests.plan(None).inputs)

    # --- inside ----------------------------------------------------------------------------------

    def _finish(self, run: BegunRun, seconds: float) -> StepResult:
        """Finish a step that took `seconds` to begin."""
        started = time.perf_counter() - seconds
        with self._step_lock.going_on(run.step):
            result = self._runner.finish(run)
            self._requests.keeping.finish_step(result)
        self._notify(result, run.plan, run.logits, started)
        return result

    def _plan(
        self, logits: Any, request_ids: Sequence[RequestId] | None, drafts: Any, trees: Any, strict: bool
    ) -> tuple[RowPlan, LogitRows]:
        """The rows of a step, checked."""
        self._runner.accepting.go_on()
        plan = self._requests.plan(request_ids, strict=strict)
        if drafts is not None or trees is not None or self._requests.groups:
            plan = self._plan_beyond(plan, drafts, trees)
        return plan, self._rows(logits, plan.row_count)

    def _admit(self, newcomers: Newcomers, grammar: Any, client: Hashable) -> None:
        """Look up the grammar of the newcomers, build them and give them their slots: now, or once the
        compiler has compiled the grammar."""
        check_hashable("client", client)
        params, compilation = newcomers.params, None
        if self._compiler is not None and (grammar is not None or structured_in(params.given)):
            reader = constraint_reader(self.vocabulary.grammar_engine)
            compilation = reader.start(params, grammar, self.vocabulary, self._compiler, client)
        if compilation is not None and not compilation.has_succeeded:  # else it was in the cache
            self._waiting.add(compilation, newcomers, self._on_ready)
            return
        with self._step_lock.building():
            if compilation is None:
                matcher = matcher_for(params, grammar, self.vocabulary)
            else:
                matcher = compilation.matcher(self.vocabulary)
            siblings = newcomers.build(matcher)
        self._requests.add(*siblings)

    def _notify(self, result: StepResult, plan: RowPlan, rows: LogitRows, started: float) -> None:
        """Tell observers of a step that is done."""
        if self._requests.observers.are_there:
            self._requests.observers.notify_step(
                result, lambda: self._runner.measures(result, plan, rows, started)
            )

    def _rows(self, logits: Any, count: int) -> LogitRows:
        rows = LogitRows(logits, self.vocabulary.size)
        if rows.shape[0] != count:
            raise ValueError(f"logits have {len(rows)} rows; the requests and drafts need {count}")
        return rows

    def _plan_beyond(self, plan: RowPlan, drafts: Any, trees: Any) -> RowPlan:
        """The rows of a step whose requests may have drafts, or belong to beam searches."""
        inputs = plan.inputs
        groups = self._requests.groups_in(inputs.requests)
        if groups:
            check_beam_rows(groups, inputs.ids, drafts, trees)
            return BeamPlan(inputs, self._requests.slots, groups)
        if drafts is None and trees is None:
            return plan
        guessed = all_drafts_in(drafts, trees, inputs.named, self.vocabulary)
        return DraftPlan(inputs, self._requests.slots, guessed)
