"""`-o json`: stdout is exactly one document, whatever happens; a job's output goes to stderr."""

from __future__ import annotations

import pytest
from sky_command import Sky

LOCAL = ("--infra", "local", "-y")


def test_launch_exec_and_logs_tell_the_jobs_code_and_print_its_output_on_stderr(sky: Sky) -> None:
    done = sky("launch", "-c", "c", *LOCAL, "-o", "json", "--", "sh", "-c", "echo out; exit 3", code=3)
    document = done.json()
    assert document["kind"] == "launch" and document["error"] is None
    assert (document["cluster"], document["job"], document["state"], document["exit_code"]) == (
        "c",
        "1",
        "FAILED",
        3,
    )
    assert "out\n" in done.err
    done = sky("exec", "c", "-o", "json", "--", "echo", "{}")
    assert done.json()["kind"] == "exec" and "{}\n" in done.err
    done = sky("logs", "c", "-o", "json")
    assert done.json()["exit_code"] == 0 and done.err == "{}\n"
    assert sky("exec", "c", "-d", "-o", "json", "--", "true").json()["state"] is None


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (("status",), "status"),
        (("status", "--refresh"), "status"),
        (("status", "--rebuild"), "status"),
        (("queue", "c"), "queue"),
        (("queue",), "queue"),
        (("logs", "c", "--status"), "logs"),
        (("logs", "c", "--sync-down"), "logs"),
        (("cancel", "c", "-y"), "cancel"),
        (("check",), "check"),
        (("rsync", ".", "c:x"), "rsync"),
        (("plugins", "list"), "plugins"),
        (("plugins", "list", "--no-load"), "plugins"),
        (("plugins", "show", "local"), "plugin"),
        (("launch", "--dryrun", *LOCAL, "--", "true"), "plan"),
        (("launch", "-y", "-c", "c", "--infra", "local"), "launch"),
        (("down", "c", "-y"), "down"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_every_command_that_shows_something_prints_one_document(
    sky: Sky, argv: tuple[str, ...], kind: str
) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    assert sky(*argv[:1], *argv[1:2], "-o", "json", *argv[2:]).json()["kind"] == kind


@pytest.mark.parametrize(
    ("argv", "code", "kind"),
    [
        (("exec", "none", "--", "true"), 2, "usage"),
        (("status", "none"), 2, "usage"),
        (("status", "--bogus"), 2, "usage"),
        (("launch", "-y", "none.yaml"), 2, "usage"),
        (("launch", *LOCAL, "--cpus", "900", "--", "true"), 120, "nothing_feasible"),
        (("launch", "-y", "--infra", "k8s", "--", "true"), 121, "credentials"),
        (("launch", "-y", "--infra", "nebula", "--", "true"), 2, "usage"),
        (("logs", "none"), 2, "usage"),
        (("down", "none", "-y"), 2, "usage"),
        (("rsync", "a", "b"), 2, "usage"),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, tuple) else None
    ),
)
def test_a_failure_is_one_document_with_its_kind(
    sky: Sky, argv: tuple[str, ...], code: int, kind: str
) -> None:
    done = sky(*argv[:1], "-o", "json", *argv[1:], code=code)
    document = done.json()
    assert document["kind"] == "error"
    error = document["error"]
    assert error["kind"] == kind and error["code"] == code and error["message"], document
    assert done.err.startswith("sky: "), "people read stderr"


def test_dryrun_with_nothing_feasible_is_still_one_document(sky: Sky) -> None:
    done = sky("launch", *LOCAL, "--dryrun", "--cpus", "900", "-o", "json", "--", "true", code=120)
    document = done.json()
    assert document["kind"] == "plan" and document["candidates"] == []
    assert document["rejections"][0]["near_misses"], document
