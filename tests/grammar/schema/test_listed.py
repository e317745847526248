"""Long lists of objects and arrays in `enum`."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError
from engine_sampler.grammar.correction.correction import complete
from engine_sampler.grammar.schema import listed as schema_listed
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.listed import MIN_LISTED, ListedAutomaton, _bits, _Progress
from engine_sampler.grammar.schema.options import SchemaOptions

from .judging import Judge

ITEMS = [{"id": number, "name": f"item {number}"} for number in range(2000)]


def test_thousands_of_objects_with_keys_in_any_order() -> None:
    judge = Judge({"enum": ITEMS})
    assert judge.accepts('{"id": 7, "name": "item 7"}')
    assert judge.accepts('{"name": "item 1999", "id": 1999.0}')
    for wrong in ('{"id": 7, "name": "item 8"}', '{"id": 7}', "{}", '{"id": 2000, "name": "item 2000"}'):
        assert not judge.accepts(wrong)
    assert not judge.begins('{"id": 7, "name": "item 8')
    assert not judge.begins('{"id": 7, "id"')


def test_thousands_of_arrays() -> None:
    judge = Judge({"type": "array", "enum": [[number, [number % 7]] for number in range(2000)]})
    assert judge.accepts("[70, [0]]")
    assert not judge.begins("[70, [1")
    assert not judge.accepts("[70]")


def test_keys_in_the_order_of_each_object() -> None:
    judge = Judge({"enum": ITEMS}, key_order="schema")
    assert judge.accepts('{"id": 7, "name": "item 7"}')
    assert not judge.begins('{"n')


def random_value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.randrange(4 if depth else 2)
    if kind == 0:
        keys = random_.sample("abc", random_.randrange(4))
        return {key: random_value(random_, depth + 1) for key in keys}
    if kind == 1:
        return [random_value(random_, depth + 1) for _ in range(random_.randrange(3))]
    return random_.choice([0, 1, True, False, None, "", "x", "xy"])


def orders(value: Any) -> Any:
    """The value with the keys of its outer object in every order."""
    if not isinstance(value, dict):
        return [value]
    return [dict(members) for members in itertools.permutations(value.items())]


@pytest.mark.parametrize(("apart", "states"), [(0, 30_000), (2, 30_000), (32, 30_000), (0, 1)])
def test_exactly_the_listed_values_are_accepted(
    apart: int, states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_listed, "_APART", apart)
    monkeypatch.setattr(schema_listed, "_FEW_STATES", states)
    random_ = random.Random(apart)
    listed = [random_value(random_) for _ in range(3 * MIN_LISTED)]
    known = {json.dumps(value, sort_keys=True) for value in listed}
    judge = Judge({"enum": listed})
    for value in listed + [random_value(random_) for _ in range(100)]:
        for same in orders(value):
            assert judge.accepts_value(same) == (json.dumps(value, sort_keys=True) in known)


def test_thousands_of_nested_objects_with_numbers_and_other_scripts() -> None:
    values = [
        {"ид": number, "имя": {"名": [f"é{number}", number / 4], "k": None}, "z": {"y": {"x": number % 3}}}
        for number in range(150)
    ]
    judge = Judge({"enum": values})
    assert judge.accepts('{"z": {"y": {"x": 1}}, "имя": {"k": null, "名": ["é7", 1.75]}, "ид": 7.0}')
    assert not judge.begins('{"z": {"y": {"x": 2}}, "имя": {"k": null, "名": ["é7",')
    assert not judge.begins('{"имя": {"名": ["é7", 1.75], "k": null}, "ид": 8')


def test_thousands_of_objects_with_many_keys() -> None:
    random_ = random.Random(5)
    values = [{f"k{key}": random_.randrange(9) for key in range(8)} | {"n": n} for n in range(300)]
    judge = Judge({"enum": values})
    members = list(values[123].items())
    for _ in range(20):
        random_.shuffle(members)
        assert judge.accepts_value(dict(members))
        assert not judge.accepts_value({**dict(members), "n": 124})
        assert not judge.accepts_value(dict(members[1:]))


def test_keys_that_never_meet_need_no_bits_of_their_own() -> None:
    values = [{f"a{number}": 1, f"b{number}": 2, "c": number % 5} for number in range(500)]
    judge = Judge({"enum": values})
    assert judge.accepts('{"b77": 2, "c": 2, "a77": 1}')
    assert not judge.begins('{"b77": 2, "c": 2, "a78"')
    assert not judge.begins('{"b77": 2, "b77"')


def test_no_beginning_leads_nowhere() -> None:
    listed: list[Any] = [
        {"a": 1},
        {"a": 1, "b": 2},
        {"b": 2, "c": [1]},
        {},
        *({"a": n} for n in range(2, 40)),
    ]
    listed.append({"d": "\ud800"})
    program = rules_from_schema({"enum": listed}, SchemaOptions(whitespace="compact")).program()
    for value in listed[:-1]:
        for same in orders(value):
            text = json.dumps(same, separators=(",", ":"))
            for end in range(len(text)):
                assert complete(program, text[:end]) is not None
    assert complete(program, '{"d') is None


def test_a_long_list_is_combined_with_other_assertions() -> None:
    listed = [{"id": number, "odd": number % 2} for number in range(100)]
    odd = Judge({"enum": listed, "properties": {"odd": {"const": 1}}})
    assert odd.accepts('{"id": 7, "odd": 1}')
    assert not odd.begins('{"id": 8,')
    either = Judge({"anyOf": [{"enum": listed}, {"type": "string"}]})
    assert either.accepts('"x"')
    assert either.accepts('{"odd": 0, "id": 8}')


def test_lists_that_need_too_many_states_name_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [{key: number >> bit & 1 for bit, key in enumerate("abcdef")} for number in range(64)]
    with monkeypatch.context() as patched:
        patched.setattr(schema_listed, "_FEW_STATES", 100)
        patched.setattr(schema_listed, "MAX_LISTED_STATES", 500)
        with pytest.raises(GrammarLimitError, match="a list of constants needs more than 500 states"):
            Grammar.from_json_schema({"enum": many})
    keys = [{f"key {number}": 1 for number in range(1200)}, *({"a": one} for one in range(40))]
    with pytest.raises(GrammarLimitError, match="a list of constants has more than 1000 keys"):
        Grammar.from_json_schema({"enum": keys})
    with pytest.raises(GrammarError, match="no value is valid"):
        Grammar.from_json_schema({"enum": [{"\ud800": number} for number in range(100)]})


def test_a_list_that_cannot_do_with_the_states_allowed_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least number of states, which decides that, is never above the number that an automaton has."""
    pairs = []
    build = ListedAutomaton._build

    def compared(self: ListedAutomaton, apart: int, max_states: int) -> bool:
        assert build(self, apart, max_states)
        first = _Progress(tuple(range(len(self._constants))), 0)
        pairs.append((self._least_states(self._choices(first), apart), len(self.states)))
        return True

    monkeypatch.setattr(ListedAutomaton, "_build", compared)
    random_ = random.Random(7)
    for number in range(16):
        monkeypatch.setattr(schema_listed, "_APART", number % 4)
        listed = [random_value(random_) for _ in range(3 * MIN_LISTED)]
        for key_order in ("any", "schema"):
            rules_from_schema({"enum": listed}, SchemaOptions(key_order=key_order))
    assert len(pairs) > 30
    assert all(least <= states for least, states in pairs)


def test_the_bits_of_keys_have_their_order() -> None:
    """So that a schema has the same program in every process."""
    members = [(key, 0, None) for key in "zyxwvutsabc"]
    assert list(_bits([members, members[1:]])) == [*"zyxwvutsabc"]
