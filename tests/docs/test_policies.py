"""What the pages say of versions holds in the files that a release consists of."""

from __future__ import annotations

import re

from .pages import DOCS, ROOT

POLICIES = (DOCS / "policies.md").read_text(encoding="utf-8")
VERSION = re.search(
    r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
)


def test_templates_pin_what_the_policies_say() -> None:
    pin = re.search(r'"(engine-sampler>=[^"]*)"', POLICIES)
    assert pin is not None
    for template in (ROOT / "engine_sampler" / "cli" / "templates").glob("*/pyproject.toml.template"):
        assert f'dependencies = ["{pin[1]}"' in template.read_text(encoding="utf-8"), template


def test_the_changelog_has_a_section_for_the_version_below_what_is_unreleased() -> None:
    assert VERSION is not None
    sections = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[:2] == ["Unreleased", VERSION[1]]


def test_plugins_have_the_version_of_the_library() -> None:
    assert VERSION is not None
    for plugin in ROOT.glob("plugins/*/pyproject.toml"):
        assert f'version = "{VERSION[1]}"' in plugin.read_text(encoding="utf-8"), plugin
