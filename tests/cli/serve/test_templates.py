"""Chat templates of models are rendered as transformers renders them, in a sandbox."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from engine_sampler.cli.serve.command import model_of
from engine_sampler.cli.serve.templates import jinja, plain

MESSAGES = [{"role": "user", "content": "ü"}]


def test_a_model_without_a_template_is_given_roles_and_texts() -> None:
    assert plain(MESSAGES, None) == "user: ü\nassistant:"


def test_a_template_has_messages_tools_and_special_tokens() -> None:
    pytest.importorskip("jinja2")
    text = (
        "{{ bos_token }}{% for one in messages %}{% if not one.role %}{% continue %}{% endif %}\n"
        "{{ one.content }}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    assert jinja(text, bos_token="<s>")(MESSAGES, [{"name": "ü"}]) == '<s>ü[{"name": "ü"}]>'
    assert jinja(text, bos_token="")(MESSAGES, []) == "ü>"
    assert jinja("{{ strftime_now('%Y') }}")(MESSAGES, None).isdecimal()


@pytest.mark.parametrize(
    "text", ["{{ raise_exception('no') }}", "{{ messages.append(1) }}", "{{ ''.__class__.__mro__[1] }}"]
)
def test_a_template_refuses_messages_and_changes_nothing(text: str) -> None:
    jinja2 = pytest.importorskip("jinja2")
    with pytest.raises(jinja2.TemplateError):
        jinja(text)(MESSAGES, None)


@pytest.mark.parametrize(
    ("template", "family"),
    [(None, "qwen_3"), ("<|START_ACTION|><|END_ACTION|>", "command_r7b"), ("{{ messages }}", "json_list")],
)
def test_the_family_is_found_in_the_template(
    corpus: Path, tmp_path: Path, template: str | None, family: str
) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    file = None if template is None else tmp_path / "template.jinja"
    if file is not None:
        file.write_text(template or "")
    options = {"gguf": None, "transformers": None, "corpus": corpus, "backend": "auto", "chat_template": file}
    options |= {"unknown": "log", "drafter": None}
    assert model_of(Namespace(**options, tool_family="auto", max_requests=8)).family == family
