"""The user's blocks: what they find, how they are read, and that their exit code is the job's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest
from node_harness import Node

from sky.types import JobState


@pytest.mark.parametrize(
    ("run", "codes"),
    [
        ("exit 3", {3}),
        ("true | (exit 4)", {4}),
        ("trap 'echo bye' EXIT; exit 5", {5}),
        ("exec sh -c 'exit 6'", {6}),
        ("true\nsh -c 'exit 7'", {7}),
        ('echo "never closed', {1, 2, 127}),
        ("no-such-program", {127}),
        ("kill -9 $$", {137}),
        ("exit 255", {255}),
    ],
)
def test_exit_code(node: Node, run: str, codes: set[int]) -> None:
    answer = node.submit(run)
    assert answer.end[0] == "FAILED" and int(answer.end[1]) in codes
    (status,) = node.jobs()
    assert status.state is JobState.FAILED and status.exit_code in codes


def test_last_line_without_newline_runs(node: Node) -> None:
    assert node.submit("echo one\nprintf two").out == b"one\ntwo"


def test_heredocs_and_special_characters_stay(node: Node) -> None:
    run = """cat <<'END'
$HOME `id` \\n "a  b" 'c'
END
x=1; cat <<END
$x \\$HOME \\`id\\` \\\\
END
"""
    assert node.submit(run).out == b"$HOME `id` \\n \"a  b\" 'c'\n1 $HOME `id` \\\n"


def test_crlf(node: Node) -> None:
    answer = node.submit("if true; then\r\n  echo yes\r\nfi\r\n", setup="echo setup\r\n")
    assert answer.out == b"setup\nyes\n"


OWN_NAMES = re.findall(r"\w+", "W v id state low d me mask file run first total grant trash known code b IFS")
"""Variables of the script itself."""
ODD_VALUES = {
    "QUOTES": "it's \"quoted\" 'twice''",
    "LINES": "\none\n\ntwo\n",
    "DOLLAR": "$HOME `id` $(id) ${x}",
    "BACKSLASH": "\\ \\n \\\\ trailing\\",
    "BYTES": os.fsdecode(bytes(range(1, 256))),
    "EMPTY": "",
    "LONG": "x" * 100_000,
    **dict.fromkeys(
        [
            "W",
            "v",
            "id",
            "state",
            "low",
            "d",
            "me",
            "mask",
            "file",
            "run",
            "first",
            "total",
            "grant",
            "trash",
            "known",
            "code",
            "b",
            "IFS",
        ],
        "*",
    ),
}


def test_any_value_arrives(node: Node) -> None:
    names = list(ODD_VALUES)
    run = "printf '%s\\0' " + " ".join(f'"${n}"' for n in names)
    answer = node.submit(run, env=ODD_VALUES)
    assert dict(zip(names, answer.out.split(b"\0"), strict=False)) == {
        name: os.fsencode(value) for name, value in ODD_VALUES.items()
    }
    assert answer.end[:2] == ["SUCCEEDED", "0"]


def test_what_was_asked_for_comes_before_the_profiles(bash_node: Node) -> None:
    (bash_node.home / ".bash_profile").write_text("export A=profile P=profile\n")
    (bash_node.home / ".bashrc").write_text("export A=rc R=rc; return 3\n")
    answer = bash_node.submit('echo "$A $P $R $#"', env={"A": "given"})
    assert answer.out == b"given profile rc 0\n"


def test_interactive_part_of_bashrc_is_not_needed(bash_node: Node) -> None:
    rc = "export BEFORE=1\ncase $- in *i*) ;; *) return;; esac\nexport A=1\n"
    (bash_node.home / ".bashrc").write_text(rc)
    assert bash_node.submit('echo "$BEFORE-$A"').out == b"1-\n"


def test_without_bash_it_is_said_once(anywhere: Callable[[str], Node]) -> None:
    plain = anywhere("busybox")
    (plain.home / ".profile").write_text("export P=1\n")
    answer = plain.submit("echo $P", setup="true")
    assert answer.out == b"1\n"
    assert len(answer.of("note")) == 1 and "no bash" in " ".join(answer.of("note")[0])
    assert not anywhere("dash").submit("true").of("note")


def test_interpreter_line(node: Node) -> None:
    assert node.submit("#!/bin/sh -e\necho one; false; echo two").out == b"one\n"
    assert node.submit('#! /bin/sh\necho "$0 $FROM"', env={"FROM": "env"}).out.endswith(b"/run env\n")


def test_interpreter_that_is_not_there(node: Node) -> None:
    assert node.submit("#!/no/such/thing\nx").end[:2] == ["FAILED", "127"]


def test_umask_directory_and_stdin(node: Node) -> None:
    node.preexec = lambda: os.umask(0o027)
    answer = node.submit("umask; pwd; cat; echo >made")
    assert answer.out.splitlines() == [b"0027", os.fsencode(node.home / "sky_workdir")]
    assert (node.home / "sky_workdir/made").stat().st_mode & 0o777 == 0o640
    assert node.work.stat().st_mode & 0o777 == 0o700
    assert node.directory(1).stat().st_mode & 0o777 == 0o700


def test_signals_reach_the_job(node: Node) -> None:
    """Neither SIGINT nor SIGQUIT is ignored, as it would be for a background process of a shell."""
    answer = node.submit("grep SigIgn /proc/self/status")
    assert int(answer.out.split()[1], 16) & 0b110 == 0


def test_kill_0_stays_inside(node: Node) -> None:
    answer = node.submit("sleep 100 & kill -9 0")
    assert answer.end[:2] == ["FAILED", "137"]


def test_setup_fails(node: Node) -> None:
    answer = node.submit("echo never", setup="echo s; exit 9")
    assert (answer.out, answer.end[:2]) == (b"s\n", ["FAILED_SETUP", "9"])


def test_job_without_blocks(node: Node) -> None:
    assert node.submit(None).end == ["SUCCEEDED", "0", "0"]
    assert node.submit(None, setup="echo x").end == ["SUCCEEDED", "0", "2"]


def test_home_that_cannot_be_used(anywhere: Callable[[str], Node]) -> None:
    """Runners set HOME to a directory that can be written; where it isn't so, the log says what failed."""
    made = anywhere("dash")
    (made.home / "sky_workdir").write_text("in the way")
    answer = made.submit("echo never")
    assert answer.end[:2] == ["FAILED", "125"] and b"sky_workdir" in answer.out


def test_secrets_leave_with_the_job(node: Node) -> None:
    node.submit("true", env={"TOKEN": "s3cret"}, setup="true")
    assert not [f for f in node.work.rglob("*") if f.is_file() and b"s3cret" in f.read_bytes()]
    names = {f.name.partition(".")[0] for f in node.directory(1).iterdir()}
    assert not names & {"env", "run", "setup"}


def test_bash_as_sh(anywhere: Callable[[str], Node]) -> None:
    made = anywhere("bash")
    answer = made.submit('echo "$A"; exit 3', env={"A": "it's"}, setup="echo setup")
    assert (answer.out, answer.end[:2]) == (b"setup\nit's\n", ["FAILED", "3"])
    assert made.call("logs", "1", "0", "1", "0").out == b"it's\n"
    follow = made.open(made.submission("sleep 1000"))
    made.wait(2, "RUNNING")
    assert made.call("cancel", "all", "5").of("cancelled") == [["2", "CANCELLED"]]
    assert made.finish(follow).end[0] == "CANCELLED"
