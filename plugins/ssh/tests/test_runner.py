"""Commands over ssh: what the kit doesn't know of. On real hosts."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ssh_fixtures import RUNNER, Lab, MakeContext, Ran, alias, eventually, sockets

from sky.api import (
    Cancelled,
    CancelToken,
    Command,
    Context,
    Host,
    ProgramMissing,
    SkyError,
    TimedOut,
    Transfer,
    UsageError,
)

PRINT = 'for a; do printf "%s\\0" "$a"; done'
ODD = (
    "two\nlines\n",
    "wow! !! !$",
    "it's",
    "back\\slash\\\\ \\n \\012",
    "%s %% %h",
    "$HOME ~ * [a] {a,b}",
    "\ttab\r",
    os.fsdecode(bytes(range(1, 256))),
    "",
)
SHELLS = ["lab", "labdash", "labtcsh", "labfish"]


class Parallel:
    """Runs commands at once; `failed` are the errors, `codes` the exit codes by number."""

    def __init__(self, count: int, work: Any) -> None:
        self.codes: dict[int, int] = {}
        self.failed: list[Exception] = []

        def one(number: int) -> None:
            try:
                self.codes[number] = work(number)
            except Exception as error:  # noqa: BLE001 - the test asserts that there is none
                self.failed.append(error)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# --- login shells ------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", SHELLS)
def test_any_login_shell_passes_arguments_as_they_are(lab: Lab, make_context: MakeContext, user: str) -> None:
    ran = Ran(make_context(), lab.plain(user=user), "sh", "-c", PRINT, "sh", *ODD)
    assert (ran.code, ran.err) == (0, b"")
    assert ran.out.split(b"\0")[:-1] == [os.fsencode(argument) for argument in ODD]


@pytest.mark.parametrize("user", SHELLS)
@pytest.mark.parametrize("characters", ["'", "'\\!\n x"])
def test_32_kib_of_the_worst_characters_arrive_with_stdin_after_them(
    lab: Lab, make_context: MakeContext, user: str, characters: str
) -> None:
    argument = "".join(random.Random(2).choices(characters, k=32_000))
    script = f"{PRINT}; cat"
    ran = Ran(make_context(), lab.plain(user=user), "sh", "-c", script, "sh", argument, stdin=b"and this\n")
    assert ran.out == argument.encode() + b"\0and this\n"


@pytest.mark.parametrize(
    ("user", "rc"), [("lab", ".bashrc"), ("labtcsh", ".tcshrc"), ("labfish", ".config/fish/config.fish")]
)
def test_what_rc_files_print_is_no_output_of_the_program(
    lab: Lab, make_context: MakeContext, user: str, rc: str
) -> None:
    file = f"/home/{user}/{rc}"
    lab.on("h3", f"mkdir -p {Path(file).parent} && printf 'echo noise\\nsh -c \"echo noise >&2\"\\n' >{file}")
    try:
        shown = subprocess.run(
            ["ssh", "-F", str(lab.config), "-l", user, "h3", "true"], capture_output=True, timeout=20
        )
        assert b"noise" in shown.stdout, "the rc file isn't read: the test tests nothing"
        ran = Ran(make_context(), lab.plain("10.77.0.13", user=user), "sh", "-c", "echo out; echo err >&2")
        assert (ran.code, ran.out, ran.err) == (0, b"out\n", b"err\n")
    finally:
        lab.on("h3", f"rm {file}")


def test_a_zero_byte_in_an_argument_is_refused(lab: Lab, make_context: MakeContext) -> None:
    with pytest.raises(UsageError, match="zero byte"):
        Ran(make_context(), alias("h1"), "echo", "a\0b")


# --- how it ended ------------------------------------------------------------------------------------


def test_a_programs_own_127_and_255_are_its_own(lab: Lab, make_context: MakeContext) -> None:
    assert Ran(make_context(), alias("h1"), "sh", "-c", "exit 127").code == 127
    assert Ran(make_context(), alias("h1"), "sh", "-c", "exit 255").code == 255
    with pytest.raises(ProgramMissing, match="no-such-program"):
        Ran(make_context(), alias("h1"), "no-such-program")


def test_a_program_that_signals_its_whole_group_is_still_told(lab: Lab, make_context: MakeContext) -> None:
    ran = Ran(make_context(), alias("h1"), "sh", "-c", "kill -s TERM 0; sleep 20")
    assert (ran.code, ran.err) == (143, b"")


def test_what_is_left_in_the_background_is_not_waited_for(lab: Lab, make_context: MakeContext) -> None:
    started = time.monotonic()
    ran = Ran(make_context(), alias("h1"), "sh", "-c", "sleep 30 & echo $!")
    assert ran.code == 0
    assert time.monotonic() - started < 10
    assert Ran(make_context(), alias("h1"), "kill", ran.out.decode().strip()).code == 0, "it must live on"


def test_output_with_half_a_mark_in_it_arrives_whole(lab: Lab, make_context: MakeContext) -> None:
    data = b"\x1e" * 1000 + b"\x1eabc:1\n" + b"\x1e"
    assert Ran(make_context(), alias("h1"), "cat", stdin=data).out == data


@pytest.mark.parametrize("ending", ["cancelled", "timed out", "the sink fails"])
def test_whatever_ends_the_call_ends_the_program(lab: Lab, make_context: MakeContext, ending: str) -> None:
    pid: list[bytes] = []

    class Sink(io.BytesIO):
        def write(self, data: Any, /) -> int:
            pid.append(bytes(data))
            if ending == "cancelled":
                token.cancel()
            elif ending == "the sink fails":
                raise KeyError("the reader has left")
            return len(data)

    token = CancelToken()
    seconds = 2.0 if ending == "timed out" else 30.0
    with pytest.raises((Cancelled, TimedOut, KeyError)):
        script = "trap '' HUP PIPE; echo $$; sleep 60 & wait"
        Ran(make_context(seconds=seconds, cancel=token), alias("h1"), "sh", "-c", script, stdout=Sink())
    number = int(pid[0])
    gone = f"! ps -o pid= --pid {number} && ! ps -o pid= --ppid {number}"
    eventually(lambda: Ran(make_context(), alias("h1"), "sh", "-c", gone).code == 0)


def test_a_home_that_cannot_be_written_is_replaced(lab: Lab, make_context: MakeContext) -> None:
    """By `home` below the work directory, where the account has one."""
    address = lab.plain("10.77.0.13", user="labdash").address
    host = Host(transport="ssh", name="h3", address=address, work_dir="/tmp/sky-work")
    lab.on("h3", "chmod 500 /home/labdash")
    try:
        ran = Ran(make_context(), host, "sh", "-c", 'echo "$HOME"; pwd -P')
        assert ran.out == b"/tmp/sky-work/home\n" * 2
    finally:
        lab.on("h3", "chmod 755 /home/labdash; rm -r /tmp/sky-work")


def test_a_home_that_another_account_has_prepared_is_not_entered(lab: Lab, make_context: MakeContext) -> None:
    """Its name can be guessed, and whose profile is read there is who runs."""
    host = lab.plain("10.77.0.13", user="labdash")
    lab.on(
        "h3", "chmod 500 /home/labdash; d=/tmp/sky-node-2002; mkdir -p -m 777 $d/home; chown 2000 $d $d/home"
    )
    try:
        for prepared in ("", "chown 2002 /tmp/sky-node-2002/home"):
            lab.on("h3", prepared)
            with pytest.raises(SkyError, match=r"neither .HOME nor /tmp is writable"):
                Ran(make_context(), host, "true")
    finally:
        lab.on("h3", "chmod 755 /home/labdash; rm -r /tmp/sky-node-2002")


# --- ways --------------------------------------------------------------------------------------------


def test_a_host_behind_a_bastion_of_the_ssh_config(lab: Lab, make_context: MakeContext) -> None:
    assert Ran(make_context(), alias("inner"), "hostname").out == b"inner\n"


def test_a_host_behind_two_hops_without_any_ssh_config(lab: Lab, make_context: MakeContext) -> None:
    """Keys, users and known hosts of the hops are those of the host; the hops' connections are shared."""
    jump = "lab@10.77.0.11,lab@10.77.0.200:22"
    host = lab.plain("10.77.1.10", proxy_jump=jump)
    before = len(sockets())
    assert Ran(make_context(), host, "hostname").out == b"inner\n"
    other = lab.plain("10.77.1.10", proxy_jump=jump, user="lab2")
    assert Ran(make_context(), other, "id", "-un").out == b"lab2\n"
    assert len(sockets()) <= before + 4, "h1, the bastion by h1, and inner for each user"


def test_a_host_without_rsync_and_python_still_gets_files(
    lab: Lab, make_context: MakeContext, tmp_path: Path
) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_bytes(b"content")
    with lab.destroying():
        lab.script("hide", "inner", "rsync", "python3", "perl")
        try:
            with pytest.raises(ProgramMissing):
                Ran(make_context(), alias("inner"), "rsync", "--version")
            up = Transfer(direction="up", source=str(tmp_path / "tree"), target="~/tree")
            result = RUNNER.sky_rsync(make_context(), alias("inner"), up)
            assert result.method in ("tar", "sh")
            assert Ran(make_context(), alias("inner"), "cat", "tree/deep/file").out == b"content"
        finally:
            lab.script("crash", "inner")


# --- many --------------------------------------------------------------------------------------------


def test_forty_commands_at_once_all_run(lab: Lab, make_context: MakeContext) -> None:
    """A connection takes ten (MaxSessions): the others find room in a few more."""
    with lab.sshd() as server:
        before = len(sockets())

        def work(number: int) -> int:
            return Ran(make_context(seconds=60), server.host(), "sh", "-c", f"sleep 1; exit {number}").code

        many = Parallel(40, work)
        assert many.failed == []
        assert many.codes == {number: number for number in range(40)}
        assert 4 <= len(sockets()) - before <= 8
        assert server.log().count("Accepted publickey") <= 8


PROCESS = """
import io, json, sys, time
from pathlib import Path
from sky.api import Cache, CancelToken, Command, Context, Host
from sky_ssh.plugin import SSHRunner
ctx = Context(config={}, deadline=time.monotonic() + 60, cancel=CancelToken(), emit=print, cache=Cache(),
              directory=Path(sys.argv[2]))
host = Host(transport="ssh", name="h", address=json.loads(sys.argv[1]))
sys.exit(SSHRunner().sky_run(ctx, host, Command(argv=("sh", "-c", "exit 7")), None, io.BytesIO(), io.BytesIO()))
"""


def test_processes_that_start_at_once_share_one_connection(lab: Lab, tmp_path: Path) -> None:
    """Also where sshd refuses a second handshake while one is going on."""
    import json

    with lab.sshd(MaxStartups="1") as server:
        words = [sys.executable, "-P", "-c", PROCESS, json.dumps(dict(server.host().address)), str(tmp_path)]
        processes = [subprocess.Popen(words) for _ in range(6)]
        assert [process.wait(60) for process in processes] == [7] * 6
        assert server.log().count("Accepted publickey") == 1


def test_a_server_that_lets_one_session_into_a_connection(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd(MaxSessions="1") as server:
        before = len(sockets())
        many = Parallel(4, lambda _: Ran(make_context(), server.host(), "sleep", "1").code)
        assert (many.failed, many.codes) == ([], dict.fromkeys(range(4), 0))
        assert len(sockets()) - before > 1, "they'd run one after the other"


# --- whose settings ----------------------------------------------------------------------------------


def test_config_none_is_caught_by_no_host_star(ssh_config: Lab, make_context: MakeContext) -> None:
    text = "Host *\n  User nobody\n  Port 1\n  ProxyJump nowhere\n  RequestTTY force\n  RemoteCommand false\n"
    ssh_config.config.write_text(text)
    assert Ran(make_context(), ssh_config.plain(), "id", "-un").out == b"lab\n"


def test_what_the_address_says_wins_over_the_config(ssh_config: Lab, make_context: MakeContext) -> None:
    own = ssh_config.config.read_text()
    ssh_config.config.write_text(
        own + "Host *\n  RequestTTY force\n  RemoteCommand false\n  LocalForward 22222 127.0.0.1:22\n"
        "  BatchMode no\n  ControlMaster auto\n  ControlPath ~/.ssh/own-%C\n  LogLevel DEBUG\n"
    )
    ran = Ran(make_context(), alias("h1", user="lab2"), "id", "-un")
    assert (ran.out, ran.err) == (b"lab2\n", b"")
    assert not list((ssh_config.home / ".ssh").glob("own-*"))


def test_the_agent_is_led_on_only_where_the_users_config_says_so(
    ssh_config: Lab, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        eventually(socket.exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        script = ("sh", "-c", 'echo "${SSH_AUTH_SOCK:-none}"')
        assert Ran(make_context(), alias("h1"), *script).out == b"none\n"
        own = ssh_config.config.read_text()
        ssh_config.config.write_text(own + "Host *\n  ForwardAgent yes\n")
        assert Ran(make_context(), ssh_config.plain(), *script).out == b"none\n"
        # The connection of before would be taken for another file of the same name.
        RUNNER.sky_disconnect(make_context(), alias("h1"))
        assert Ran(make_context(), alias("h1"), *script).out.startswith(b"/tmp/")
    finally:
        agent.terminate()
        agent.wait()


# --- what cannot run ---------------------------------------------------------------------------------


def test_an_account_that_runs_no_commands_is_said_to(lab: Lab, make_context: MakeContext) -> None:
    said = r"login shell ran no command \(no commands here\)"
    with lab.sshd(ForceCommand="echo no commands here") as server, pytest.raises(SkyError, match=said):
        Ran(make_context(), server.host(), "true")


def test_a_context_without_a_deadline(lab: Lab, make_context: MakeContext) -> None:
    ctx: Context = make_context(seconds=None)
    assert RUNNER.sky_run(ctx, alias("h1"), Command(argv=("true",)), None, io.BytesIO(), io.BytesIO()) == 0
