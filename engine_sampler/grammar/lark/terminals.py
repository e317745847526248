"""Terminals of a lark grammar as terminals of `Rules`.

The definition of a terminal becomes one regular expression, as lark makes it for its own lexers;
`regex.pattern` converts that to an expression over bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lark import Tree
from lark.grammar import Terminal
from lark.lexer import Pattern

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EMPTY, EPSILON, Expression, concat, literal, looks_ahead, union
from ..program.rules import Rules
from ..program.special_names import MAX_TOKEN_SETS
from ..program.unicode import either_case
from ..program.words import any_of, any_sequence_of
from ..regex.beginning import ANY_TEXT, Before, TextBeforeError
from ..regex.pattern import pattern_expression, terminal_expression
from ..work import spend
from .dead_ends.terminal_states import TerminalStates
from .dialect import Rewritten
from .extensions.placeholders import Placeholder
from .extensions.regular_rules import RegularRule
from .extensions.rule_attributes import BoundedText, text_before_end
from .extensions.substring import substring_expression
from .extensions.terminal_operators import expression_of
from .extensions.text_ends import pairs_of
from .lazy_terminals import prefix_free
from .messages import Messages
from .statements import EMPTY_STRINGS, ENDLESS, Word
from .terminal_patterns import literal_pattern, pattern_of, plain_text

_UNBOUNDED = f",{ENDLESS}}}", ",}"

MAX_UNION = 64
"""The most literals of a choice that become one terminal."""


class Terminals:
    """The terminals of one grammar, each created when it is first needed.

    definitions     the tree of each terminal; None for a declared one
    rewritten       the text that they come from: the meaning of its placeholders, and which are lazy
    special_tokens  the ids of special tokens, by name; also the meaning of declared terminals
    declared        regular expressions of declared terminals
    changed         expressions that replace others, by the keys of `found`
    before          what may stand before terminals that depend on it, by these keys; None: such are refused

    `found` maps each terminal, by its name or its literals, to its symbol and its expression; `undecided` are
    those that depend on the text before them while it is not in `before`: their conditions are left out.
    `ends` are as in `guarded_terminals`.
    """

    def __init__(
        self,
        rules: Rules,
        definitions: Mapping[str, Any],
        messages: Messages,
        rewritten: Rewritten,
        special_tokens: Mapping[str, int],
        declared: Mapping[str, str],
        changed: Mapping[str, Expression],
        before: Mapping[str, Before] | None,
    ) -> None:
        self._rules = rules
        self._definitions = definitions
        self._messages = messages
        self._rewritten = rewritten
        self._special_tokens = special_tokens
        self._named_tokens = set(special_tokens)  # some mappings have values for more names than they list
        self._declared = declared
        self._changed = changed
        self._before = before
        self._symbols: dict[str, int] = {}
        self._literals: dict[str, Expression] = {}
        self._special: dict[tuple[int, ...], int] = {}
        self._others: dict[tuple[int, ...], int] = {}
        """The symbols of any token but some, by these."""
        self._open: set[str] = set()
        """The terminals with operators that are being read."""
        self.found: dict[str, tuple[int, Expression]] = {}
        self.undecided: set[str] = set()
        self.ends: dict[int, tuple[int, Expression]] = {}

    def symbol(self, name: str) -> int:
        """The symbol of the terminal `name`. Raises GrammarError."""
        symbol = self._symbols.get(name)
        if symbol is None:
            symbol = self._symbols[name] = self._new(name)
        return symbol

    def ignored(self, name: str) -> int:
        """The symbol of the terminal `name`, which is ignored: what follows it must not decide where it ends.

        Raises GrammarError.
        """
        symbol = self.symbol(name)
        expression = self._rules.expressions[symbol]
        if expression is None:
            raise self._messages.about_terminal("a special token cannot be ignored", name, None)
        if not looks_ahead(expression):
            return symbol
        apart = TerminalStates([expression]).apart(0)
        if apart is None:
            text = (
                "an ignored terminal cannot look at what follows it: its own text must go on behind (?!...), "
                'unless lexer="contextual" reads the grammar'
            )
            raise self._messages.about_terminal(text, name, None)
        return self._rules.terminal(name, apart)

    def expression(self, name: str) -> Expression:
        """The expression of the terminal `name`. Raises GrammarError."""
        placeholder = self._rewritten.placeholders.get(name)
        if placeholder is not None and placeholder.kind == "operators":
            return self._operators(name, placeholder)
        if placeholder is not None and placeholder.kind == "expression":
            found: Expression = placeholder.value
            return found
        if placeholder is not None and placeholder.kind == "bounded":
            return self._bounded(placeholder)
        if placeholder is not None:
            return self._placed(placeholder)
        tree = self._definitions[name]
        if tree is None:
            pattern = self._declared.get(name)
            return EMPTY if pattern is None else self._read(pattern, name, None)
        if (words := _listed_words(tree)) is not None:
            return self._any_of(words)
        if not isinstance(tree, Pattern):
            with self._messages.translated(terminal=name):
                tree = pattern_of(tree)
        return self._of_pattern(tree, name, None)

    def anonymous(self, node: Any) -> int:
        """The symbol of a literal or a range in a rule, a tree of lark's. Raises GrammarError."""
        name = "..".join(map(str, node.children))
        known = self.found.get(name)
        return self._add(name, self._of_literal(name, node)) if known is None else known[0]

    def choice(self, nodes: list[Any]) -> list[int]:
        """Symbols that together match any one of the literals `nodes`: a few terminals instead of many."""
        symbols = []
        words = [node for node in nodes if _is_string(node)]
        if len(words) > MAX_UNION:
            tokens = [node.children[0] for node in words]
            symbols.append(self._add(" | ".join(tokens), self._any_of([[token] for token in tokens])))
            nodes = [node for node in nodes if not _is_string(node)]
        for i in range(0, len(nodes), MAX_UNION):
            some = nodes[i : i + MAX_UNION]
            names = ["..".join(map(str, node.children)) for node in some]
            parts = dict(zip(names, map(self._of_literal, names, some), strict=True))
            symbols += [
                self._add(name, parts.pop(name)) for name in names if self._depends(name) and name in parts
            ]
            if parts:
                symbols.append(self._add(" | ".join(parts), union(*parts.values())))
        return symbols

    def _depends(self, name: str) -> bool:
        """Whether a terminal depends on the text before it."""
        return name in self.undecided or name in (self._before or ())

    def _new(self, name: str) -> int:
        placeholder = self._rewritten.placeholders.get(name)
        if placeholder is not None and placeholder.kind == "other":
            return self._other_token(placeholder)
        if placeholder is not None and placeholder.is_token:
            return self._special_symbol(placeholder.word.text, self._token_ids(placeholder))
        if self._definitions[name] is None and name in self._named_tokens:
            return self._special_symbol(name, (self._special_tokens[name],))
        expression = self.expression(name)
        budget = placeholder.value.max_tokens if placeholder and placeholder.kind == "bounded" else 0
        text = prefix_free(expression) if name in self._rewritten.lazy else expression
        return self._add(name, text, budget=budget)

    def _add(self, name: str, expression: Expression, *, is_alone: bool = False, budget: int = 0) -> int:
        known = self.found.get(name)
        if known is None:
            shared = name not in self.undecided and not is_alone
            changed = self._changed.get(name, expression)
            symbol = self._rules.terminal(name, changed, shared=shared, budget=budget)
            known = self.found[name] = symbol, expression
        return known[0]

    def _special_symbol(self, name: str, ids: tuple[int, ...]) -> int:
        if ids not in self._special:
            self._special[ids] = self._rules.special(name, ids)
        return self._special[ids]

    def _token_ids(self, placeholder: Placeholder) -> tuple[int, ...]:
        if placeholder.kind == "ids":
            return tuple(placeholder.value)
        return (self._token_id(placeholder.value, placeholder),)

    def _token_id(self, name: str, placeholder: Placeholder) -> int:
        if name not in self._special_tokens:
            raise self._messages.error(f"{name} is not a special token", placeholder.word.start)
        return self._special_tokens[name]

    def _other_token(self, placeholder: Placeholder) -> int:
        """The symbol of any token but those of the placeholder."""
        values = placeholder.value
        ids = tuple(one if isinstance(one, int) else self._token_id(one, placeholder) for one in values)
        if ids not in self._others:
            if len(self._others) == MAX_TOKEN_SETS:
                text = f"more than {MAX_TOKEN_SETS} different sets of tokens are excluded"
                raise GrammarLimitError(text, *self._messages.location(placeholder.word.start))
            self._others[ids] = self._rules.token_except(ids)
        return self._others[ids]

    def _placed(self, placeholder: Placeholder) -> Expression:
        """The expression of a rule or of a `%regex`, whose errors have no place of their own."""
        try:
            if placeholder.kind == "rule":
                rule: RegularRule = placeholder.value
                return rule.expression(self._atom)
            if placeholder.kind == "number":
                raise GrammarError("a number cannot be part of another terminal, or be ignored")
            return substring_expression(placeholder.value)
        except GrammarError as error:
            location = self._messages.location(placeholder.word.start)
            raise type(error)(error.text, *location) from None

    def _atom(self, node: Any) -> tuple[Expression, int]:
        """The expression of a part of a rule that is one terminal, and how long it is as text."""
        if not isinstance(node, Terminal):
            name = "..".join(map(str, node.children))
            return self._of_literal(name, node), len(name)
        placeholder = self._rewritten.placeholders[node.name]
        word = placeholder.word
        if placeholder.is_token:
            raise GrammarError(f"{word.text} cannot be part of one terminal: it is a token")
        return self.expression(node.name), word.end - word.start

    def _bounded(self, placeholder: Placeholder) -> Expression:
        """The expression of a terminal of bounded length."""
        bounded: BoundedText = placeholder.value
        text = bounded.shortened(self._apart(bounded.text, placeholder.word))
        return concat(text, self._apart(bounded.end, placeholder.word)) if bounded.end else text

    def ended(self, placeholder: Placeholder) -> list[tuple[int, int]]:
        """The symbols of the texts of an "ended" rule, each with that of the ends that follow these."""
        bounded: BoundedText = placeholder.value
        word = placeholder.word
        text = bounded.shortened(self._apart(bounded.text, word))
        end = self._apart(bounded.end, word)
        if bounded.is_string:
            pairs = [(text_before_end(text, end[1]), end)]
            whole = concat(*pairs[0])
        else:
            whole = prefix_free(concat(text, end))
            try:
                pairs = pairs_of(text, end, whole)
            except GrammarLimitError as error:
                place = self._messages.location(word.start)
                raise GrammarLimitError(f"{word.text}: {error.text}", *place) from None
        return [self._pair(f"{bounded.text}, {i}", pair, bounded, whole) for i, pair in enumerate(pairs)]

    def _pair(
        self, name: str, pair: tuple[Expression, Expression], bounded: BoundedText, whole: Expression
    ) -> tuple[int, int]:
        text = self._add(f"{name}, text", pair[0], is_alone=True, budget=bounded.max_tokens)
        end = self._add(f"{name}, end", pair[1], is_alone=True)
        self.ends[text] = end, whole
        return text, end

    def _operators(self, name: str, placeholder: Placeholder) -> Expression:
        """The expression of a terminal with `&` or `~`."""
        if name in self._open:
            raise self._messages.about_terminal("it contains itself", name, None)
        self._open.add(name)
        try:
            return expression_of(placeholder.value.body, self._operand, self._whole_literal)
        except GrammarError as error:
            raise error if error.line else self._messages.about_terminal(error, name, None) from None
        finally:
            self._open.discard(name)

    def _operand(self, word: Word) -> Expression:
        placeholder = self._rewritten.placeholders.get(word.text)
        if placeholder is None and word.text not in self._definitions:
            raise self._messages.error(f"the terminal {word.text} is used but not defined", word.start)
        return self._apart(word.text, word, "& and ~")

    def _apart(self, name: str, word: Word, needed_by: str = "max_tokens and max_chars") -> Expression:
        """The expression of a terminal that must not depend on what is around it; errors are about `word`."""
        found = self.expression(name)
        if name in self.undecided or looks_ahead(found):
            text = f"{word.text} depends on the text around it, which {needed_by} do not allow"
            raise self._messages.error(text, word.start)
        return found

    def _whole_literal(self, node: Any) -> Expression:
        token = node.children[0]
        if str(token) in EMPTY_STRINGS:
            return EPSILON
        with self._messages.translated(token):
            pattern = literal_pattern(node)
        try:
            return pattern_expression(pattern.to_regexp().replace(*_UNBOUNDED))
        except GrammarError as error:
            raise self._messages.about_terminal(error, token, token) from None

    def _any_of(self, words: list[list[Any]]) -> Expression:
        """Any one of these words, each of which is one string or a sequence of them."""
        spend(4 * sum(map(len, words)))
        if any(word[0].endswith("i") for word in words):
            return any_sequence_of(map(self._characters, words))
        texts = [b"".join(self._encoded(self._string(one), one, one) for one in word) for word in words]
        return literal(texts[0]) if len(texts) == 1 else any_of(texts)

    def _characters(self, word: list[Any]) -> tuple[Expression, ...]:
        return tuple(
            either_case(c) if token.endswith("i") else literal(self._encoded(c, token, token))
            for token in word
            for c in self._string(token)
        )

    def _string(self, token: Any) -> str:
        """The text of a string, without its flag."""
        if (text := plain_text(token)) is not None:
            return text
        with self._messages.translated(token):
            return literal_pattern(Tree("literal", [token])).value

    def _of_literal(self, name: str, node: Any) -> Expression:
        known = self._literals.get(name)
        if known is None:
            token = node.children[0]
            if _is_string(node) and not token.endswith("i"):
                known = self._literals[name] = literal(self._encoded(self._string(token), name, token))
                return known
            with self._messages.translated(token):
                pattern = literal_pattern(node)
            known = self._literals[name] = self._of_pattern(pattern, name, token)
        return known

    def _of_pattern(self, pattern: Pattern, name: str, token: Any) -> Expression:
        if pattern.type == "str" and not pattern.flags:
            return literal(self._encoded(pattern.value, name, token))
        return self._read(pattern.to_regexp().replace(*_UNBOUNDED), name, token)

    def _encoded(self, text: str, name: str, token: Any) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise self._messages.about_terminal("half of a surrogate pair is not text", name, token) from None

    def _read(self, pattern: str, name: str, token: Any) -> Expression:
        before = self._before
        try:
            try:
                return terminal_expression(pattern, before=before.get(name) if before else None)
            except TextBeforeError:
                if before is None or name in before:
                    raise
                self.undecided.add(name)
                return terminal_expression(pattern, before=ANY_TEXT)
        except GrammarError as error:
            raise self._messages.about_terminal(error, name, token) from None


def _listed_words(tree: Any) -> list[list[Any]] | None:
    """The words of a terminal that is a list of them, each a string or a sequence of strings without flags;
    None for any other.

    Lark tries the longest ones first, so that each of them is matched where it is the whole text.
    """
    if isinstance(tree, Pattern):
        return None
    words = []
    for child in tree.children:
        node = _only_part(child)
        if _is_string(node):
            words.append([node.children[0]])
        elif node.data == "expansion" and node.children and (word := _joined_strings(node)):
            words.append(word)
        else:
            return None
    if len(words) == 1 and not all(map(_is_plain, words[0])):
        return None
    return words


def _joined_strings(sequence: Any) -> list[Any] | None:
    """The strings that follow each other; None if anything else is among them, or a flag or an escape."""
    parts = [_only_part(child) for child in sequence.children]
    tokens = [part.children[0] for part in parts if _is_string(part)]
    return tokens if len(tokens) == len(parts) and all(map(_is_plain, tokens)) else None


def _is_plain(token: Any) -> bool:
    return plain_text(token) is not None and not token.endswith("i")


def _only_part(node: Any) -> Any:
    """What `node` consists of, without the nodes that hold one part only."""
    while node.data in ("expansion", "expansions", "value") and len(node.children) == 1:
        if not isinstance(node.children[0], Tree):
            break
        node = node.children[0]
    return node


def _is_string(node: Any) -> bool:
    return node.data == "literal" and node.children[0].type == "STRING"
