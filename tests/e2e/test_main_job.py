"""The main job from launch to down, on every kind of place: what a user does on a first day.

Images with everything, without rsync and python, and with nothing but busybox; as root, and as a user who
can't write to the root of the file system.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sky_command import SMALL, Kubernetes, Sky, eventually, kubernetes_home

UNPRIVILEGED = (
    "{spec: {securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000},"
    " containers: [{securityContext: {readOnlyRootFilesystem: true}}]}}"
)
PLACES = [
    "local",
    *(f"{image}-{who}" for image in ("debian", "debian-norsync", "busybox") for who in ("root", "1000")),
]

TASK = """\
name: main
workdir: ./work
file_mounts:
  ~/mounts/one.txt: ./single.txt
  ~/tree: ./tree
setup: |
  echo "setup: $(cat app.txt)" | tee ~/made-by-setup
run: |
  echo "run in $(basename "$PWD") as rank $SKYPILOT_NODE_RANK"
  cat app.txt ~/mounts/one.txt ~/tree/a/deep.txt ~/made-by-setup
  ls -A ~/tree
  echo oops >&2
"""


@dataclass
class Up:
    """A cluster `c` that ran the task."""

    sky: Sky
    options: tuple[str, ...]
    pod: str = ""


@pytest.fixture(scope="module", params=PLACES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    root = tmp_path_factory.mktemp("main")
    if request.param == "local":
        sky = Sky(root, {"KUBECONFIG": str(root / "none")})
        homes: Iterator[Sky] = iter(())
        options: tuple[str, ...] = ("--infra", "local", "-y")
    else:
        kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
        image, _, who = request.param.rpartition("-")
        homes = kubernetes_home(root, kubernetes, kubernetes.config("" if who == "root" else UNPRIVILEGED))
        sky = next(homes)
        options = (*SMALL[:-1], f"docker:{image}:testbed")
    write_project(sky)
    done = sky("launch", "-c", "c", *options, "task.yaml")
    expect_output(done.out)
    assert "oops" in done.out, "a job's stderr is part of its log"
    assert "run in" not in done.err, "nothing of the job's goes to stderr"
    made = Up(sky, options)
    if request.param != "local":
        (made.pod,) = kubernetes.pod_names(sky.user)
    yield made
    sky.clean()
    for _ in homes:
        pass


def write_project(sky: Sky) -> None:
    (sky.project / "task.yaml").write_text(TASK)
    (sky.project / "single.txt").write_text("single\n")
    for path, text in {"work/app.txt": "app\n", "work/.hidden": "h\n", "tree/a/deep.txt": "deep\n"}.items():
        (sky.project / path).parent.mkdir(parents=True, exist_ok=True)
        (sky.project / path).write_text(text)
    (sky.project / "tree" / "empty").mkdir()


def expect_output(out: str) -> None:
    lines = out.splitlines()
    assert lines[0] == "setup: app", out
    assert lines[1] == "run in sky_workdir as rank 0", out
    assert lines[2:6] == ["app", "single", "deep", "setup: app"], out
    assert sorted(lines[6:8]) == ["a", "empty"], out


def test_launch_again_reuses_the_cluster_and_syncs_what_changed(up: Up) -> None:
    (up.sky.project / "work" / "app.txt").write_text("app\n")
    (up.sky.project / "work" / "new.txt").write_text("new\n")
    done = up.sky("launch", "-c", "c", *up.options, "task.yaml")
    expect_output(done.out)
    assert up.sky("exec", "c", "--", "cat", "new.txt").out == "new\n"
    assert [c["name"] for c in up.sky("status", "-o", "json").json()["clusters"]] == ["c"]


def test_exec_runs_in_the_workdir_and_exits_with_the_jobs_code(up: Up) -> None:
    done = up.sky("exec", "c", "pwd; cat .hidden; exit 41", code=41)
    where, content = done.out.splitlines()
    assert where.endswith("/sky_workdir") and content == "h"


def test_exec_of_a_task_file_does_not_run_setup(up: Up) -> None:
    up.sky("exec", "c", "--", "rm", "-f", "../made-by-setup")
    done = up.sky("exec", "c", "task.yaml", code=None)
    assert "setup: app" not in done.out
    assert "run in sky_workdir" in done.out
    up.sky("exec", "c", "echo setup: app > ../made-by-setup")


def test_logs_are_the_jobs_output_whole_or_its_tail_by_id_or_newest(up: Up) -> None:
    up.sky("exec", "c", "for i in 1 2 3 4; do echo line $i; done")
    assert up.sky("logs", "c").out == "line 1\nline 2\nline 3\nline 4\n"
    assert up.sky("logs", "c", "--tail", "2").out == "line 3\nline 4\n"
    assert up.sky("logs", "c", "--no-follow", "--tail", "0").out == ""
    expect_output(up.sky("logs", "c", "1").out)


def test_queue_tells_each_job_with_state_and_code(up: Up) -> None:
    up.sky("exec", "c", "-n", "fails", "--", "sh", "-c", "exit 7", code=7)
    table = up.sky("queue", "c").out.splitlines()
    assert table[0].split()[:5] == ["CLUSTER", "ID", "NAME", "STATE", "CODE"]
    assert table[1].split()[:5] == ["c", "1", "main", "SUCCEEDED", "0"]
    assert table[-1].split()[2:5] == ["fails", "FAILED", "7"]


def test_cancel_ends_the_jobs_processes_for_good(up: Up) -> None:
    number = str(random.randrange(10**8, 10**9))
    pattern = f"{number[:-1]}[{number[-1]}]"
    look = f"grep -l '{pattern}' /proc/[0-9]*/cmdline 2>/dev/null; :"
    up.sky("exec", "c", "-d", f"(setsid sleep {number} &) ; sleep {number}")
    eventually(lambda: len(up.sky("exec", "c", look).out.split()) == 2)
    job = up.sky("queue", "c", "-o", "json").json()["clusters"]["c"][-1]["id"]
    sleeper = next(
        j["id"] for j in up.sky("queue", "c", "-o", "json").json()["clusters"]["c"] if j["state"] == "RUNNING"
    )
    assert int(sleeper) < int(job)
    assert up.sky("cancel", "c", sleeper, "-y").out == f"job {sleeper}: CANCELLED\n"
    assert up.sky("exec", "c", look).out == "", "a process of the job is still there"
    assert up.sky("logs", "c", sleeper, "--status", code=123).out == f"{sleeper} CANCELLED\n"


def test_rsync_makes_equal_both_ways(up: Up) -> None:
    source = up.sky.project / "data"
    (source / "sub").mkdir(parents=True, exist_ok=True)
    (source / "sub" / "x y.bin").write_bytes(bytes(range(256)) * 100)
    (source / "top").write_text("top\n")
    up.sky("rsync", "./data", "c:there/data")
    assert up.sky("exec", "c", "--", "cat", "../there/data/top").out == "top\n"
    back = up.sky.project / "back"
    up.sky("rsync", "c:there/data", "./back")
    assert (back / "sub" / "x y.bin").read_bytes() == bytes(range(256)) * 100
    up.sky("rsync", "c:there/data/top", "./one-file")
    assert (up.sky.project / "one-file").read_text() == "top\n"
    assert up.sky("rsync", "./data", "c:there/data", "-o", "json").json()["files_sent"] == 0


def test_logs_sync_down_copies_each_log(up: Up) -> None:
    done = up.sky("logs", "c", "--sync-down", "1")
    path = up.sky.project / "sky_logs" / "c" / "1" / "run.log"
    assert done.out.strip().endswith("sky_logs/c/1/run.log")
    expect_output(path.read_text())


def test_down_leaves_nothing(up: Up, request: pytest.FixtureRequest) -> None:
    up.sky("launch", "-c", "other", *up.options, "--", "true")
    if up.pod:
        kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
        assert len(kubernetes.pod_names(up.sky.user)) == 2
        assert up.sky("down", "other", "-y").out == "other: gone\n"
        assert kubernetes.pod_names(up.sky.user) == [up.pod]
    else:
        assert up.sky("down", "other", "-y").out == "other: gone\n"
        assert len(list((up.sky.data / "sky" / "local").iterdir())) == 1
    assert [c["name"] for c in up.sky("status", "-o", "json").json()["clusters"]] == ["c"]
