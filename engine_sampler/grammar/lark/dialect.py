"""The forms that rules may have beyond lark's own syntax, rewritten into it.

    <|tool|>  <tool>    the special token of that name, brackets and all; <[TOOL]> is the one named `[TOOL]`
    <[5]>  <[1,5-9]>    one of the special tokens with these ids
    <[^1,5-9]>  <[*]>   one token, special or not, but none of these; any token
    %json {...}         a text that is valid under this JSON Schema
    %lark {...}         a text of a grammar of its own, with its own `start`, names and `%ignore`
    @name               a text of the grammar that is handed in under that name, see `named_grammars`
    %regex {"substring_chars": "..."}         a substring of that text, of any length
    %regex {"substring_words": "..."}         some of its words in a row, with all that is between them
    %regex {"substring_chunks": ["...", ...]} any number of these texts that follow each other in the list
    name::_: ... %if c  name::set_bit(3)      rules with a parameter, see `extensions.parametric`
    A: B & ~/x/         a terminal of intersections and complements, see `terminal_operators`
    x{2,5} x{2} x{2,}   repetition, as `x~2..5` (`x{,5}`: up to five)
    name[lazy]: ...     a rule that ends as early as its text can. Where it may begin, no other terminal
                        reads past that end. So `head[lazy]: TEXT "<call>"` is free text up to a trigger.
                        The rule is one terminal: it may name terminals, not rules.
    name[suffix=END]: ...    lazy as well, and END, a literal or a terminal, follows; `stop` means the same
    %regex {"type": "integer", "minimum": 3}  a number as JSON has it, within bounds, as a terminal of its own
    %llguidance {}  %grammar_options {}       have no effect on the language (see `_OPTIONS`)
    a-b                                       a name with a hyphen, as in llguidance; lark knows it as `a_b`
    name[max_tokens=9, temperature=0.2]: ...  bounds and sampling parameters, see `extensions`
    name[capture]: ...  name[capture="x"]: ...   what the rule matches is reported, under its own name or `x`;
                        the language is the same
    name[suffix=END, stop_capture="x"]: ...      the END that follows is reported as `x`

Each form is replaced by the name of a new terminal, which a %declare introduces to lark. The name takes the
same line and columns, so that lark's messages point at what the user wrote. Definitions that lark need not
read are left out, but for a %declare of the names that it may meet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby

from ...base.cached import cached_property
from ...base.errors import quoted
from ...params.phases import rule_parameters
from ..program.settings import Mark, Setting
from ..work import spend
from .extensions.placeholders import Placeholder, SpecialTokens
from .extensions.rule_attributes import BOUNDS, BoundedText, bounds_of, joined_value, settings_of
from .extensions.terminal_operators import has_operators, read_body, read_operators
from .statements import EMPTY_STRINGS, OPTIONS, Lines, Scan, Statement, Word, count_bounds

_MAX_CAPTURE_NAME = 100
"""The most characters of the name of a capture."""
_OPTIONS = ("no_forcing", "allow_initial_skip")
"""Options of llguidance that do not change the language here: forced tokens are the engine's own affair, and
ignored text may come first in any case."""
_NUMBER_KEYS = ("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ENDING_ATTRIBUTES = ("suffix", "stop")
_LINE_END = re.compile(r"\n(?=\r?\n)")


@dataclass
class Rewritten:
    """A text for lark, and the meaning of its new names.

    placeholders   the meaning of each declared terminal
    lazy           the rule that each lazy terminal stands for
    bounded        the rule that each terminal of bounded length belongs to, or is the text of
    budgets        how many tokens may begin in each text of some rules that are not one terminal
    settings       the sampling parameters that hold in some rules
    declared       how many names that are known are declared
    captures       the name under which what a rule matches is reported, by rule
    """

    text: str
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    lazy: dict[str, str] = field(default_factory=dict)
    bounded: dict[str, str] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Mark] = field(default_factory=dict)
    declared: int = 0
    captures: dict[str, str] = field(default_factory=dict)


def rewrite(scan: Scan, known: Container[str] = ()) -> Rewritten:
    """The text of `scan` in lark's own syntax, without the definitions of the names `known`. Raises
    GrammarError."""
    return _Rewriter(scan, known).result()


class _Rewriter:
    def __init__(self, scan: Scan, known: Container[str]) -> None:
        self._scan = scan
        self._known = known
        self._edits: list[tuple[int, int, str]] = []
        self._added: list[str] = []
        """Definitions for the end of the text."""
        self._result = Rewritten(scan.text)
        self._read: set[str] = set()
        """The rules whose bodies lark does not read."""
        self._names = _new_names(scan)
        self._tokens = SpecialTokens(scan)

    def result(self) -> Rewritten:
        for is_known, some in groupby(self._scan.statements, self._is_known):
            if is_known:
                self._leave_out(list(some))
            else:
                self._rewrite(some)
        for start, end in self._scan.gaps:
            # Lark takes quadratic time for consecutive line ends.
            self._edits.append((start, end, _LINE_END.sub("\n ", self._scan.text[start:end])))
        if self._edits:
            self._result.text = self._edited()
        return self._result

    def _is_known(self, statement: Statement) -> bool:
        return statement.defines in self._known

    def _leave_out(self, statements: list[Statement]) -> None:
        """Replace consecutive definitions by a %declare of those that lark may meet."""
        met = self._met
        names = [name for name in (one.defines for one in statements) if name in met or "__" in name]
        self._result.declared += len(names)
        text = "%declare " + " ".join(names) if names else ""
        self._edit(statements[0].words[0].start, statements[-1].words[-1].end, text, " \n")

    @cached_property
    def _met(self) -> set[str]:
        """The names in the statements that lark reads; others that it may meet have `__`, as it names what it
        imports."""
        read = (statement for statement in self._scan.statements if not self._is_known(statement))
        return {word.text for statement in read for word in statement.words if word.kind == "name"}

    def _rewrite(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            if statement.kind in OPTIONS:
                self._options(statement)
                continue
            is_terminal = self._attributes(statement)
            if statement.defines in self._read or self._is_regex(statement) or self._has_operators(statement):
                continue
            for word in statement.words:
                if word.kind == "count":
                    self._replace(word, self._count(word))
                elif word.text in EMPTY_STRINGS and statement.kind == "rule" and not is_terminal:
                    self._replace(word, "()")
                elif word.kind in ("token", "json", "reference"):
                    if is_terminal or statement.kind != "rule":
                        raise self._scan.error(f"{word.text} is only allowed in a rule", word.start)
                    name = next(self._names)
                    self._result.placeholders[name] = self._placeholder(word)
                    self._replace(word, name)

    def _options(self, statement: Statement) -> None:
        """Leave out options that do not change the language; others are refused."""
        word = statement.words[0]
        given = word.value if isinstance(word.value, dict) else None
        if len(statement.words) > 1 or given is None:
            raise self._scan.error(f"after {word.text}, an object of options is allowed", word.start)
        for name, value in given.items():
            if name not in _OPTIONS or not isinstance(value, bool):
                allowed = " and ".join(_OPTIONS)
                text = (
                    f"{word.text}: {quoted(name)} is not supported; allowed are {allowed}, as true or false"
                )
                raise self._scan.error(text, word.start)
        self._edit(word.start, word.end, "", "\n")

    def _is_regex(self, statement: Statement) -> bool:
        """Rewrite a terminal that consists of `%regex {...}`; returns whether `statement` is one."""
        words = statement.words
        if statement.kind != "terminal" or len(words) != 3 or words[2].text != "%regex":
            return False
        self._result.placeholders[statement.defines] = self._placeholder(words[2])
        self._edit(words[0].start, words[2].end, "")
        return True

    def _has_operators(self, statement: Statement) -> bool:
        """Rewrite a terminal with `&` or `~` between patterns; returns whether `statement` is one."""
        words, name = statement.words, statement.defines
        if statement.kind != "terminal" or words[0].kind == "directive" or name not in self._operators:
            return False
        if name in self._result.placeholders:
            raise self._scan.error(f"the terminal {name} is defined more than once", words[0].start)
        word = words[statement.name]
        self._result.placeholders[name] = Placeholder(
            "operators", word, read_operators(self._scan, statement)
        )
        self._edit(words[0].start, words[-1].end, "", "\n")
        return True

    @cached_property
    def _operators(self) -> set[str]:
        """The terminals that lark cannot read, because of operators, or since they name others of these."""
        terminals = [statement for statement in self._scan.statements if statement.kind == "terminal"]
        with_operators = {
            terminal.defines for terminal in terminals if has_operators(terminal.words[terminal.body :])
        }
        if not with_operators:
            return with_operators
        users: dict[str, list[str]] = {}
        for terminal in terminals:
            spend(len(terminal.words))
            for word in terminal.words[terminal.body :]:
                if word.kind == "name":
                    users.setdefault(word.text, []).append(terminal.defines)
        queue = sorted(with_operators)
        for name in queue:  # which grows
            queue += [user for user in dict.fromkeys(users.get(name, ())) if user not in with_operators]
            with_operators.update(users.get(name, ()))
        return with_operators

    def _is_read(self, words: Sequence[Word]) -> bool:
        """Whether a body of a terminal is read here: lark cannot."""
        return has_operators(words) or any(word.text in self._operators for word in words)

    def _replace(self, word: Word, text: str) -> None:
        self._edit(word.start, word.end, text)

    def _edited(self) -> str:
        pieces: list[str] = []
        at = 0
        for start, end, text in sorted(self._edits):
            if start >= at:  # not within what is left out
                pieces += self._scan.text[at:start], text
                at = end
        pieces.append(self._scan.text[at:])
        if self._result.placeholders:
            pieces.append("\n%declare " + " ".join(self._result.placeholders))
        bounded = self._result.bounded
        pieces += (f"\n{rule}: {name}" for name, rule in self._result.lazy.items() if name not in bounded)
        pieces += self._added
        return "".join(pieces)

    def _edit(self, start: int, end: int, text: str, line_end: str = "\\\n") -> None:
        """Write `text` there, with blanks behind it that keep what follows in its line and column."""
        old = self._scan.text[start:end]
        lines = old.count("\n")
        blanks = len(old) - (old.rindex("\n") + 1 if lines else len(text))
        self._edits.append((start, end, text + line_end * lines + " " * blanks))

    # --- forms within a rule's body ------------------------------------------------------------------

    def _placeholder(self, word: Word) -> Placeholder:
        if word.text == "%regex":
            return self._regex(word)
        if word.kind == "json":
            return Placeholder(word.text.removeprefix("%"), word, word.value)
        if word.kind == "reference":
            return Placeholder("named", word, word.text.removeprefix("@"))
        return self._tokens.placeholder(word)

    def _regex(self, word: Word) -> Placeholder:
        """What `%regex {...}` means."""
        value = word.value
        if not isinstance(value, dict) or value.get("type") not in ("number", "integer"):
            return Placeholder("regex", word, value)
        for key in value:
            if key not in _NUMBER_KEYS:
                text = f"%regex: {quoted(key)} is not allowed: {', '.join(_NUMBER_KEYS)}"
                raise self._scan.error(text, word.start)
        return Placeholder("number", word, value)

    def _count(self, word: Word) -> str:
        bounds = count_bounds(word.text)
        if not bounds:
            raise self._scan.error(f"{word.text} is not a count", word.start)
        return "~" + "..".join(bounds)

    # --- attributes of a rule ------------------------------------------------------------------------

    def _attributes(self, statement: Statement) -> bool:
        """Rewrite `name[...]:`; returns whether the rule becomes a terminal."""
        words, name = statement.words, statement.name
        if statement.kind != "rule" or len(words) < name + 2 or words[name + 1].text != "[":
            return False
        if words[0].kind == "directive":
            raise self._scan.error(f"attributes are not allowed after {words[0].text}", words[name + 1].start)
        attributes, close = self._attribute_list(words, name + 2)
        if close + 1 >= len(words) or words[close + 1].text != ":":
            raise self._scan.error("a colon must follow the attributes of a rule", words[close].end)
        if settings := settings_of(attributes, self._scan):
            rule = words[name].text
            place = self._scan.location(words[name].start)
            self._result.settings[rule] = Mark(place, Setting(rule, tuple(sorted(settings.items()))))
        if "capture" in attributes:
            self._result.captures[statement.defines] = self._capture_name(
                attributes["capture"], words[name].text
            )
        ending = next((attributes[key] for key in _ENDING_ATTRIBUTES if key in attributes), None)
        if ending and ending.text in EMPTY_STRINGS:
            ending = None  # nothing ends the rule early, as in llguidance
        is_lazy, bounds = "lazy" in attributes or ending is not None, bounds_of(attributes, self._scan)
        reported = attributes.get("stop_capture")
        if reported is not None and ending is None:
            raise self._scan.error("stop_capture is only allowed with suffix or stop", reported.start)
        colon, body = words[close + 1], words[close + 2 :]
        part = next(filter(None, map(self._part_of_rule, words[close + 1 :], body)), None)
        is_terminal = is_lazy or any(bounds)
        if bounds[0] and not (is_lazy or bounds[1]) and (part or _names_regex(body)):
            self._result.budgets[statement.defines] = bounds[0]
            is_terminal = False
        if not is_terminal:
            start, end = words[name + 1].start, words[close].end
            self._edit(start, end, "")
            return False
        if part:
            one = "a rule that is neither lazy nor has max_chars: such a rule is one terminal"
            raise self._scan.error(f"{part.text} is only allowed in {one}", part.start)
        terminal = next(self._names)
        if self._is_read([*body, ending] if ending else body):
            self._read.add(statement.defines)
            operators = Placeholder("operators", words[name], read_body(self._scan, body, words[-1].end))
            self._result.placeholders[terminal] = operators
            self._edit(words[0].start, words[-1].end, "", "\n")
            self._bound(words[name], terminal, ending, bounds, reported, is_lazy=is_lazy)
            return True
        for word in body:
            if (grouped := _grouped(word)) != word.text:
                self._replace(word, grouped)
        head = terminal.ljust(colon.end - words[0].start - 2)
        if any(bounds) or reported is not None:
            self._edit(words[0].start, colon.end, f"{head} :")
            self._bound(words[name], terminal, ending, bounds, reported, is_lazy=is_lazy)
            return True
        self._result.lazy[terminal] = words[name].text
        self._edit(words[0].start, colon.end, f"{head}:(" if ending else f"{head} :")
        if ending:
            self._edit(words[-1].end, words[-1].end, f") {_grouped(ending)}")
        return True

    def _part_of_rule(self, before: Word, word: Word) -> Word | None:
        """`word` of the body of a rule if no terminal can contain it."""
        if word.kind == "name":
            is_rule = word.text.lstrip("_")[:1].islower() and before.kind != "arrow"
            return word if is_rule or word.text in self._numbers else None
        return word if word.kind in ("token", "reference") or word.text in ("%json", "%lark") else None

    @cached_property
    def _numbers(self) -> set[str]:
        """The terminals that are numbers."""
        terminals = [one for one in self._scan.statements if one.kind == "terminal" and len(one.words) == 3]
        words = {one.defines: one.words[2] for one in terminals if one.words[2].text == "%regex"}
        return {name for name, word in words.items() if self._regex(word).kind == "number"}

    def _bound(
        self,
        rule: Word,
        text: str,
        ending: Word | None,
        bounds: tuple[int, int],
        reported: Word | None,
        *,
        is_lazy: bool,
    ) -> None:
        """Add the definition of a rule of bounded length, whose text is the terminal `text`, or whose end is
        reported under the name `reported`."""
        whole, end = next(self._names), "" if ending is None else next(self._names)
        if ending is not None and self._is_read([ending]):
            operators = Placeholder("operators", ending, read_body(self._scan, [ending], ending.end))
            self._result.placeholders[end] = operators
        elif ending is not None:
            self._added.append(f"\n{end}: {_grouped(ending)}")
        name = "" if reported is None else capture_name(self._scan, reported, "stop_capture")
        is_string = ending is None or (
            ending.kind == "string" and len(ending.text) > 2 and ending.text[-1] == '"'
        )
        bounded = BoundedText(text, end, *bounds, name, is_string)
        kind = "ended" if bounded.is_split else "bounded"
        self._result.placeholders[whole] = Placeholder(kind, rule, bounded)
        self._result.bounded |= dict.fromkeys((text, whole), rule.text)
        if is_lazy:
            self._result.lazy[whole] = rule.text
        self._added.append(f"\n{rule.text}: {whole}")

    def _attribute_list(self, words: list[Word], at: int) -> tuple[dict[str, Word], int]:
        """The attributes from word `at` on, each with its value (or itself), and the index of the bracket
        that closes the list."""
        attributes: dict[str, Word] = {}
        while at < len(words):
            key = value = words[at]
            at += 1
            if at + 1 < len(words) and words[at].text == "=":
                end = next((i for i in range(at + 2, len(words)) if words[i].text in ",]"), len(words))
                value = joined_value(words[at + 1 : end], self._scan.text)
                at = end
            self._check_attribute(key, value)
            attributes[key.text] = value
            if at < len(words) and words[at].text == "]":
                return attributes, at
            if at >= len(words) or words[at].text != ",":
                break
            at += 1
        raise self._scan.error("the list of attributes is not closed", words[-1].end)

    def _capture_name(self, value: Word, rule: str) -> str:
        """The name that an attribute `capture` gives: `value`, or that of the rule."""
        return capture_name(self._scan, value) if value.kind == "string" else rule

    def _check_attribute(self, key: Word, value: Word) -> None:
        if key.text in _ENDING_ATTRIBUTES:
            is_valid = value is not key and value.kind in ("string", "regexp", "name")
        elif key.text == "capture":
            is_valid = value is key or value.kind == "string"
        elif key.text == "stop_capture":
            is_valid = value is not key and value.kind == "string"
        elif key.text == "lazy":
            is_valid = value is key
        elif key.text in BOUNDS or key.text in rule_parameters():
            is_valid = value is not key
        else:
            raise self._scan.error(f"rules have no attribute {quoted(key.text)}", key.start)
        if not is_valid:
            raise self._scan.error(f"the attribute {quoted(key.text)} has a wrong value", value.start)


def _names_regex(words: Iterable[Word]) -> bool:
    return any(word.text == "%regex" for word in words)


def _grouped(word: Word) -> str:
    """A word of a rule that is one terminal: a regular expression with alternatives is a group, since
    lark joins those of a terminal as they are."""
    pattern, _, flags = word.text.rpartition("/")
    if word.kind != "regexp" or "|" not in pattern or "x" in flags:
        return word.text
    return f"/(?:{pattern[1:]})/{flags}"


def capture_name(text: Lines, word: Word, attribute: str = "capture") -> str:
    """The name of a capture from the word of its literal. Raises GrammarError."""
    try:
        name = ast.literal_eval(word.text)
    except (SyntaxError, ValueError):
        name = ""
    if not 0 < len(name) <= _MAX_CAPTURE_NAME or not name.isprintable():
        allowed = f"1 to {_MAX_CAPTURE_NAME} characters that can be printed"
        raise text.error(f"{attribute}={quoted(name)} is not allowed: {allowed}", word.start)
    return str(name)


def _new_names(scan: Scan) -> Iterator[str]:
    """Names that the text lacks."""
    taken = {word.text for statement in scan.statements for word in statement.words if word.kind == "name"}
    yield from (name for name in map("X{}".format, count()) if name not in taken)
