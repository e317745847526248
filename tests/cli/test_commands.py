"""Commands that other distributions add."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from engine_sampler.cli import commands
from engine_sampler.cli.main import main


@pytest.fixture
def _plugins(monkeypatch):
    hello = types.ModuleType("hello_command")

    def add_options(parser):
        parser.add_argument("--name", default="world")

    def run(arguments):
        """Say hello."""
        print(f"hello {arguments.name}")

    hello.add_options, hello.run = add_options, run
    monkeypatch.setitem(sys.modules, "hello_command", hello)
    named = {"hello": "hello_command", "broken": "no_such_module", "plugins": "hello_command"}
    points = EntryPoints(EntryPoint(name, value, commands.GROUP) for name, value in named.items())
    monkeypatch.setattr(commands, "entry_points", lambda group: points)


@pytest.mark.usefixtures("_plugins")
class TestPluginCommands:
    def test_a_command_runs_with_its_options(self, capsys):
        assert main(["hello", "--name", "you"]) == 0
        assert capsys.readouterr().out == "hello you\n"

    def test_it_is_listed_with_its_help(self, capsys):
        with pytest.raises(SystemExit):
            main(["--help"])
        assert "Say hello." in capsys.readouterr().out

    def test_one_that_cannot_be_loaded_says_so_when_it_is_called_and_breaks_no_other(self, capsys):
        assert main(["hello"]) == 0
        assert main(["broken"]) == 2
        assert "command broken (no_such_module): ModuleNotFoundError" in capsys.readouterr().err

    def test_no_plugin_takes_a_command_of_the_package(self, capsys):
        assert main(["plugins"]) == 0
        assert "hello" not in capsys.readouterr().out
