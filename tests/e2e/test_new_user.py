"""What a new user ran into: each was a defect once."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sky_command import SKY, Sky

import sky as library

LOCAL = ("--infra", "local", "-y")


def run(sky: Sky, *argv: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """With descriptors of the test's own choice, which `Sky` doesn't offer."""
    return subprocess.run(argv, env=sky.environment(), cwd=sky.project, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_library_can_be_called_again_and_again(sky: Sky) -> None:
    program = (
        "import sky\n"
        "task = sky.load_task('t.yaml')\n"
        "codes = [sky.launch(task, 'c').exit_code for _ in range(2)]\n"
        "sky.exec(task, 'c', detach=True)\n"
        "sky.cancel('c', every=True)\n"
        "print(codes, [c.name for c in sky.status()], len(sky.queue('c')), [d.error for d in sky.down(['c'])])\n"
    )
    (sky.project / "t.yaml").write_text("resources: {infra: local}\nrun: exit 7\n")
    done = run(sky, sys.executable, "-c", program, capture_output=True)
    assert done.stdout.decode() == "[7, 7] ['c'] 3 [None]\n", done.stderr.decode()


def test_no_function_of_the_library_is_hidden_by_a_module() -> None:
    package = Path(library.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(library.__all__) & modules == {"errors"}
    assert dir(library) == sorted(library.__all__)


def test_devices_are_those_of_the_alternative_that_was_chosen(sky: Sky) -> None:
    (sky.project / "t.yaml").write_text(
        "resources:\n  any_of: [{accelerators: 'A100:1'}, {infra: local}]\n"
        'run: echo "devices $SKYPILOT_NUM_GPUS_PER_NODE"\n'
    )
    assert sky("launch", "-y", "-c", "c", "t.yaml").out == "devices 0\n"
    assert sky("exec", "c", "t.yaml").out == "devices 0\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_descriptor_keeps_nothing_from_being_done(sky: Sky, closed: str) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    done = run(sky, "sh", "-c", f"'{SKY}' exec c 'touch ../ran; exit 3' {closed}", capture_output=True)
    assert (done.returncode, b"Traceback" in done.stderr) == (3, False), done.stderr
    assert sky("exec", "c", "ls ../ran").out == "../ran\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_output_is_blamed_by_every_command_in_the_same_words(sky: Sky, unbuffered: str) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "echo", "hi")
    sky.extra = {**sky.extra, "PYTHONUNBUFFERED": unbuffered}
    said = set()
    with Path("/dev/full").open("wb") as full:
        for argv in ("status", "status -o json", "exec c -- echo hi", "logs c 1", "--help", "--version"):
            done = run(sky, str(SKY), *argv.split(), stdout=full, stderr=subprocess.PIPE)
            assert done.returncode == 125, argv
            said.add(done.stderr.decode().removeprefix("· job 2\n"))
        done = run(sky, str(SKY), "status", "nope", "-o", "json", stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False), "the failure itself stays what it is"
    (text,) = said
    first, second = text.splitlines()
    assert first.startswith("sky: can't write the output: ") and "make room" in second


def test_notes_that_a_full_disk_can_not_take_change_no_code(sky: Sky) -> None:
    with Path("/dev/full").open("wb") as full:
        for argv, code in ((("launch", "-c", "c", *LOCAL, "--", "exit 3"), 3), (("logs", "nope"), 2)):
            done = run(sky, str(SKY), *argv, stdout=subprocess.DEVNULL, stderr=full)
            assert done.returncode == code, argv


def test_a_reader_that_leaves_is_no_code_of_the_job(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "seq", "1", "300000")
    line = f"'{SKY}' logs c | head -1; echo ${{PIPESTATUS[0]}}"
    done = run(sky, "bash", "-c", line, capture_output=True)
    assert done.stdout.split() == [b"1", str(128 + signal.SIGPIPE).encode()]


def test_an_interrupt_while_starting_up_ends_it_without_a_word(sky: Sky) -> None:
    # The earliest moment at which there is something to interrupt: the interpreter imports us.
    program = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from sky.cli.entry import entry\n"
    )
    done = run(sky, sys.executable, "-c", program, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_an_interrupt_answers_a_question(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(sky.project)
        os.execve(SKY, [str(SKY), "down", "c"], sky.environment())
    said = b""
    while b"[Y/n]" not in said:
        said += os.read(terminal, 1024)
    # Once may be lost: Python's readline looks for signals before it waits, not while it begins to. Twice at once
    # would end it the hard way.
    os.write(terminal, b"\x03")
    ended, again = 0, time.monotonic() + 3
    while not ended:
        if time.monotonic() > again:
            os.write(terminal, b"\x03")
            again += 3
        select.select([], [], [], 0.02)
        ended, status = os.waitpid(pid, os.WNOHANG)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 123
    assert sky("status", "-o", "json").json()["clusters"][0]["name"] == "c"


@pytest.mark.parametrize("name", ["", "-x", "..", "a/../../b", "a:b", "x\ny"])
def test_names_that_are_paths_or_options_are_refused_by_a_dry_run_too(sky: Sky, name: str) -> None:
    for more in ([], ["--dryrun"]):
        done = sky("launch", f"--cluster={name}", *LOCAL, *more, "--", "true", code=2)
        assert "can't be a cluster's name" in done.err
    assert json.loads(sky("status", "-o", "json").out)["clusters"] == []


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("launch", "--infra", "locl", "-y", "--", "true"), "did you mean 'local'?"),
        (("launch", "--infra", "a,b", "-y", "--", "true"), "sky plugins list"),
        (("check", "nosuch"), "pip install sky-plugin-nosuch"),
        (("launch", *LOCAL, "--wait", "-1", "--", "true"), "--wait"),
        (("launch", *LOCAL, "--config", "local.price=3", "--", "true"), "unknown key 'price'"),
        (("launch", *LOCAL, "--label", "a", "--", "true"), "--label:"),
        (("down", "-a", "c", "-y"), "which is meant"),
    ],
)
def test_what_the_user_got_wrong_is_2(sky: Sky, argv: tuple[str, ...], says: str) -> None:
    assert says in sky(*argv, code=2).err


def test_another_image_than_the_clusters_is_refused(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    done = sky("launch", "-c", "c", "-y", "--image-id", "docker:x", "--", "true", code=2)
    assert "the default image, not docker:x" in done.err


def test_a_configuration_that_is_no_text_is_named(sky: Sky) -> None:
    (sky.root / "home" / ".sky").mkdir(parents=True, exist_ok=True)
    path = Path(sky.environment()["SKY_HOME"]) / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"local: \xff\n")
    assert "is not UTF-8" in sky("launch", *LOCAL, "--", "true", code=2).err


def test_a_place_that_cannot_be_written_is_named(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    done = sky("logs", "c", "-s", "--target", "/proc/nowhere", code=125)
    assert "/proc/nowhere" in done.err and "sky_rsync failed" not in done.err
    assert "there is no ./nofile" in sky("rsync", "./nofile", "c:x", code=2).err


def test_a_section_that_is_nearly_a_plugins_is_not_ignored_in_silence(sky: Sky) -> None:
    for key, told in (("locall", True), ("local", False), ("some_other_tool", False)):
        done = sky("check", "local", "--config", f"{key}.price_usd_per_hour=1")
        assert ("did you mean 'local'?" in done.err) == told, done


def test_rsync_puts_a_file_where_its_target_says(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    (sky.project / "f").write_text("F")
    sky("rsync", "f", "c:new/")
    sky("rsync", "f", "c:new/.")
    assert sky("exec", "c", "cat ../new/f").out == "F"
    (sky.project / "here").mkdir()
    sky("rsync", "c:new/f", "here")
    sky("rsync", "c:new/f", ".")
    assert (sky.project / "here/f").read_text() == "F"
    for argv in (("", "c:x"), ("c:new", "")):
        assert "an empty path" in sky("rsync", "--delete", *argv, code=2).err
    assert (sky.project / "f").read_text() == "F"


def test_a_pipe_or_device_is_not_replaced(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "mkfifo", "../there")
    (sky.project / "f").write_text("F")
    os.mkfifo(sky.project / "pipe")
    sky("rsync", "f", "c:f")
    assert "neither a file" in sky("rsync", "c:f", "pipe", code=125).err
    sky("rsync", "f", "c:there", code=125)
    assert (sky.project / "pipe").is_fifo()
    assert sky("exec", "c", "test -p ../there && echo pipe").out == "pipe\n"


def test_ssh_takes_one_word_as_a_line_for_the_shell(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    assert sky("ssh", "c", "echo a; echo b; exit 4", code=4).out == "a\nb\n"
    assert sky("ssh", "c", "--", "printf", "%s|", "a b", "$X").out == "a b|$X|"


@pytest.mark.parametrize(
    "option",
    [
        ("-t", "big"),
        ("--use-spot",),
        ("--disk-size", "100"),
        ("--ports", "80"),
        ("--label", "a=b"),
        ("--memory", "99x"),
    ],
)
def test_what_an_existing_cluster_lacks_is_refused(sky: Sky, option: tuple[str, ...]) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    assert "cluster 'c' has" in sky("launch", "-c", "c", "-y", *option, "--", "true", code=2).err


def test_a_job_whose_records_were_taken_away_is_unknown(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    done = sky("exec", "c", 'rm -rf "$(dirname "$0")"; echo x', code=122, timeout=30)
    assert "UNKNOWN" in done.err
    assert [job["state"] for job in sky("queue", "c", "-o", "json").json()["clusters"]["c"]] == [
        "SUCCEEDED",
        "UNKNOWN",
    ]


def test_a_directory_that_is_gone_keeps_from_nothing_but_what_needs_it(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    there = "mkdir gone && cd gone && rmdir ../gone &&"
    for words, code in (
        ("status", 0),
        ("queue c", 0),
        ("logs c -s", 2),
        ("rsync c:x .", 2),
        ("exec c true", 2),
    ):
        done = run(sky, "sh", "-c", f"{there} '{SKY}' {words}", capture_output=True)
        said = done.stderr.decode()
        assert done.returncode == code, (words, said)
        assert (code == 2) == bool(
            re.search(r"^sky: the current directory is gone\W+change to one that exists$", said, re.M)
        ), words
    sky("down", "c", "-y")


def test_a_directory_where_one_may_not_look_has_no_configuration(sky: Sky) -> None:
    (sky.project / "locked").mkdir()
    # What root may do whatever the mode says is what is left out.
    user = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    there = "cd locked && chmod 0 . && ! ls . 2>/dev/null &&"
    for words in ("launch -c c --infra local -y true", "exec c true", "queue c", "down c -y"):
        done = run(sky, *user, "sh", "-c", f"{there} '{SKY}' {words}", capture_output=True)
        (sky.project / "locked").chmod(0o700)
        assert done.returncode == 0, (words, done.stderr)
