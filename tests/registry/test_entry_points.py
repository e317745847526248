"""Installed plugins, good and broken: real distributions, each report from a separate process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .wheels import install, make_wheel

Report = dict[str, Any]

SAMPLER = """
from engine_sampler.contract import Param, Sampler
from engine_sampler.contract import hookimpl

class Shift(Sampler):
    '''Add a number to every logit.'''
    name = "{name}"
    params = (Param("{name}", float, neutral=0.0, low=-10, high=10),)
    def apply(self, logits, rows):
        logits += rows["{name}"].astype("float32")[:, None]
"""

HOOK = """
@hookimpl
def register_samplers(register):
    register(Shift())
"""


def shift(name: str, hook: str = HOOK, more: str = "") -> str:
    """The source of a plugin with the sampler `name`; `more` comes before its hook."""
    return SAMPLER.format(name=name) + more + hook


DISTRIBUTIONS = {
    "alpha-shift": shift("alpha"),
    "zulu-shift": shift("zulu"),
    "asks-while-loading": shift("curious")
    + "from engine_sampler.params import SamplingParams\nDEFAULT = SamplingParams(top_k=3)\n",
    "broken-api": shift("future", more="Shift.api = 99\n"),
    "broken-import": "import a_module_that_nobody_has\n",
    "broken-exit": "raise SystemExit(3)\n",
    "broken-syntax": "def register_samplers(register:\n",
    "broken-hook-name": shift("misspelt", hook=HOOK.replace("register_samplers", "register_sampler")),
    "broken-hook-mark": shift("unmarked", hook=HOOK.replace("@hookimpl", "")),
    "broken-object": shift("unmade", hook=HOOK.replace("Shift()", "Shift")),
    "broken-neutral": shift(
        "biased", more="Shift.params = (Param('biased', float, 20.0, low=-10, high=10),)\n"
    ),
    "broken-halfway": shift("halfway", hook=HOOK + "    raise OSError('no more')\n"),
    "broken-always-on": shift("eager", more="Shift.is_active = lambda self, params: True\n"),
    "takes-built-in-name": shift("top_k"),
    "takes-built-in-param": shift("warmth", more="Shift.params = (Param('temperature', float, 1.0),)\n"),
    "follows-zulu": shift("follower", more="Shift.after = 'zulu'\n"),
    "broken-after": shift("lonely", more="Shift.after = 'halfway'\n"),
    "twin-one": shift("twin"),
    "twin-two": shift("twin"),
    "stream-one": shift("sampler_92465"),
    "stream-two": shift("sampler_92871"),
}

REPORT = """
import json, sys
import numpy as np
from engine_sampler.params import build_chain
from engine_sampler.params import SamplingParams
from engine_sampler.registry import default_registry
from engine_sampler.testing import apply_sampler, select

def outcome(**given):
    params = SamplingParams(top_p=0.9, temperature=0.8, **given)
    chain = build_chain(params)
    logits = np.random.default_rng(1).normal(0, 3, (20, 50)).astype(np.float32)
    for sampler in chain.samplers:
        logits = apply_sampler(sampler, logits, params)
    chosen = select(chain.selector, logits, params, seeds=list(range(20)))
    return [chain.key, logits.tobytes().hex(), chosen.columns.tolist()]

def error_of(name):
    try:
        SamplingParams(**{name: 1})
    except ValueError as error:
        return str(error)

before = [m for m in sys.modules if m.endswith("_shift")]
registry = default_registry()
json.dump({
    "loaded before use": before,
    "plugins": {
        p.distribution + "/" + p.name: [p.state, p.error or "", list(p.provides)] for p in registry.plugins
    },
    "order": [p.distribution for p in registry.plugins],
    "params": list(registry.catalogue.params),
    "samplers": list(registry.catalogue.samplers),
    "outcomes": [outcome(), outcome(alpha=2.5) if "alpha" in registry.catalogue.params else None],
    "error": error_of("halfway"),
}, sys.stdout)
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed all of DISTRIBUTIONS, one of them damaged afterwards."""
    wheels = tmp_path_factory.mktemp("wheels")
    built = [make_wheel(wheels, name, source) for name, source in DISTRIBUTIONS.items()]
    built += [
        make_wheel(wheels, "borrowed-name", shift("borrowed"), entry="alpha_shift"),
        make_wheel(wheels, "lost-metadata", shift("lost"), version="2.0"),
    ]
    target = tmp_path_factory.mktemp("installed")
    install(built, target)
    (target / "lost_metadata-2.0.dist-info" / "METADATA").unlink()
    return target


@pytest.fixture(scope="session")
def ask(installed: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run REPORT with the distributions installed and some environment variables set."""

    @functools.cache
    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ENGINE_SAMPLER_")}
        environment |= {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return subprocess.run(
            [sys.executable, "-c", REPORT], env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture(scope="session")
def report(ask: Callable[..., subprocess.CompletedProcess[str]]) -> Report:
    """The report with everything installed and nothing selected."""
    result = ask()
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_good_plugins_are_loaded_and_list_what_they_provide(report: Report) -> None:
    assert report["plugins"]["alpha-shift/alpha_shift"] == ["loaded", "", ["samplers/alpha"]]
    assert report["plugins"]["zulu-shift/zulu_shift"] == ["loaded", "", ["samplers/zulu"]]


def test_nothing_is_loaded_before_the_registry_is_used(report: Report) -> None:
    assert report["loaded before use"] == []


def test_plugins_are_loaded_in_order_of_their_distributions(report: Report) -> None:
    waiting = ("follows-zulu", "broken-after")
    third_parties = [name for name in report["order"] if name not in ("engine-sampler", *waiting)]
    assert third_parties == sorted(third_parties)


def test_a_sampler_may_follow_one_of_a_plugin_that_is_loaded_later(report: Report) -> None:
    assert report["plugins"]["follows-zulu/follows_zulu"] == ["loaded", "", ["samplers/follower"]]


def test_a_plugin_may_read_parameters_while_it_is_loaded(report: Report) -> None:
    assert report["plugins"]["asks-while-loading/asks_while_loading"][0] == "loaded"


@pytest.mark.parametrize(
    ("distribution", "reason"),
    [
        ("broken-api", "Shift has api=99; this version takes 1"),
        ("broken-import", "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("broken-exit", "SystemExit: 3"),
        ("broken-syntax", "SyntaxError: "),
        ("broken-hook-name", "unknown hook 'register_sampler'"),
        ("broken-hook-mark", "implements no hook; is it marked with engine_sampler.contract.hookimpl?"),
        ("broken-object", "Shift'> is registered but is not a Sampler or Selector object"),
        ("broken-neutral", "biased=20.0 is not allowed: a finite number of at least -10 and at most 10"),
        ("broken-halfway", "OSError: no more"),
        ("broken-always-on", "eager is on at neutral parameters"),
        ("broken-after", "lonely has after='halfway', which no plugin registers"),
        ("takes-built-in-name", "samplers/top_k is declared by both engine-sampler"),
        ("takes-built-in-name", "and takes-built-in-name 1.0"),
        ("takes-built-in-param", "params/temperature is declared by both engine-sampler"),
        ("takes-built-in-param", "and takes-built-in-param 1.0"),
        ("twin-two", "samplers/twin is declared by both twin-one 1.0 and twin-two 1.0"),
        ("stream-two", "has the random stream of sampler_92465 (stream-one 1.0); choose another name"),
    ],
)
def test_a_broken_plugin_fails_with_its_reason(report: Report, distribution: str, reason: str) -> None:
    state, error, provides = report["plugins"][f"{distribution}/{distribution.replace('-', '_')}"]
    assert state == "failed"
    assert reason in error
    assert provides == []


def test_the_first_of_two_plugins_with_one_sampler_name_is_loaded(report: Report) -> None:
    assert report["plugins"]["twin-one/twin_one"] == ["loaded", "", ["samplers/twin"]]
    assert report["plugins"]["stream-one/stream_one"][0] == "loaded"


def test_two_plugins_with_one_entry_point_name_are_an_error_naming_both(report: Report) -> None:
    state, error, _ = report["plugins"]["borrowed-name/alpha_shift"]
    assert state == "failed"
    assert error == "the name alpha_shift is used by both alpha-shift 1.0 and borrowed-name 1.0"


def test_damaged_metadata_of_one_distribution_does_not_hide_others(report: Report) -> None:
    assert report["plugins"]["unknown/lost_metadata"][0] == "loaded"
    assert report["plugins"]["zulu-shift/zulu_shift"][0] == "loaded"


def test_a_plugin_that_fails_halfway_leaves_nothing_behind(report: Report) -> None:
    assert "halfway" not in report["params"]
    assert "halfway" not in report["samplers"]


def test_an_unknown_parameter_names_the_plugins_that_failed_and_why(report: Report) -> None:
    assert report["error"].startswith("unknown parameter 'halfway'")
    assert "broken_halfway (broken-halfway 1.0): OSError: no more" in report["error"]


def test_broken_plugins_do_not_change_results(report: Report, ask: Callable[..., Any]) -> None:
    alone = json.loads(ask(ENGINE_SAMPLER_PLUGINS="alpha_shift").stdout)
    assert report["outcomes"] == alone["outcomes"]


def test_installed_plugins_change_nothing_for_requests_that_do_not_use_them(
    report: Report, ask: Callable[..., Any]
) -> None:
    none = json.loads(ask(ENGINE_SAMPLER_PLUGINS="").stdout)
    assert report["outcomes"][0] == none["outcomes"][0]
    assert none["outcomes"][1] is None


def test_a_selection_disables_all_others_with_the_reason(ask: Callable[..., Any]) -> None:
    plugins = json.loads(ask(ENGINE_SAMPLER_PLUGINS="zulu_shift, twin_two").stdout)["plugins"]
    states = {
        name: state for name, (state, _, _) in plugins.items() if not name.startswith("engine-sampler/")
    }
    assert {name for name, state in states.items() if state == "loaded"} == {
        "zulu-shift/zulu_shift",
        "twin-two/twin_two",
    }
    assert set(states.values()) == {"loaded", "disabled"}
    assert plugins["twin-one/twin_one"][1] == "not selected by ENGINE_SAMPLER_PLUGINS"


def test_a_selected_plugin_that_is_not_installed_is_listed_as_failed(ask: Callable[..., Any]) -> None:
    plugins = json.loads(ask(ENGINE_SAMPLER_PLUGINS="alpha_shift,alhpa").stdout)["plugins"]
    assert plugins["not installed/alhpa"][:2] == [
        "failed",
        "selected by ENGINE_SAMPLER_PLUGINS, but no distribution provides it",
    ]
    assert plugins["alpha-shift/alpha_shift"][0] == "loaded"


def test_strict_raises_on_the_first_plugin_that_fails(ask: Callable[..., Any]) -> None:
    result = ask(ENGINE_SAMPLER_STRICT="1", ENGINE_SAMPLER_PLUGINS="broken_exit,zulu_shift")
    assert result.returncode == 1
    assert "PluginError: plugin broken_exit (broken-exit 1.0): SystemExit: 3" in result.stderr


def test_strict_raises_for_a_selected_plugin_that_is_not_installed(ask: Callable[..., Any]) -> None:
    result = ask(ENGINE_SAMPLER_STRICT="1", ENGINE_SAMPLER_PLUGINS="alhpa")
    assert "PluginError: plugin alhpa (not installed): selected by ENGINE_SAMPLER_PLUGINS" in result.stderr


def test_strict_accepts_good_plugins(ask: Callable[..., Any]) -> None:
    result = ask(ENGINE_SAMPLER_STRICT="1", ENGINE_SAMPLER_PLUGINS="asks_while_loading,zulu_shift")
    assert result.returncode == 0


def test_every_failure_is_logged_once(ask: Callable[..., Any], report: Report) -> None:
    logged = ask().stderr.splitlines()
    failed = [name for name, (state, _, _) in report["plugins"].items() if state == "failed"]
    assert len([line for line in logged if " is not used: " in line]) == len(failed)
