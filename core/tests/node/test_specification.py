"""docs/protocol.md says what the scripts do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from node_harness import job

from sky.node import protocol
from sky.types import JobState

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/protocol.md").read_text()
SCRIPTS = ROOT / "core/src/sky/node"
BOOT = (SCRIPTS / "boot.sh").read_text()
NODE = "".join((SCRIPTS / f"{part}.sh").read_text() for part in protocol.PARTS)


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def words(title: str) -> set[str]:
    """First column of the section's table."""
    return {
        w for row in re.findall(r"^\| (`.*?) \|", section(title), re.M) for w in re.findall(r"`(\w+)`", row)
    }


def test_version() -> None:
    assert PAGE.startswith(f"# Node protocol, version {protocol.VERSION}\n")
    assert {f"sky{protocol.VERSION}"} == set(re.findall(r"\bsky\d+\b", BOOT + NODE))


def test_verbs() -> None:
    (listed,) = re.findall(r"^  ([a-z| ]+)\) \"\$verb\"", NODE, re.M)
    assert words("Verbs") == set(listed.split(" | "))
    for verb in words("Verbs"):
        (comment,) = re.findall(rf"^{verb}\(\) \{{ # ?([A-Z_a-z@| ]*)", NODE, re.M)
        (row,) = re.findall(rf"^\| `{verb}` \| (.*?) \|", section("Verbs"), re.M)
        capitals = re.findall(r"\b[A-Z_]{2,}\b", comment)
        if verb != "list":
            assert [w.replace("TAIL_LINES", "TAIL") for w in capitals] == re.findall(
                r"\b[A-Z_]{2,}\b", row
            ), verb


def test_control_words() -> None:
    code = re.sub(r"^\s*#.*|\s# .*", "", NODE, flags=re.M)
    said = set(re.findall(r"\bsay \"?([a-z]+)", code)) | set(re.findall(r"'sky1 ([a-z]+)", BOOT))
    assert words("Control lines") == said


def test_needed_programs() -> None:
    (named,) = re.findall(r"^    needs: (.*)$", PAGE, re.M)
    (checked,) = re.findall(r"^for a in (.*); do$", BOOT, re.M)
    assert named == checked
    code = re.sub(r"^\s*#.*|\s# .*", "", BOOT + NODE, flags=re.M)
    used = {
        p
        for p in checked.split()
        if re.search(rf"(?:^|[|;&({{!]|\$\(|then|do|else|exec)\s*{p}\b", code, re.M)
    }
    assert used == set(checked.split())


def test_nothing_else_is_used(tmp_path: Path) -> None:
    """With a PATH that holds only these and sh, a job runs to its end and nothing is said to be missing."""
    (named,) = re.findall(r"^    needs: (.*)$", PAGE, re.M)
    for name in named.split():
        program = shutil.which(name)
        assert program
        (tmp_path / name).symlink_to(program)
    dash = shutil.which("dash")
    assert dash
    (tmp_path / "sh").symlink_to(dash)
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    calls = [protocol.submit("", job("echo x", setup="echo s"), {}, True)]
    calls += [
        protocol.call("", *args) for args in (("logs", "1", "0", "1", "0"), ("list",), ("cancel", "all", "1"))
    ]
    for command, stdin in calls:
        done = subprocess.run(
            command.argv, executable=dash, input=stdin.getvalue(), env=env, capture_output=True, check=True
        )
        others = [line for line in done.stderr.splitlines() if not line.startswith(b"sky1 ")]
        assert not others and b"not found" not in done.stdout, done


def test_files_and_states() -> None:
    for name in re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section("What is kept"), re.M))):
        assert re.search(rf"[/ \"]{name}\b", NODE), name
    assert {s for s in JobState if s in section("States")} == set(JobState)


def test_bootstrap_is_short() -> None:
    command, _ = protocol.call("", "list")
    assert len(command.argv[2]) <= 4096
