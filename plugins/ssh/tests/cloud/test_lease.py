"""`lease.sh`, by real shells on this machine: what it answers, who wins, and what is left of one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sky.api import ConnectionLost, ProvisioningFailed, SkyError
from sky_ssh import lease
from sky_ssh.lease import Node, Seen

SHELLS = (("dash",), ("bash",), ("busybox", "sh"))
Ask = Callable[..., Seen]


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A home with a space in its name."""
    made = tmp_path / "a home"
    made.mkdir()
    return made


def start(
    home: Path, verb: str, shell: tuple[str, ...] = ("dash",), **variables: str
) -> subprocess.Popen[bytes]:
    path = variables.pop("path", os.environ["PATH"])
    node = Node("here", {"host": "here"}, variables.pop("dir", ""))
    process = subprocess.Popen(
        shell,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        env={"HOME": str(home), "PATH": path, "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"},
    )
    assert process.stdin is not None
    process.stdin.write(lease.script(verb, node, **variables).encode())
    process.stdin.close()
    process.stdin = None
    return process


def ask(home: Path, verb: str, shell: tuple[str, ...] = ("dash",), **variables: str) -> Seen:
    out, err = start(home, verb, shell, **variables).communicate(timeout=30)
    return lease.parse("here", out, err)


def left(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_taken_shown_and_given_back(account: Path, shell: tuple[str, ...]) -> None:
    document = '{"rank":1,"cluster_name":"it\'s \\\\ $HOME `x`  y","user":"u","since":"s"}'
    taken = ask(account, "take", shell, id="one", doc=document)
    assert taken.taken and taken.held_by("one") and taken.ready
    assert taken.rank == 1 and taken.document is not None
    assert taken.document["cluster_name"] == "it's \\ $HOME `x`  y"
    assert taken.work_dir == f"{account}/.sky-node/c/one.{os.uname().nodename}"
    assert taken.ip == "10.0.0.2"
    assert (account / ".sky-node").stat().st_mode & 0o777 == 0o700

    again = ask(account, "take", shell, id="one", doc="{}")
    assert again.held_by("one") and again.rank == 1 and not again.taken, "what is held is adopted as it is"
    other = ask(account, "take", shell, id="two", doc="{}")
    assert not other.held_by("two") and not other.taken and other.holder == "one"
    assert other.whose == 'leased by cluster "it\'s \\\\ $HOME `x`  y" of u since s'
    shown = ask(account, "show", shell, id="two")
    assert shown.holder == "one" and not shown.ready

    ask(account, "give", shell, id="two")
    assert ask(account, "show", shell, id="one").ready, "another's lease is left alone"
    for _ in range(2):
        assert ask(account, "give", shell, id="one").holder == ""
    assert left(account) == []
    assert ask(account, "show", shell, id="one").holder == ""


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_what_is_removed_is_what_was_made_wherever_home_is_now(
    account: Path, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    shared, moved = str(tmp_path / "leases"), tmp_path / "moved"
    moved.mkdir()
    made = ask(account, "take", shell, id="one", doc="{}", dir=shared).work_dir
    for verb in ("show", "take"):
        seen = ask(moved, verb, shell, id="one", doc="{}", dir=shared)
        assert seen.ready and seen.work_dir == made and left(moved) == []
    for home in (account, moved):
        (home / "sky_workdir").mkdir()
    assert ask(moved, "give", shell, id="one", dir=shared).holder == ""
    assert left(account) == [] and left(moved) == ["sky_workdir"]


def test_a_lease_that_names_another_directory_has_it_left_alone(account: Path) -> None:
    ask(account, "take", id="one", doc="{}")
    (account / "data").mkdir()
    (file,) = account.glob(".sky-node/lease.*")
    lines = file.read_text().splitlines()
    lines = [f"work_dir {account}/data" if line.startswith("work_dir ") else line for line in lines]
    file.write_text("\n".join(lines) + "\n")
    ask(account, "give", id="one")
    assert left(account) == ["data"]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_what_a_host_has(account: Path, tmp_path: Path, shell: tuple[str, ...]) -> None:
    seen = ask(account, "look", shell)
    assert seen.cpus >= 1 and seen.memory_gib > 0.1 and seen.writable
    assert (seen.home, seen.hostname, seen.gpus) == (str(account), os.uname().nodename, ())
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H100 80GB HBM3\necho NVIDIA H100 80GB HBM3\n")
    (tools / "nvidia-smi").chmod(0o755)
    seen = ask(account, "look", shell, path=f"{tools}:{os.environ['PATH']}")
    assert seen.gpus == ("NVIDIA H100 80GB HBM3",) * 2


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_of_many_at_once_one_wins(account: Path, shell: tuple[str, ...]) -> None:
    for round_ in range(5):
        processes = [start(account, "take", shell, id=f"c{round_}-{i}", doc="{}") for i in range(12)]
        answers = [lease.parse("here", *process.communicate(timeout=60)) for process in processes]
        winners = [i for i, seen in enumerate(answers) if seen.held_by(f"c{round_}-{i}")]
        assert len(winners) == 1
        assert {seen.holder for seen in answers} == {f"c{round_}-{winners[0]}"}, "each is told who won"
        assert sum(seen.taken for seen in answers) == 1
        ask(account, "give", id=f"c{round_}-{winners[0]}")
    assert left(account) == []


def test_the_same_cluster_by_many_at_once_is_one_lease(account: Path) -> None:
    processes = [start(account, "take", id="same", doc=f'{{"rank":{i}}}') for i in range(12)]
    answers = [lease.parse("here", *process.communicate(timeout=60)) for process in processes]
    assert all(seen.held_by("same") for seen in answers)
    assert len({seen.rank for seen in answers}) == 1
    assert sum(seen.taken for seen in answers) == 1


def test_taking_and_giving_back_at_once_never_leaves_two_holders(account: Path) -> None:
    """A lock that each holder makes with `open(O_EXCL)` while it holds: a second holder would find it."""
    wrong: list[str] = []

    def client(name: str) -> None:
        held = 0
        until = time.monotonic() + 60
        while held < 20 and time.monotonic() < until:
            if not ask(account, "take", id=name, doc="{}").held_by(name):
                continue
            held += 1
            try:
                os.close(os.open(account.parent / "held", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                wrong.append(name)
            (account.parent / "held").unlink(missing_ok=True)
            ask(account, "give", id=name)
        if held < 20:
            wrong.append(f"{name} starved")

    def guarded(name: str) -> None:
        try:
            client(name)
        except SkyError as error:
            wrong.append(f"{name}: {error.message}")

    threads = [threading.Thread(target=guarded, args=(f"c{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert left(account) == []


def test_whenever_it_is_killed_a_lease_is_whole_or_absent(account: Path) -> None:
    seen_whole = seen_absent = 0
    for number in range(60):
        process = start(account, "take", id="killed", doc='{"rank":0}')
        time.sleep(number / 60 * 0.02)  # another moment each time: nothing is waited for
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen = ask(account, "show", id="killed")
        if seen.holder:
            assert seen.held_by("killed") and seen.rank == 0
            seen_whole += 1
        else:
            seen_absent += 1
        assert ask(account, "take", id="killed", doc='{"rank":0}').ready, "a repeat finishes it"
        ask(account, "give", id="killed")
        assert left(account) == []
    assert seen_whole and seen_absent, "the moments were too much alike"


def test_whenever_giving_back_is_killed_it_can_be_repeated(account: Path) -> None:
    for number in range(40):
        work = Path(ask(account, "take", id="killed", doc="{}").work_dir)
        for name in range(20):
            (work / str(name)).mkdir()
        (account / "sky_workdir").mkdir()
        process = start(account, "give", id="killed")
        time.sleep(number / 40 * 0.02)  # another moment each time: nothing is waited for
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (account / "sky_workdir").exists():
            assert ask(account, "show", id="killed").held_by("killed"), "the lease goes last"
        ask(account, "give", id="killed")
        assert left(account) == []


def test_a_workdir_that_was_there_before_stays(account: Path) -> None:
    (account / "sky_workdir").mkdir()
    (account / "sky_workdir" / "mine").touch()
    ask(account, "take", id="one", doc="{}")
    ask(account, "give", id="one")
    assert left(account) == ["sky_workdir", "sky_workdir/mine"]


def test_a_workdir_that_came_with_the_lease_goes_with_it(account: Path) -> None:
    ask(account, "take", id="one", doc="{}")
    (account / "sky_workdir").mkdir()
    ask(account, "take", id="one", doc="{}")
    ask(account, "give", id="one")
    assert left(account) == []


def test_hosts_that_share_a_home_are_leased_apart(account: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a process another host name")
    there = ("unshare", "--uts", "sh", "-c", "hostname there && exec dash")
    here = ask(account, "take", id="one", doc='{"rank":0}')
    elsewhere = ask(account, "take", there, id="one", doc='{"rank":1}')
    assert (here.rank, elsewhere.rank) == (0, 1)
    assert here.work_dir != elsewhere.work_dir
    ask(account, "give", id="one")
    assert ask(account, "show", there, id="one").ready
    ask(account, "give", there, id="one")
    assert left(account) == []


@pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
def test_what_is_no_lease_is_in_the_way_and_said(account: Path, kind: str) -> None:
    place = account / ".sky-node" / f"lease.{os.uname().nodename}"
    place.parent.mkdir()
    if kind == "directory":
        place.mkdir()
    elif kind == "link":
        place.symlink_to("x")
    else:
        os.mkfifo(place)
    with pytest.raises(ProvisioningFailed, match=f"here: {place} is in the way"):
        ask(account, "take", id="one", doc="{}")


def test_a_lease_that_says_nothing_holds_all_the_same(account: Path) -> None:
    place = account / ".sky-node" / f"lease.{os.uname().nodename}"
    place.parent.mkdir()
    place.write_text("of another version\n")
    seen = ask(account, "take", id="one", doc="{}")
    assert not seen.held_by("one") and seen.whose == "leased by someone"


def test_a_place_that_cannot_be_written_is_said(account: Path) -> None:
    (account / ".sky-node").write_text("a file")
    with pytest.raises(ProvisioningFailed, match="can't be written to"):
        ask(account, "take", id="one", doc="{}")


def test_an_answer_that_was_cut_is_no_answer() -> None:
    with pytest.raises(ConnectionLost):
        lease.parse("here", b"ip 1.2.3.4\nlease one\n", b"")
    with pytest.raises(ProvisioningFailed, match="no such thing"):
        lease.parse("here", b"", b"sh: no such thing")


def test_passwords_are_in_no_process_list(account: Path, tmp_path: Path) -> None:
    """By a sudo that looks for it in the arguments and the environment of every process, itself included."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sudo").write_text(
        "#!/bin/sh\n"
        "case $* in *-n*) exit 1;; esac\n"
        "read -r given\n"
        f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -ac 'Ge[h]eim 9' >'{tools}/seen'\n"
        '[ "$given" = "Geheim 9\'" ]\n'
    )
    (tools / "sudo").chmod(0o755)
    path: Any = f"{tools}:{os.environ['PATH']}"
    assert ask(account, "show", sudo="ask", password="Geheim 9'", path=path).sudo == "accepted"
    assert (tools / "seen").read_text() == "0\n"
    assert ask(account, "show", sudo="ask", password="other", path=path).sudo == "refused"
    assert ask(account, "show", sudo="ask", path=path).sudo == "password"

    ask(account, "take", id="one", doc="{}", password="Geheim 9'", askpass="1")
    (program,) = account.glob(".sky-node/c/one.*/askpass")
    assert program.stat().st_mode & 0o777 == 0o700
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "Geheim 9'\n"
    ask(account, "give", id="one")
    assert left(account) == []
