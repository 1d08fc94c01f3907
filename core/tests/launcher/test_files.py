"""A task's files on its nodes: what is checked before, where they land, and what a cut connection costs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cutting_runner import Line

from sky.errors import Cancelled, ConnectionLost, TransferFailed, Unreachable, UsageError
from sky.launcher import files
from sky.session import Session
from sky.task.model import Task
from sky.types import Event, Host, Transfer

Nodes = Callable[[int], list[Host]]
MB = 1 << 20
QUICK = (0.05, 0.05, 0.05)


def said(events: list[Event], kind: str) -> list[str]:
    return [event.message for event in events if event.kind == kind]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "file").write_text("content")
    return made


def test_what_is_missing_is_said_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    task = Task(
        workdir="nowhere",
        file_mounts={"~/a": "there", "~/b": "absent", "~/c": "gone"},
        base_dir=str(tmp_path),
    )
    with pytest.raises(UsageError) as caught:
        files.check(task)
    for name in ("nowhere", "absent", "gone"):
        assert name in caught.value.message
    assert "there" not in caught.value.message.replace("nowhere", "")


def test_every_kind_of_target_on_every_node(
    session: Session, nodes: Nodes, project: Path, tmp_path: Path
) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "x").write_text("x")
    hosts = nodes(2)
    (tmp_path / "0/home/real").mkdir()
    (tmp_path / "0/home/link").symlink_to("real")
    mounts = {
        "~": "sub",
        "~/deep/in/here": "file",
        "relative": "file",
        "relative directory/": "sub/",
        "inside/": "file",
        "~/link": "sub",
        f"{tmp_path}/absolute/path": "sub",
    }
    files.upload(session, hosts, Task(workdir=".", file_mounts=mounts, base_dir=str(project)))
    for rank in range(2):
        home = tmp_path / str(rank) / "home"
        for path in ("x", "sky_workdir/sub/x", "relative directory/x", "link/x"):
            assert (home / path).read_text() == "x", path
        for path in ("deep/in/here", "relative", "inside/file", "sky_workdir/file"):
            assert (home / path).read_text() == "content", path
    assert (tmp_path / "0/home/link").is_symlink()
    assert (tmp_path / "absolute/path/x").read_text() == "x"


def test_a_target_that_cannot_be_written_names_path_and_node(
    session: Session, nodes: Nodes, project: Path
) -> None:
    task = Task(file_mounts={"/proc/nowhere/x": "file"}, base_dir=str(project))
    with pytest.raises(TransferFailed, match=r"node-0.*/proc/nowhere"):
        files.upload(session, nodes(1), task)


def test_what_is_left_out_is_counted_and_stays_behind(
    session: Session, nodes: Nodes, project: Path, tmp_path: Path, events: list[Event]
) -> None:
    (project / "a\nb.log").write_text("x")
    (project / "c.log").write_text("x")
    (project / ".skyignore").write_text("*.log\n")
    files.upload(session, nodes(1), Task(workdir=".", base_dir=str(project)))
    assert names_in(tmp_path / "0/home/sky_workdir") == [".skyignore", "file"]
    assert "workdir: 2 paths left out (.skyignore)" in said(events, "phase")


def test_a_cut_half_way_costs_what_was_not_sent(
    session: Session, nodes: Nodes, tmp_path: Path, line: Line, events: list[Event]
) -> None:
    with open(tmp_path / "big", "wb") as file:
        for _ in range(200):
            file.write(os.urandom(MB))
    (host,) = nodes(1)
    line.cuts = [100 * MB]
    transfer = Transfer(direction="up", source=str(tmp_path / "big"), target="~/landed")
    files.one(session, host, transfer, QUICK)
    assert (tmp_path / "0/home/landed").read_bytes() == (tmp_path / "big").read_bytes()
    assert names_in(tmp_path / "0/home") == ["landed"]
    assert line.transfers == 2 and 200 * MB < line.sent < 1.2 * 200 * MB
    (warning,) = said(events, "warning")
    assert "~/landed on node-0" in warning and "connection was lost" in warning


def test_it_gives_up_after_some_tries(
    session: Session, nodes: Nodes, tmp_path: Path, line: Line, events: list[Event]
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MB))
    (host,) = nodes(1)
    transfer = Transfer(direction="up", source=str(tmp_path / "file"), target="~/landed")
    line.cuts = [1000] * 9
    with pytest.raises(ConnectionLost):
        files.one(session, host, transfer, QUICK)
    assert line.transfers == 4 and len(said(events, "warning")) == 3
    assert not (tmp_path / "0/home/landed").exists()


def test_who_was_never_there_is_not_tried_again_and_who_was_is(
    session: Session, nodes: Nodes, tmp_path: Path, line: Line
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MB))
    (host,) = nodes(1)
    transfer = Transfer(direction="up", source=str(tmp_path / "file"), target="~/landed")
    line.refused = [True]
    with pytest.raises(Unreachable):
        files.one(session, host, transfer, QUICK)
    assert line.transfers == 1
    line.refused, line.cuts = [False, True, True], [1000]
    files.one(session, host, transfer, QUICK)
    assert line.transfers == 5
    assert (tmp_path / "0/home/landed").exists()


def test_a_pause_ends_when_cancelled(session: Session, nodes: Nodes, tmp_path: Path, line: Line) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MB))
    (host,) = nodes(1)
    line.cuts = [1000]
    transfer = Transfer(direction="up", source=str(tmp_path / "file"), target="~/landed")
    threading.Timer(0.3, session.cancel.cancel).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        files.one(session, host, transfer, (60.0,))
    assert time.monotonic() - began < 10


def test_few_connections_at_once(session: Session, nodes: Nodes, project: Path, line: Line) -> None:
    mounts = {f"~/{number}": "file" for number in range(12)}
    line.linger_seconds = 0.1
    files.upload(session, nodes(6), Task(file_mounts=mounts, base_dir=str(project)))
    assert line.transfers == 72
    assert line.most["node-0"] <= files.AT_ONCE_PER_HOST
    assert files.AT_ONCE_PER_HOST < line.most["all"] <= files.AT_ONCE


def test_after_a_failure_nothing_is_begun(session: Session, nodes: Nodes, project: Path, line: Line) -> None:
    mounts = {"/proc/nowhere/x": "file"} | {f"~/{number}": "file" for number in range(40)}
    line.linger_seconds = 0.1
    with pytest.raises(TransferFailed, match="nowhere"):
        files.upload(session, nodes(1), Task(file_mounts=mounts, base_dir=str(project)))
    assert line.transfers < 40
