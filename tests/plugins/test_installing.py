"""What is installed now is what the next command sees, whatever was seen before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from distributions import BROKEN, Outcome, write_project
from sky_command import Sky

from installing import install

SLOW: Outcome = next(outcome for outcome in BROKEN if outcome.module == "slow")


def names(sky: Sky) -> set[str]:
    listed = sky("plugins", "list", "--json", "--no-load").json()["plugins"]
    ours = ("sky-core", "sky-plugin-kubernetes", "sky-plugin-ssh")
    return {row["name"] for row in listed if row["dist"] not in ours}


@pytest.fixture
def empty(tmp_path: Path) -> Sky:
    """With an empty directory to install into."""
    (tmp_path / "site").mkdir()
    return Sky(tmp_path, {"PYTHONPATH": str(tmp_path / "site"), "KUBECONFIG": str(tmp_path / "none")})


def test_installed_changed_and_removed_is_seen_by_the_next_command(empty: Sky, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert names(empty) == set()
    install(site, write_project(tmp_path, SLOW))
    assert names(empty) == {"slow"}
    install(site, write_project(tmp_path, SLOW, name="other"))
    assert names(empty) == {"other"}
    install(site, write_project(tmp_path, replace(SLOW, kind="cloud")))
    assert names(empty) == {"slow"}
    for path in site.glob("sky_plugin_slow*"):
        for file in path.iterdir():
            file.unlink() if file.is_file() else None
        path.rename(tmp_path / "removed")
    assert names(empty) == set()


def test_an_observer_that_cannot_be_loaded_refuses_tasks_and_nothing_else(empty: Sky, tmp_path: Path) -> None:
    """It might hold a policy; one that was skipped would be a policy not kept."""
    launch = ("launch", "-c", "c", "--infra", "local", "-y", "--", "true")
    empty(*launch)
    fails = next(outcome for outcome in BROKEN if outcome.module == "fails_import")
    install(tmp_path / "site", write_project(tmp_path, replace(fails, kind="observer")))
    refused = empty(*launch, code=125)
    assert "observer 'fails-import' can't be loaded, and might hold a policy" in refused.err
    assert "sky plugins disable fails-import" in refused.err
    empty("status")
    empty("plugins", "disable", "fails-import")
    empty(*launch)
    empty("down", "c", "-y")
