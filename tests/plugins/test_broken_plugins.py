"""With every misbehaving plugin installed at once: each is a row with a remedy, and all else works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributions import BROKEN, Outcome
from sky_command import Sky

LAUNCH = ("launch", "-c", "c", "--infra", "local", "-y")


def rows(sky: Sky, *more: str) -> list[dict[str, Any]]:
    return list(sky("plugins", "list", "--json", *more).json()["plugins"])


def imports(sky: Sky) -> set[str]:
    """Modules of the broken plugins that were imported since this was last asked."""
    file = Path(sky.extra["SKY_TEST_IMPORTS"])
    seen = set(file.read_text().split()) if file.exists() else set()
    file.unlink(missing_ok=True)
    return seen


@pytest.fixture(scope="module")
def listed(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What one `sky plugins list --json` says."""
    return rows(Sky(tmp_path_factory.mktemp("listed"), {"PYTHONPATH": str(broken)}))


@pytest.mark.parametrize("outcome", BROKEN, ids=lambda outcome: outcome.module)
def test_each_is_a_row_with_its_state_and_remedy(listed: list[dict[str, Any]], outcome: Outcome) -> None:
    (row,) = (row for row in listed if row["dist"] == outcome.dist)
    assert (row["name"], row["kind"], row["version"]) == (outcome.name, outcome.kind, "1.0")
    assert row["state"] == outcome.state
    assert outcome.problem in row["problem"]
    assert outcome.remedy in row["remedy"]
    assert bool(row["problem"]) == bool(outcome.problem)
    assert "\n" not in row["problem"] + row["remedy"]


def test_the_healthy_ones_are_ready_beside_them(listed: list[dict[str, Any]]) -> None:
    healthy = {(row["kind"], row["name"]): row["state"] for row in listed if row["dist"] == "sky-core"}
    assert healthy == {("cloud", "local"): "ready", ("runner", "local"): "ready"}


def test_check_fails_while_one_of_them_is_not_ready(sky: Sky) -> None:
    out = sky("plugins", "list", "--check", code=1).out
    assert "fix: pip install --force-reinstall sky-plugin-fails-import" in out
    sky("plugins", "list", "--check", env={"SKY_PLUGINS": ""})


def test_without_loading_nothing_of_theirs_is_imported(sky: Sky) -> None:
    states = {row["dist"]: row["state"] for row in rows(sky, "--no-load")}
    assert imports(sky) == set()
    assert {states[outcome.dist] for outcome in BROKEN} == {"available", "duplicate"}
    rows(sky)
    assert imports(sky) >= {"fails_import", "raises_exit", "slow"}, "the modules do say when they're imported"


def test_show_has_the_traceback(sky: Sky) -> None:
    out = sky("plugins", "show", "fails-import").out
    assert "Traceback (most recent call last)" in out
    assert "import sdk_that_is_not_installed" in out
    assert "sky-plugin-fails-import" in out
    assert "plugins list" in sky("plugins", "show", "nosuch", code=2).err


@pytest.mark.parametrize(
    "command", [("--help",), ("--version",), ("launch", "--help"), ("completion", "bash")]
)
def test_what_needs_no_plugin_imports_none(sky: Sky, command: tuple[str, ...]) -> None:
    sky(*command)
    assert imports(sky) == set()


def test_help_names_commands_of_plugins_and_runs_them(sky: Sky) -> None:
    out = sky("--help").out
    assert "greet" in out and "(from sky-plugin-command-good)" in out
    assert sky("greet", "you").out == "hello you\n"
    failed = sky("fall-over", code=125)
    assert "sky-plugin-command-broken" in failed.err and "sky plugins disable fall-over" in failed.err


def test_a_launch_imports_only_what_it_uses(sky: Sky) -> None:
    done = sky(*LAUNCH, "--", "echo hi; exit 3", code=3)
    assert done.out == "hi\n"
    assert imports(sky) == {"observer_raises", "policy", "watcher"}, "observers see all; the rest isn't used"
    sky("status")
    sky("down", "c", "-y")


def test_every_cloud_may_be_asked_with_broken_ones_among_them(sky: Sky) -> None:
    done = sky("launch", "-c", "c", "-y", "--", "echo on local", code=0)
    assert done.out == "on local\n"
    assert "fails-import" in done.err, "whoever couldn't answer is named"
    assert "sdk_that_is_not_installed" in done.err


def test_stdout_is_one_document_though_a_plugin_prints(sky: Sky) -> None:
    checked = sky("check", "-o", "json", code=None)
    assert "PRINTED" in checked.err and "PRINTED" not in checked.out
    checked.json()
    planned = sky("launch", "--dryrun", "-o", "json", "--", "true")
    assert "PRINTED" in planned.err
    assert planned.json()["candidates"]
    assert sky(*LAUNCH, "-o", "json", "--", "exit 4", code=4).json()["exit_code"] == 4
    assert sky("status", "-o", "json", "--refresh").json()["clusters"]


def test_a_defect_in_a_hook_names_the_distribution(sky: Sky) -> None:
    done = sky("status", "--rebuild", code=122)
    assert "sky-plugin-prints: sky_list_clusters failed: KeyError" in done.err


def test_disabled_plugins_are_never_imported(sky: Sky) -> None:
    for name in {outcome.name for outcome in BROKEN} - {"local", "status"}:
        sky("plugins", "disable", name)
    imports(sky)
    states = {row["dist"]: row["state"] for row in rows(sky)}
    sky("launch", "-c", "c", "-y", "--", "true")
    assert imports(sky) == set()
    assert states["sky-plugin-fails-import"] == "disabled"
    sky("plugins", "enable", "slow")
    assert {row["name"]: row["state"] for row in rows(sky)}["slow"] == "slow"
    assert "plugins list" in sky("plugins", "disable", "nosuch", code=2).err


@pytest.mark.parametrize("how", ["SKY_PLUGINS=", "--no-plugins"])
def test_a_run_may_use_nothing_but_the_core(sky: Sky, how: str) -> None:
    options, env = (("--no-plugins",), {}) if how.startswith("--") else ((), {"SKY_PLUGINS": ""})
    done = sky(*options, "launch", "-c", "c", "-y", "--", "echo bare", env=env)
    assert done.out == "bare\n"
    assert imports(sky) == set()
    refused = sky(*options, "launch", "--infra", "prints", "-y", "--", "true", env=env, code=None)
    assert refused.code not in (0, None)
    assert "'prints' is disabled" in refused.err


def test_sky_plugins_names_those_to_load(sky: Sky) -> None:
    listed = {row["dist"]: row["state"] for row in rows(sky)}
    assert listed["sky-plugin-slow"] == "slow"
    imports(sky)
    env = {"SKY_PLUGINS": "slow, watcher"}
    done = sky("plugins", "list", "--json", env=env).json()["plugins"]
    assert {row["name"] for row in done if row["state"] != "disabled"} == {"local", "slow", "watcher"}
    assert imports(sky) == {"slow", "watcher"}


def test_strict_raises_what_a_plugin_raised(sky: Sky) -> None:
    loose = sky("launch", "--infra", "fails-import", "-y", "--", "true", code=125)
    assert "sky-plugin-fails-import: ModuleNotFoundError" in loose.err
    assert "sky plugins disable fails-import" in loose.err
    env = {"SKY_PLUGINS_STRICT": "1", "SKY_DEBUG": "1"}
    strict = sky("launch", "--infra", "fails-import", "-y", "--", "true", code=None, env=env)
    assert strict.code not in (0, None)
    assert "ModuleNotFoundError" in strict.err


def test_every_hook_call_can_be_traced(sky: Sky) -> None:
    done = sky(*LAUNCH, "--", "true", env={"SKY_TRACE_HOOKS": "1"})
    traced = [line for line in done.err.splitlines() if line.startswith("sky: local.sky_")]
    for hook in ("sky_feasible", "sky_run_instances", "sky_cluster_hosts", "sky_run"):
        assert any(line.startswith(f"sky: local.{hook} ") and line.endswith(" returned") for line in traced)


@pytest.mark.parametrize(
    ("name", "code", "remedy"),
    [
        ("nosuch", 2, "pip install sky-plugin-nosuch"),
        ("twin", 125, "uninstall one of them"),
        ("api-next", 125, "pip install --upgrade sky-core"),
        ("not-a-class", 125, "upgrade sky-plugin-not-a-class"),
    ],
)
def test_a_cloud_that_cannot_be_used_says_why_and_what_to_do(
    sky: Sky, name: str, code: int, remedy: str
) -> None:
    assert remedy in sky("launch", "--infra", name, "-y", "--", "true", code=code).err
