"""`engine-sampler new` writes plugins of every kind, whose laws hold at once, and refuses other names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine_sampler.base.packaged import header_text
from engine_sampler.cli.main import PLUGIN_KINDS, main
from engine_sampler.cli.new import LONGEST, PARTS
from engine_sampler.registry import CORE_PARAMS, Registry
from engine_sampler.testing import BackendContract, failing_laws
from engine_sampler.testing.plugins import Search, check_plugin

from ..backends.library.building import compile_c
from ..testing.briefly import broken_by, searched_briefly

PYTHON_KINDS = [kind for kind in PLUGIN_KINDS if kind != "library"]
CHAINS = 4
"""Random chains for a backend, fewer than a newcomer's."""


def written(kind: str, name: str, folder: Path) -> Path:
    assert main(["new", kind, name, "--directory", str(folder)]) == 0
    return folder


def imported(monkeypatch: pytest.MonkeyPatch, folder: Path, module: str) -> ModuleType:
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(module)


def test_every_kind_can_be_written() -> None:
    assert set(PLUGIN_KINDS) == set(PARTS)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_what_is_written_registers_and_keeps_every_law(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"new_{kind}"
    folder = written(kind, name, tmp_path / "plugin")
    plugin = imported(monkeypatch, folder, f"engine_sampler_{name}")
    registry = Registry(CORE_PARAMS)
    status = registry.register(plugin, name)
    [provided] = status.provides
    assert provided.partition("/")[2] == name
    tests: Any = imported(monkeypatch, folder, f"test_engine_sampler_{name}")
    monkeypatch.setattr(BackendContract, "chains", CHAINS)
    assert failing_laws(type("Smaller", (tests.TestLaws,), {"vocab_sizes": (40,)})) == {}
    assert not failing_functions(tests)
    searched_briefly(monkeypatch)
    assert broken_by(name, registry) == {}


def failing_functions(tests: ModuleType) -> list[str]:
    """The functions `test_…` of a module without parameters that fail."""
    failing = []
    for name, function in vars(tests).items():
        if name.startswith("test_") and not function.__code__.co_argcount:
            try:
                function()
            except AssertionError:
                failing.append(name)
    return failing


def test_a_new_library_compiles_and_keeps_its_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written("library", "new_library", tmp_path / "plugin")
    source = folder / "engine_sampler_new_library" / "new_library.c"
    for header in ("engine_sampler.h", "engine_sampler_numbers.h"):
        (tmp_path / header).write_text(header_text(header), "utf-8")
    compile_c(source, source.with_suffix(".so"), f"-I{tmp_path}", "-shared", "-fPIC", "-fvisibility=hidden")
    plugin = imported(monkeypatch, folder, "engine_sampler_new_library")
    monkeypatch.setattr(plugin, "LIBRARY", source.with_suffix(".so"))
    registry = Registry(CORE_PARAMS)
    assert registry.register(plugin).provides == ("backends/new_library",)
    [checked] = check_plugin("new_library", registry, Search(["promises", "rows"]))
    outcomes = {result.name: result.outcome for result in checked.results}
    assert outcomes["tokens"] == outcomes["EXACT"] == outcomes["rows"] == "passed"
    assert "failed" not in outcomes.values()
    tests: Any = imported(monkeypatch, folder, "test_engine_sampler_new_library")
    monkeypatch.setattr(tests, "LIBRARY", plugin.LIBRARY)
    tests.test_the_tokens_are_those_of_the_reference()


@pytest.mark.parametrize("name", ["x", "z" * LONGEST])
def test_what_is_written_is_formatted_and_free_of_lint(name: str, tmp_path: Path) -> None:
    for kind in PLUGIN_KINDS:
        written(kind, name, tmp_path / kind)
    for arguments in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        command = [sys.executable, "-m", "ruff", *arguments, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if "No module named ruff" in done.stderr:
            pytest.skip("ruff is not installed")
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_everything_is_there_and_imports_only_what_is_public(kind: str, tmp_path: Path) -> None:
    folder = written(kind, "mine", tmp_path / "plugin")
    project = (folder / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.engine_sampler]\nmine = "engine_sampler_mine"\n' in project
    assert "engine-sampler check mine" in (folder / "README.md").read_text("utf-8")
    assert len((folder / "README.md").read_text("utf-8").splitlines()) <= 30
    assert "- run: pytest\n" in (folder / ".github/workflows/test.yml").read_text("utf-8")
    assert (folder / "test_engine_sampler_mine.py").is_file()
    texts = [path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()]
    assert not any(re.search("my.plugin|MyPlugin", text) for text in texts)
    modules = {
        name for text in texts for name in re.findall(r"^(?:from|import) (engine_sampler\S*)", text, re.M)
    }
    public = {
        f"engine_sampler{part}"
        for part in ("", ".arithmetic", ".contract", ".for_backends", ".testing", "_mine")
    }
    assert modules <= public


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("top_k", "engine-sampler"),
        ("seed", "has params/seed already"),
        ("my-cut", "such as my_cut"),
        ("MyCut", "such as mycut"),
        ("class", "no keyword of Python"),
        ("2nd", "letter first"),
        ("", "letter first"),
        ("../mine", "letter first"),
        ("x" * (LONGEST + 1), f"up to {LONGEST}"),
        ("replace", "SamplingParams has a method or keyword of this name"),
        ("truncation", "its class, Truncation, would hide another"),
        ("none", "its class, None, would hide another"),
    ],
)
def test_a_name_that_no_plugin_can_have_is_refused(
    name: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "sampler", name]) == 2
    error = capsys.readouterr().err
    assert f"NAME={name!r} is not allowed" in error
    assert reason in error
    assert not list(tmp_path.iterdir())


def test_a_name_is_refused_only_where_it_would_hide_something(tmp_path: Path) -> None:
    written("grammar", "truncation", tmp_path / "grammar")
    written("sampler", "my_plugin", tmp_path / "sampler")
    assert main(["new", "backend", "exception", "--directory", str(tmp_path / "backend")]) == 2


def test_nothing_is_ever_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "README.md").write_text("mine", "utf-8")
    assert main(["new", "sampler", "mine", "--directory", str(folder)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert (folder / "README.md").read_text("utf-8") == "mine"


def test_what_to_do_next_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "grammar", "my_words"]) == 0
    printed = capsys.readouterr().out
    assert 'pip install -e "engine-sampler-my-words[test]"' in printed
    assert (tmp_path / "engine-sampler-my-words" / "engine_sampler_my_words.py").is_file()
