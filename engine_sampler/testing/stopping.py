"""`StoppingContract`: the laws of stopping criteria as a test class to subclass."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from unittest import SkipTest

import numpy as np

from ..contract import ParameterError, StoppingCriteria, StopVerdict, TextCriteria, TextMatcher, Vocabulary
from ..params import SamplingParams
from ..registry import check_object
from ..scheduler import Record, Scheduler
from ..tokenizer import Tokenizer
from .cases import Random
from .laws import bounds
from .search.drawing import draw_value
from .search.outputs import (
    PIECES,
    MatcherReading,
    StoppingTrial,
    logprobs_for,
    pieces_for,
    row_for,
    spelled,
    texts_in,
    verdicts_on,
    vocabulary_for,
)
from .search.searching import Searching
from .search.surroundings import expect_nothing_kept, in_all_surroundings, leaving_them_alone
from .single import values_for

EOS = len(PIECES) - 1
LENGTH = 24
FINISH_REASONS = ("stop", "length", "repetition", "error")


class StoppingContract(Searching):
    """The laws every stopping criterion keeps, tried on random outputs. Subclass it; pytest does the rest.

        class TestBudget(StoppingContract):
            criterion = Budget()
            params = [dict(budget=100)]

    params         parameter sets to try; each must turn the criterion on. By default its examples.
    called         the criterion with values of its own, for the laws of its call on arrays; None if it
                   cannot be called.
    texts          outputs that end by it under one of the parameter sets. By default those of the criterion.
                   Other outputs are random, and mixed with these. Their tokens are `PIECES` and the further
                   characters of `texts`. Without texts, a criterion that ends none of them promises nothing.
    rounds         outputs for each parameter set. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
    sequences, seconds, seed  as in `Searching`: how much more is tried at random.
    """

    criterion: ClassVar[StoppingCriteria]
    params: ClassVar[Sequence[Mapping[str, Any]]] = ()
    called: ClassVar[StoppingCriteria | None] = None
    texts: ClassVar[Sequence[str]] = ()
    rounds: ClassVar[int] = 16

    # --- laws of a criterion on its own --------------------------------------------------------------

    def test_the_declaration_is_sound(self) -> None:
        check_object(self.criterion, (StoppingCriteria,))
        assert "__doc__" in vars(type(self.criterion)), f"{type(self.criterion).__name__} has no docstring"
        for param in self.criterion.params:
            for bound in bounds(param):
                param.check(bound)

    def test_parameters_turn_it_on(self) -> None:
        nothing_known = Vocabulary(len(PIECES))
        active = self.criterion.is_active(values_for(self.criterion, {}), nothing_known)
        assert not active, f"{self.criterion.name} is on although no parameter turns it on"
        for values in self.values():
            active = self.criterion.is_active(values, self.vocabulary())
            assert active, f"{self.criterion.name} is off although {dict(values)} turns it on"

    def test_some_outputs_end_by_it(self) -> None:
        name, pieces = self.criterion.name, self.pieces()
        for text in self.texts_of_ends:
            seen = any(self.first(values, spelled(text, pieces))[1] for values in self.values())
            assert seen, f"{text!r}, one of its texts, does not end by {name}"
        for values in self.values():
            if not any(self.first(values, output)[1] for output in self.outputs()):
                raise SkipTest(
                    f"no random output ends by {name} with {self.own(values)}; give the criterion or the kit "
                    'texts that do: texts = ("f(x)",)'
                )

    def test_an_end_has_a_reason(self) -> None:
        for values in self.values():
            for output in self.outputs():
                verdict = self.first(values, output)[1]
                if verdict is None:
                    continue
                right = verdict.finish_reason in FINISH_REASONS and verdict.cut >= 0
                right &= verdict.reason is None or isinstance(verdict.reason, (str, int))
                assert right, (
                    f"{verdict} is not a verdict: finish_reason is one of {', '.join(FINISH_REASONS)}"
                )

    def test_the_same_tokens_get_the_same_verdict(self) -> None:
        for values, output in self.cases():
            first, second = (self.trial(values) for _ in range(2))
            for token in output:
                self.expect_equal(first.check(token), second.check(token), "for the same tokens")

    def test_requests_share_no_state(self) -> None:
        for values in self.values():
            outputs = list(self.outputs())
            for first_output, second_output in zip(outputs, outputs[1:] + outputs[:1], strict=True):
                alone = [
                    [trial.check(t) for t in output]
                    for output in (first_output, second_output)
                    for trial in [self.trial(values)]
                ]
                first = self.trial(values)
                seen = [first.check(token) for token in first_output[: LENGTH // 3]]
                second, late = self.trial(values), []
                for at in range(LENGTH):
                    if LENGTH // 3 + at < LENGTH:
                        seen.append(first.check(first_output[LENGTH // 3 + at]))
                    late.append(second.check(second_output[at]))
                for verdicts, expected in ((seen, alone[0]), (late, alone[1])):
                    for verdict, right in zip(verdicts, expected, strict=True):
                        self.expect_equal(verdict, right, "while another request is running")

    def test_inputs_are_only_read(self) -> None:
        for values, output in self.cases():
            prompt, parameters = np.array([1, 0], np.int64), dict(values)
            state = self.criterion.new_state(parameters, prompt, self.vocabulary())
            token_ids = list(output)
            more = logprobs_for(self.criterion, values, token_ids, self.vocabulary().size)
            self.criterion.check(state, token_ids, "", **more)
            for name, now, before in (
                ("token_ids", token_ids, list(output)),
                ("the prompt", prompt.tolist(), [1, 0]),
                ("the parameters", parameters, dict(values)),
            ):
                assert now == before, f"{self.criterion.name} writes to {name}"

    def test_tokens_may_arrive_in_any_portions(self) -> None:
        for number, (values, output) in enumerate(self.cases()):
            end, verdict = self.first(values, output)
            trial, at = self.trial(values), 0
            for width in np.random.default_rng(number).integers(1, 5, LENGTH).tolist():
                verdict_now = trial.check(*output[at : at + width])
                at += width
                if at > end:
                    assert (verdict_now is None) == (verdict is None), (
                        f"the verdict {verdict} depends on portions"
                    )
                    break
                assert verdict_now is None, f"{verdict_now} comes before its token"

    def test_rollback_undoes_check(self) -> None:
        for number, (values, output) in enumerate(self.cases()):
            plain, tried = self.trial(values), self.trial(values)
            for at, token in enumerate(output):
                detour = np.random.default_rng([number, at]).integers(0, EOS, 3).tolist()
                for other in detour:
                    tried.check(other)
                tried.rollback(len(detour))
                self.expect_equal(tried.check(token), plain.check(token), "after tokens were rolled back")
            tried.rollback(len(output))
            again = self.trial(values)
            for token in output:
                self.expect_equal(tried.check(token), again.check(token), "after everything was rolled back")

    def test_a_fork_is_independent(self) -> None:
        for number, (values, output) in enumerate(self.cases()):
            plain, parent = self.trial(values), self.trial(values)
            for token in output[: LENGTH // 2]:
                plain.check(token)
                parent.check(token)
            child, other = parent.fork(), parent.fork()
            for token in np.random.default_rng(number).integers(0, EOS, 6).tolist():
                other.check(token)
            for token in output[LENGTH // 2 :]:
                verdict = plain.check(token)
                self.expect_equal(parent.check(token), verdict, "after a fork continued")
                self.expect_equal(child.check(token), verdict, "in a fork")

    def test_a_watch_misses_nothing(self) -> None:
        for values, output in self.cases():
            trial = self.trial(values)
            for length, token in enumerate(output, 1):
                verdict = trial.check(token)
                if verdict is not None:
                    trial.expect_watched(verdict, token, length)
                    break

    def test_requests_beside_others_do_as_alone(self) -> None:
        from .search import stopping  # which needs Hypothesis

        fresh = partial(self.fresh, self.criterion)
        self.search(partial(stopping.OutputMachine, self, fresh), stopping.LENGTH)

    def test_surroundings_do_not_matter(self) -> None:
        for random in self.draws(1):
            for values in self.mixed_values(random):
                vocabulary = vocabulary_for([values], random, self.texts_of_ends)
                outputs = random.integers(0, vocabulary.size, (4, LENGTH)).tolist()
                verdicts = partial(verdicts_on, self.criterion, values, vocabulary, outputs)
                with leaving_them_alone(self.criterion.name):
                    expected = verdicts()
                for where, found in in_all_surroundings(verdicts, verdicts):
                    assert found == expected, f"{self.criterion.name} has other verdicts {where}"
            expect_nothing_kept(self.criterion.name, verdicts)

    # --- laws of a text matcher ----------------------------------------------------------------------

    def test_a_matcher_keeps_its_state_between_calls(self) -> None:
        for number, (matcher, text) in enumerate(self.matched_texts()):
            whole = MatcherReading(matcher).read(text)
            end = whole.match[0] if whole.match else len(text)
            for cut in {
                *range(max(0, end - 4), end),
                1,
                len(text) // 2,
                *np.random.default_rng(number).integers(0, len(text) + 1, 3).tolist(),
            }:
                parts = MatcherReading(matcher).read(text[:cut]).read(text[cut:])
                self._expect_same_reading(parts, whole, f"read as {text[:cut]!r}, then {text[cut:]!r}")
            singly = MatcherReading(matcher)
            for i in range(len(text)):
                singly.read(text[i : i + 1]).read(b"")
            self._expect_same_reading(singly, whole, f"{text!r} read byte by byte, with nothing in between")

    def test_equal_matchers_behave_alike(self) -> None:
        if not isinstance(self.criterion, TextCriteria):
            return
        for random in self.draws(self.sequences):
            mixed = self.mixed_values(random)
            vocabulary = vocabulary_for(mixed, random, self.texts_of_ends)
            matchers = [(values, self.criterion.matcher(values, vocabulary)) for values in mixed]
            pieces = vocabulary.need_tokenizer(self.criterion.name).token_bytes
            text = b"".join(pieces[token] for token in random.integers(0, vocabulary.size, 80).tolist())
            for i, (values, matcher) in enumerate(matchers):
                for others, other in matchers[:i]:
                    if matcher == other:
                        readings = MatcherReading(matcher).read(text), MatcherReading(other).read(text)
                        seen, right = ((reading.match, reading.held) for reading in readings)
                        named = [self.own(one) for one in (values, others)]
                        assert seen == right, f"the matchers for {named} are equal, but differ in {text!r}"

    def test_a_matcher_is_immutable(self) -> None:
        for number, (matcher, text) in enumerate(self.matched_texts()):
            other = bytes(np.random.default_rng(number).permutation(list(text)).tolist())
            match = matcher.advance(matcher.start, text)[1]
            end = match.end if match else len(text)
            for cut in {*range(0, end, 5), *range(max(0, end - 4), end)}:
                half, first_match = matcher.advance(matcher.start, text[:cut])
                hash(half)
                rest = matcher.advance(half, text[cut:end]), matcher.held(half)
                matcher.advance(matcher.start, other)
                matcher.at_special(PIECES[EOS])
                again = matcher.advance(half, text[cut:end]), matcher.held(half)
                matcher.advance(half, other[: number % 5 + 1])
                same = rest == again and matcher.advance(matcher.start, text[:cut]) == (half, first_match)
                assert same, (
                    f"the matcher of {self.criterion.name} gives another result when a call is repeated"
                )

    def test_a_matcher_holds_back_what_a_match_may_cut(self) -> None:
        for matcher, text in self.matched_texts():
            state, released = matcher.start, 0
            assert matcher.held(state) == 0, "held is not 0 for the empty text"
            special = matcher.at_special(PIECES[EOS])
            assert special is None or special[:2] == (0, 0), f"{special} at a special token is not at 0"
            for at in range(len(text)):
                state, match = matcher.advance(state, text[at : at + 1])
                if match is not None:
                    whole = match.end == 1 and match.text_end <= match.end
                    assert whole, f"{match} is not the end of a match in one byte"
                    cut = at + match.text_end
                    assert cut >= released, (
                        f"a match cuts {text!r} at {cut}, but held has let {released} bytes out"
                    )
                    break
                held = matcher.held(state)
                assert 0 <= held <= at + 1, f"held is {held} after {at + 1} bytes"
                released = max(released, at + 1 - held)

    # --- laws in a scheduler ---------------------------------------------------------------------

    def test_a_scheduler_ends_the_request_with_that_token(self) -> None:
        for values, output in () if self.takes_back else self.cases():
            end, verdict = self.first(values, output)
            record, streamed = self.run(values, output, [])
            tokens = output[: end + 1]
            assert record.token_ids == tokens, f"{len(record.token_ids)} tokens, not {len(tokens)}"
            reason = "abort" if verdict is None else verdict.finish_reason
            assert record.finish_reason == reason, f"finish_reason {record.finish_reason}, not {reason}"
            assert streamed == record.text, "the streamed text differs from the record's"
            tokenizer = self.vocabulary().need_tokenizer(self.criterion.name)
            whole = b"".join(map(tokenizer.text_bytes, tokens))
            kept = whole[: len(whole) - (0 if verdict is None else verdict.cut)]
            assert record.text == kept.decode("utf-8", "replace"), (
                "the text is not cut where the verdict cuts it"
            )

    def test_drafts_change_nothing(self) -> None:
        for number, (values, output) in enumerate(() if self.takes_back else self.cases()):
            guesses = np.random.default_rng(number).integers(0, 4, LENGTH).tolist()
            plain, drafted = self.run(values, output, []), self.run(values, output, guesses)
            assert plain == drafted, f"with drafts the request ends as {drafted[0]}, else as {plain[0]}"

    # --- laws of its call on arrays --------------------------------------------------------------

    def test_rows_are_answered_one_by_one(self) -> None:
        for called, rows, scores in self.arrays():
            before = rows.copy()
            answer = called(rows, scores)
            assert np.array_equal(rows, before), "the call writes to input_ids"
            is_answer = (
                isinstance(answer, np.ndarray) and answer.dtype == bool and answer.shape == (len(rows),)
            )
            assert is_answer, f"the call gives {answer!r}; allowed is bool [rows]"
            alone = [bool(called(rows[i : i + 1], scores[i : i + 1])[0]) for i in range(len(rows))]
            assert answer.tolist() == alone, "a row's answer depends on the other rows"

    def test_tensors_get_tensors(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return
        for called, rows, scores in self.arrays():
            answer = called(torch.tensor(rows), torch.tensor(scores))
            assert answer.dtype == torch.bool, f"the call gives {answer.dtype}; allowed is bool"
            assert answer.tolist() == called(rows, scores).tolist(), "tensors get another answer"

    # --- helpers ---------------------------------------------------------------------------------

    @property
    def texts_of_ends(self) -> Sequence[str]:
        """The texts of the kit, or those of the criterion."""
        return self.texts or self.criterion.texts

    def pieces(self) -> list[bytes]:
        """The tokens of outputs."""
        return pieces_for(self.texts_of_ends)

    def vocabulary(self) -> Vocabulary:
        # The tokenizer has no EOS, so that without the criterion a scheduler ends no request at it.
        pieces = self.pieces()
        return Vocabulary(len(pieces), (EOS,), Tokenizer(pieces, special_token_ids=[EOS]))

    def values(self) -> Iterator[Mapping[str, Any]]:
        """Every parameter by name, for each parameter set."""
        params = self.params or self.criterion.examples
        assert params, f"{type(self).__name__} has no params to try, nor has the criterion examples"
        return (values_for(self.criterion, given) for given in params)

    def mixed_values(self, random: Random) -> list[Mapping[str, Any]]:
        """The parameter sets by name, and some with other values of the criterion's own parameters."""
        mixed = list(self.values())
        for values in tuple(mixed) * 2:
            other = {
                param.name: draw_value(random, param, values[param.name])
                for param in self.criterion.params
                if values[param.name] != param.neutral
            }
            with contextlib.suppress(ParameterError):
                checked = values_for(self.criterion, {**self.own(values), **other})
                self.criterion.check_params(checked)
                if self.criterion.is_active(checked, self.vocabulary()):
                    mixed.append(checked)
        return mixed

    @property
    def takes_back(self) -> bool:
        """Whether a match ends nothing."""
        return isinstance(self.criterion, TextCriteria) and self.criterion.takes_back

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `values` that are parameters of the criterion."""
        return {param.name: values[param.name] for param in self.criterion.params}

    def outputs(self, values: Sequence[Mapping[str, Any]] = ()) -> Iterator[list[int]]:
        """Outputs of LENGTH tokens, some of which have a text of the kit, of `values`, or of the parameter
        sets."""
        pieces = self.pieces()
        texts = [*self.texts_of_ends, *texts_in(values or self.values())]
        tokens = [found for text in texts if (found := spelled(text, pieces))]
        for random in self.draws(self.rounds):
            few = random.integers(0, len(pieces), int(random.integers(1, 6)))
            mostly = np.where(random.random(LENGTH) < 0.7, random.choice(few, LENGTH), -1)
            output = np.where(mostly < 0, random.integers(0, len(pieces), LENGTH), mostly).tolist()
            if tokens and random.random() < 0.5:
                text, at = tokens[int(random.integers(len(tokens)))], int(random.integers(LENGTH))
                output[at:at] = text
            yield output[:LENGTH]

    def cases(self) -> Iterator[tuple[Mapping[str, Any], list[int]]]:
        return ((values, output) for values in self.values() for output in self.outputs())

    def matched_texts(self) -> Iterator[tuple[TextMatcher, bytes]]:
        """A matcher and the bytes of an output; none if the criterion is not a `TextCriteria`."""
        if isinstance(self.criterion, TextCriteria):
            mixed, pieces = self.mixed_values(np.random.default_rng(self.seed)), self.pieces()
            for values in mixed:
                matcher = self.criterion.matcher(values, self.vocabulary())
                for output in self.outputs([values]):
                    yield matcher, b"".join(pieces[t] for t in output)

    def _expect_same_reading(self, reading: MatcherReading, right: MatcherReading, where: str) -> None:
        seen, expected = (reading.match, reading.held), (right.match, right.held)
        assert seen == expected, f"match and held are {seen}, not {expected}, {where}"

    def trial(self, values: Mapping[str, Any]) -> StoppingTrial:
        return StoppingTrial(self.criterion, values, self.vocabulary())

    def first(self, values: Mapping[str, Any], output: Sequence[int]) -> tuple[int, StopVerdict | None]:
        """The index of the token that ends an output, and the verdict; the output's length and None without
        one."""
        trial = self.trial(values)
        verdicts = (trial.check(token) for token in output)
        return next(((i, v) for i, v in enumerate(verdicts) if v is not None), (len(output), None))

    def expect_equal(self, verdict: StopVerdict | None, right: StopVerdict | None, where: str) -> None:
        assert verdict == right, f"{self.criterion.name} gives {verdict}, not {right}, {where}"

    def run(
        self, values: Mapping[str, Any], output: Sequence[int], guesses: Sequence[int]
    ) -> tuple[Record, str]:
        """The record and the streamed text of a request whose model generates `output`, with `guesses`
        drafts."""
        known = self.vocabulary()
        scheduler = Scheduler(known.size, known.tokenizer, backend="numpy")
        bound = _bound(self.criterion, values, known)
        params = SamplingParams(temperature=0, seed=0)
        request_id = scheduler.add(params, [1, 0], request_id=0, stopping_criteria=[bound])
        sampled, streamed, ahead = 0, "", iter(guesses)
        while sampled < len(output) and scheduler.request_ids:
            drafts = output[sampled : sampled + min(next(ahead, 0), len(output) - sampled - 1)]
            rows = np.stack(
                [row_for(token, known.size) for token in output[sampled : sampled + len(drafts) + 1]]
            )
            result = scheduler.step(rows, draft_token_ids=[drafts])
            sampled += len(result.tokens(0))
            streamed += result.text[0] or ""
        finished = scheduler.record(request_id).finish_reason is not None
        record = scheduler.remove(request_id)
        return record, streamed if finished else record.text or ""

    def arrays(self) -> Iterator[tuple[StoppingCriteria, np.ndarray, np.ndarray]]:
        """The criterion that can be called, if there is one, with input_ids int64 [rows, length] and scores
        float32 [rows, vocab]."""
        if self.called is None:
            return
        for number, random in enumerate(self.draws(self.rounds)):
            shape = int(random.integers(1, 70)), number % LENGTH + 1
            rows = random.integers(0, len(PIECES), shape)
            few = random.integers(0, len(PIECES), 3)
            rows = np.where(random.random(shape) < 0.7, random.choice(few, shape), rows)
            scores = random.normal(0, 3, (len(rows), len(PIECES)))
            dtype = np.int32 if number % 3 == 2 else np.int64
            yield self.called, rows.astype(dtype), scores.astype(np.float32)


def _bound(criterion: StoppingCriteria, values: Mapping[str, Any], known: Vocabulary) -> StoppingCriteria:
    """`criterion` with parameters that need not be registered, and with the kit's vocabulary."""
    bound: Any = copy.copy(criterion)
    bound.new_state = lambda params, prompt, vocabulary: criterion.new_state(values, prompt, known)
    bound.watch = lambda params, prompt, vocabulary: criterion.watch(values, prompt, known)
    bound.confidence_top_k = lambda params: criterion.confidence_top_k(values)
    if isinstance(criterion, TextCriteria):
        bound.matcher = lambda params, vocabulary: criterion.matcher(values, known)
    return bound
