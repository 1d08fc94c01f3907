"""The main job from launch to down, on every kind of place: what a user does on a first day.

Images with everything, without rsync and python, and with nothing but busybox; as root, and as a user who
can't write to the root of the file system. Hosts with sshd; one behind a bastion; one without rsync, tar, python
and perl; accounts whose shells are tcsh and fish.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import places
import pytest
from places import Place
from sky_command import SMALL, Kubernetes, Sky, eventually, kubernetes_home
from ssh_home import LAB, Hosts, ssh_home

UNPRIVILEGED = (
    "{spec: {securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000},"
    " containers: [{securityContext: {readOnlyRootFilesystem: true}}]}}"
)
NOT_THERE = ("rsync", "tar", "python3", "perl")
PLACES = [
    "local",
    *(f"ssh-{how}" for how in ("plain", "behind", "bare", "tcsh", "fish")),
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

    place: Place
    other: tuple[str, ...]
    """Options for one more cluster beside it."""

    @property
    def sky(self) -> Sky:
        return self.place.sky

    @property
    def options(self) -> tuple[str, ...]:
        return self.place.options


@pytest.fixture(scope="module", params=PLACES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with place_of(request, tmp_path_factory.mktemp("main")) as made:
        write_project(made.sky)
        done = made.sky("launch", "-c", "c", *made.options, "task.yaml")
        expect_output(done.out)
        assert "oops" in done.out, "a job's stderr is part of its log"
        assert "run in" not in done.err, "nothing of the job's goes to stderr"
        yield made


@contextlib.contextmanager
def place_of(request: pytest.FixtureRequest, root: Path) -> Iterator[Up]:
    image, _, who = request.param.rpartition("-")
    if not image:
        with places.place("local", root, request) as place:
            yield Up(place, place.options)
    elif image == "ssh":
        with contextlib.contextmanager(ssh_home)(root, hosts := request.getfixturevalue("ssh_hosts")) as sky:
            yield from on_hosts(who, sky, hosts)
    else:
        server: Kubernetes = request.getfixturevalue("kubernetes")
        config = server.config("" if who == "root" else UNPRIVILEGED)
        with contextlib.contextmanager(kubernetes_home)(root, server, config) as sky:
            options = (*SMALL[:-1], f"docker:{image}:testbed")
            yield Up(replace(places.kubernetes(sky, server), options=options), options)


def on_hosts(how: str, sky: Sky, hosts: Hosts) -> Iterator[Up]:
    account = {"tcsh": "labtcsh", "fish": "labfish"}.get(how, places.ACCOUNT)
    place = places.ssh(sky, hosts, account)
    if how == "behind":
        yield Up(replace(place, options=("--infra", "ssh/behind", "-y")), place.options)
    elif how == "bare":
        with hosts.destroying(), contextlib.ExitStack() as stack:
            for name in LAB:
                stack.callback(hosts.script, "crash", name)
                hosts.script("hide", name, *NOT_THERE)
                assert hosts.on(name, f"command -v {' '.join(NOT_THERE)}; :") == ""
            yield Up(place, place.options)
            sky("down", "-a", "-y")
    else:
        yield Up(place, place.options)


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


def test_several_nodes_of_the_kind_run_it_together(up: Up, request: pytest.FixtureRequest) -> None:
    task = TASK.replace("$SKYPILOT_NODE_RANK", "$SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES")
    (up.sky.project / "two.yaml").write_text(f"num_nodes: 2\n{task}")
    done = up.sky("launch", "-c", "two", *up.other, "two.yaml", code=None)
    if "bare" in request.node.name:
        assert done.code == 125 and "perl, python3 or nc is needed" in done.err, done
    else:
        assert done.code == 0, done
        for rank in range(2):
            lines = [
                text
                for who, _, text in (it.partition(") ") for it in done.out.splitlines())
                if who[-1:] == str(rank)
            ]
            expect_output("\n".join(lines).replace(f" {rank} of 2", " 0"))
    assert up.sky("down", "two", "-y").out == "two: gone\n"


def test_down_leaves_nothing(up: Up) -> None:
    (mine,) = up.place.existing()
    up.sky("launch", "-c", "other", *up.other, "--", "true")
    assert len(up.place.existing()) == 2
    assert up.sky("down", "other", "-y").out == "other: gone\n"
    assert up.place.existing() == [mine]
    assert [c["name"] for c in up.sky("status", "-o", "json").json()["clusters"]] == ["c"]
