import pytest

from engine_sampler.tokenizer.gguf_ends import find_ends


def ends(tokens, **keys):
    """The names of the tokens that end a text, and the name of the end-of-turn token."""
    eos, eot = find_ends({"tokens": tokens, **keys})
    return [tokens[i] for i in eos], None if eot is None else tokens[eot]


def test_a_plain_vocabulary_has_no_ends():
    assert ends(["a", "b"]) == ([], None)


def test_the_keys_of_the_file_take_precedence():
    keys = {"eom_token_id": 1, "eot_token_id": 2, "eos_token_id": 3}
    assert ends(["a", "m", "t", "s"], **keys) == (["s", "t", "m"], "t")


def test_ids_beyond_the_vocabulary_are_ignored():
    assert ends(["a"], eos_token_id=1, eot_token_id=2**32 - 1) == ([], None)


def test_names_are_known():
    tokens = [
        "a",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
    ]
    names, turn = ends(tokens, eos_token_id=1)
    assert names[0] == "<|endoftext|>"
    assert set(names) == {*tokens} - {"a", "<|im_start|>"}
    assert turn == "<|im_end|>"


def test_a_key_overrides_names():
    assert ends(["<|fim_pad|>", "x"], fim_pad_token_id=1) == (["x"], None)


@pytest.mark.parametrize("others", [["<|return|>", "<|call|>"], ["<|flush|>", "<|calls|>"]])
def test_the_end_of_a_part_does_not_end_a_text_if_there_is_an_end_of_a_call(others):
    names, turn = ends(["<|end|>", *others])
    assert set(names) == set(others)
    assert turn is None
    assert ends(["<|end|>", others[0]])[1] == "<|end|>"


def test_an_old_end_does_not_end_a_text_if_there_is_a_tool_response():
    assert ends(["</s>", "<|tool_response>"]) == (["<|tool_response>"], None)
    assert ends(["</s>"]) == (["</s>"], None)
