"""The toy queue by the `sky` command: its own engine runs the jobs, and nobody sees a difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sky_command import Sky, eventually

LAUNCH = ("launch", "-c", "q", "--infra", "toyqueue", "-y")


@pytest.fixture
def up(sky: Sky) -> Sky:
    """With a cluster `q` that has run nothing yet."""
    sky(*LAUNCH)
    return sky


def jobs(sky: Sky) -> dict[str, dict[str, Any]]:
    return {job["id"]: job for job in sky("queue", "q", "-o", "json").json()["clusters"]["q"]}


def state(sky: Sky, job: str) -> str:
    return str(jobs(sky)[job]["state"])


def test_launch_runs_setup_and_the_job_and_exits_with_its_code(sky: Sky) -> None:
    (sky.project / "task.yaml").write_text(
        "workdir: .\nfile_mounts: {~/data/f: ./task.yaml}\nenvs: {GREETING: 'hi  there'}\nsetup: echo setting up\n"
        'run: |\n  echo "$GREETING $SKYPILOT_NODE_RANK"; ls ~/data; basename $PWD; echo err >&2; exit 3\n'
    )
    done = sky(*LAUNCH, "task.yaml", code=3)
    assert done.out == "setting up\nhi  there 0\nf\nsky_workdir\nerr\n"
    assert jobs(sky)["1"]["state"] == "FAILED"
    assert jobs(sky)["1"]["exit_code"] == 3


def test_exec_passes_the_log_on_byte_by_byte(up: Sky) -> None:
    script = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; printf '\\377\\0end'"
    done = up("exec", "q", script)
    assert done.raw == b"".join(b"line %d\n" % i for i in range(5000)) + b"\xff\0end"


def test_output_is_seen_while_the_job_runs(up: Sky) -> None:
    running = up.start("exec", "q", "echo early; while [ ! -e ~/go ]; do sleep 0.05; done; echo late")
    running.until("early")
    assert "late" not in running.out
    up("exec", "q", "-d", "true")
    (host,) = up("status", "q", "-o", "json").json()["clusters"][0]["hosts"]
    Path(host["address"]["home"], "go").touch()
    assert running.end().out == "early\nlate\n"


def test_jobs_wait_for_their_turn_and_secrets_stay_out_of_sight(up: Sky) -> None:
    first = up.start("exec", "q", "--name", "first", "while [ ! -e ~/go ]; do sleep 0.05; done")
    eventually(lambda: "1" in jobs(up) and state(up, "1") == "RUNNING")
    done = up(
        "exec", "q", "-d", "--secret", "TOKEN=hidden-value", "--name", "second", 'echo "$TOKEN" | wc -c'
    )
    assert "hidden-value" not in done.out + done.err
    assert [state(up, job) for job in ("1", "2")] == ["RUNNING", "PENDING"]
    assert [job["name"] for job in jobs(up).values()] == ["first", "second"]
    up("cancel", "q", "1")
    assert first.end().code == 123
    eventually(lambda: state(up, "2") == "SUCCEEDED")
    assert up("logs", "q", "2").out.strip() == "13"
    assert "hidden-value" not in up("queue", "q").out + up("status", "-o", "json").out


def test_logs_are_shown_whole_by_their_end_and_copied(up: Sky) -> None:
    up("exec", "q", "for i in 1 2 3 4 5; do echo line $i; done; exit 9", code=9)
    whole = "".join(f"line {i}\n" for i in range(1, 6))
    assert up("logs", "q", code=9).out == whole
    assert up("logs", "q", "1", "--tail", "2", code=9).out == "line 4\nline 5\n"
    assert up("logs", "q", "1", "--tail", "0", code=9).out == ""
    assert up("logs", "q", "1", "--no-follow", code=9).out == whole
    up("logs", "q", "-s", "--target", "copied")
    assert (up.project / "copied" / "q" / "1" / "run.log").read_text() == whole
    missing = up("logs", "q", "77", code=None)
    assert missing.code != 0
    assert "77" in missing.err


def test_the_end_of_a_log_goes_on_as_the_job_does(up: Sky) -> None:
    up("exec", "q", "-d", "echo 1; echo 2; echo 3; while [ ! -e ~/go ]; do sleep 0.05; done; echo 4; echo 5")
    eventually(lambda: up("logs", "q", "1", "--no-follow").out == "1\n2\n3\n")
    assert up("logs", "q", "1", "--no-follow", "--tail", "1").out == "3\n"
    running = up.start("logs", "q", "1", "--tail", "1")
    running.until("3\n")
    (host,) = up("status", "q", "-o", "json").json()["clusters"][0]["hosts"]
    Path(host["address"]["home"], "go").touch()
    assert running.end().out == "3\n4\n5\n"


def test_cancel_ends_a_job_and_what_it_started(up: Sky) -> None:
    up("exec", "q", "-d", "sleep 300 & echo $!; wait")
    eventually(lambda: up("logs", "q", "1", "--no-follow").out.strip())
    child = int(up("logs", "q", "1", "--no-follow").out)
    os.kill(child, 0)
    assert up("cancel", "q", "1", "-o", "json").json()["jobs"] == {"1": "CANCELLED"}
    eventually(lambda: not Path(f"/proc/{child}").exists())
    assert up("cancel", "q", "1").code == 0, "a finished job stays as it is"
    assert up("cancel", "q", "55", code=None).code != 0


def test_down_leaves_no_file_and_no_process(up: Sky) -> None:
    up("exec", "q", "-d", "sleep 300")
    eventually(lambda: state(up, "1") == "RUNNING")
    up("down", "q", "-y")
    assert list((up.data / "toyqueue").iterdir()) == []
    assert not processes_of(up.data)


def test_clusters_are_found_again_without_any_state(up: Sky) -> None:
    up("exec", "q", "exit 4", code=4)
    for file in up.state.glob("*.db*"):
        file.unlink()
    assert up("status", "-o", "json").json()["clusters"] == []
    (found,) = up("status", "--rebuild", "-o", "json").json()["clusters"]
    assert (found["name"], found["status"]) == ("q", "UP")
    assert jobs(up)["1"]["exit_code"] == 4


SUBMIT = """
import json, os, sys, threading, time
from pathlib import Path
from sky.api import Allocation, Host, Job, Place
from sky.registry.plugins import Registry
from sky.testing.lab import context_maker
place, token, die = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
place = Place(allocation=Allocation(**place["allocation"]), hosts=tuple(Host(**h) for h in place["hosts"]))
job = Job(token=token, name="n", setup=None, run="echo ran >>~/ran", envs={}, secrets={}, num_nodes=1,
          accelerators_per_node=0, place_accelerators_per_node=0)
ctx = context_maker({}, Path("."))()
reference = Registry().runner("toyqueue").hook.sky_submit_job(ctx=ctx, place=place, job=job)
if die == "die":
    os.kill(os.getpid(), 9)
print(reference.id)
"""


def test_a_client_killed_before_the_answer_may_submit_again(up: Sky) -> None:
    (cluster,) = up("status", "-o", "json").json()["clusters"]
    place = json.dumps(
        {
            "allocation": {
                "id": Path(cluster["hosts"][0]["address"]["home"]).parent.name,
                "cloud": "toyqueue",
                "cluster_name": "q",
                "tags": {},
                "num_nodes": 1,
            },
            "hosts": cluster["hosts"],
        }
    )

    def submit(token: str, then: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SUBMIT, place, token, then]
        return subprocess.run(
            command, env=up.environment(), capture_output=True, text=True, timeout=30, check=False
        )

    assert submit("a" * 16, "die").returncode == -signal.SIGKILL
    for _ in range(2):
        again = submit("a" * 16, "live")
        assert again.stdout == "1\n", again.stderr
    assert submit("b" * 16, "live").stdout == "2\n"
    eventually(lambda: state(up, "2") == "SUCCEEDED")
    assert list(jobs(up)) == ["1", "2"]
    assert Path(cluster["hosts"][0]["address"]["home"], "ran").read_text() == "ran\nran\n"


def test_a_job_whose_worker_died_is_unknown_and_a_launch_brings_another(up: Sky) -> None:
    up("exec", "q", "-d", "sleep 300")
    eventually(lambda: state(up, "1") == "RUNNING")
    for pid in processes_of(up.data):
        os.kill(pid, signal.SIGKILL)
    assert state(up, "1") == "UNKNOWN"
    assert up("logs", "q", "1", code=122).code == 122


def processes_of(data: Path) -> list[int]:
    """Workers and jobs of the clusters below `data`, by their working directory or arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().decode() + str((entry / "cwd").readlink())
        except OSError:
            continue  # no process, or it ended meanwhile
        if entry.name.isdigit() and f"{data}/toyqueue" in text:
            found.append(int(entry.name))
    return found


def test_without_the_distribution_the_install_command_is_told(up: Sky) -> None:
    without = up("queue", "q", code=2, env={"PYTHONPATH": ""})
    assert "pip install sky-plugin-toyqueue" in without.err
