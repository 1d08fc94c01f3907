"""Codes and logs of jobs, by the command and over every transport: the code is the block's, the log is whole."""

from __future__ import annotations

from collections.abc import Iterator

import places
import pytest
from places import EVERYWHERE
from sky_command import Sky


@pytest.fixture(scope="module", params=EVERYWHERE)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sky]:
    """A cluster `c`, over each transport."""
    with places.place(request.param, tmp_path_factory.mktemp("jobs"), request) as place:
        place.sky("launch", "-c", "c", *place.options)
        yield place.sky


BLOCKS = {
    "exit 3": ("exit 3\n", {3}),
    "pipe": ("true | (exit 4)\n", {4}),
    "trap": ("trap 'echo bye' EXIT; exit 5\n", {5}),
    "exec": ("exec sh -c 'exit 6'\n", {6}),
    "no newline at the end": ("true\nsh -c 'exit 7'", {7}),
    "a quote that is never closed": ('echo "open\n', {1, 2, 127}),
    "no such program": ("no-such-program\n", {127}),
    "killed": ("kill -9 $$\n", {137}),
    "255": ("exit 255\n", {255}),
}


@pytest.mark.parametrize("form", BLOCKS)
def test_a_blocks_code_is_the_jobs_and_the_commands(up: Sky, form: str) -> None:
    text, codes = BLOCKS[form]
    lines = "".join(f"  {line}" for line in text.splitlines(keepends=True))
    (up.project / "t.yaml").write_text(f"run: |{'-' if not text.endswith(chr(10)) else ''}\n{lines}")
    done = up("exec", "c", "t.yaml", code=None)
    assert done.code in codes, done
    job = up("queue", "c", "-o", "json").json()["clusters"]["c"][-1]
    assert (job["state"], job["exit_code"]) == ("FAILED", done.code)
    assert up("logs", "c", job["id"], code=done.code).out == done.out


def test_characters_arrive_whole_however_they_are_written(up: Sky) -> None:
    """Each byte by a process of its own, so that it may be sent alone."""
    text = "é漢🙂\n"
    octal = " ".join(f"{byte:03o}" for byte in text.encode())
    done = up("exec", "c", f"for o in {octal}; do sh -c \"printf '\\\\$o'\"; done")
    assert done.out == text
    assert up("logs", "c").raw == text.encode()


def test_the_last_line_before_the_end_is_shown(up: Sky) -> None:
    for number in range(10):
        assert (
            up("exec", "c", f"echo first; echo last {number}; exit 1", code=1).out
            == f"first\nlast {number}\n"
        )
    size = 20_000_000
    done = up("exec", "c", f"head -c {size} /dev/zero | tr '\\0' x; echo; echo an error >&2; exit 9", code=9)
    assert len(done.raw) == size + 1 + len("an error\n") and done.raw.endswith(b"x\nan error\n")
    assert up("logs", "c", "--tail", "1", code=9).out == "an error\n"
