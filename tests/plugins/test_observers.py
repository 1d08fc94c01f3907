"""Observers and policies: they see everything, may refuse a task, and can stop nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from sky_command import SKY, Sky

LAUNCH = ("launch", "-c", "c", "--infra", "local", "-y")


def test_every_run_rsync_and_provisioning_call_is_seen(sky: Sky, tmp_path: Path) -> None:
    events = tmp_path / "events"
    env = {"SKY_TEST_EVENTS": str(events)}
    sky(*LAUNCH, "--workdir", ".", "--", "true", env=env)
    sky("exec", "c", "--", "true", env=env)
    sky("queue", "c", env=env)
    sky("down", "c", "-y", env=env)
    seen = [json.loads(line) for line in events.read_text().splitlines()]
    hooks = [hook for plugin, hook, outcome in seen if plugin == "local" and outcome == "returned"]
    expected = (
        "sky_feasible sky_run_instances sky_wait_instances sky_cluster_hosts sky_rsync "
        "sky_terminate_instances sky_disconnect"
    )
    assert set(expected.split()) <= set(hooks)
    assert hooks.count("sky_run") == 3, "launch, exec and queue"


def test_an_observer_that_raises_is_named_once_and_ignored(sky: Sky) -> None:
    done = sky(*LAUNCH, "--", "echo fine")
    assert done.out == "fine\n"
    said = [line for line in done.err.splitlines() if "observer-raises" in line]
    assert said == [
        "sky: observer 'observer-raises' failed and is ignored: ValueError: the observer fell over"
    ]


def test_a_policy_changes_a_task(sky: Sky) -> None:
    done = sky(*LAUNCH, "echo got $BY_POLICY", env={"SKY_TEST_POLICY": "change"})
    assert done.out == "got added\n"
    assert sky("exec", "c", "echo got $BY_POLICY", env={"SKY_TEST_POLICY": "change"}).out == "got added\n"


def test_a_policy_refuses_a_task_before_anything_is_made(sky: Sky) -> None:
    done = sky(*LAUNCH, "--", "true", code=2, env={"SKY_TEST_POLICY": "refuse"})
    assert "tasks without a cost centre are refused" in done.err
    assert "add the label cost-centre" in done.err
    assert sky("status", "-o", "json").json()["clusters"] == []
    assert sky("launch", "--dryrun", "--", "true", code=2, env={"SKY_TEST_POLICY": "refuse"}).out == ""


def test_a_policy_that_falls_over_refuses_too_and_is_named(sky: Sky) -> None:
    done = sky(*LAUNCH, "--", "true", code=2, env={"SKY_TEST_POLICY": "raise"})
    assert "policy 'policy' (sky-plugin-policy) failed: ZeroDivisionError" in done.err
    assert "sky plugins disable policy" in done.err


def test_a_reader_that_leaves_is_no_defect_of_a_plugin(sky: Sky) -> None:
    sky(*LAUNCH, "--", "true")
    script = "i=0; while [ $i -lt 50000 ]; do echo line $i; i=$((i+1)); done"
    command = f'"{SKY}" exec c "$1" 2>err | head -1'
    done = subprocess.run(
        ["sh", "-c", command, "sh", script],
        env=sky.environment({"SKY_PLUGINS": ""}),
        cwd=sky.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "line 0\n"
    said = (sky.project / "err").read_text()
    assert "sky_run failed" not in said and "disable" not in said
