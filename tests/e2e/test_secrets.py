"""No value of a secret, nor of `--env`, is anywhere but in the job's environment while the job lives.

Looked at: the state directory (the database and its log included), everything printed (with SKY_DEBUG and
SKY_TRACE_HOOKS too), the command lines of every process on both sides while it runs, the pod as its API
server shows it, a dry run, and the job's directory after its end.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import places
import pytest
from places import EVERYWHERE, Place
from sky_command import Kubernetes, Sky
from ssh_home import Hosts

JOB = 'printf "%s\\n" "${X_TOKEN%%-*}" "${X_SECRET%%-*}"; sleep 0.5'


class Values:
    """A variable and a secret, each with a value that can't be anywhere by chance."""

    def __init__(self) -> None:
        self.env = f"envvalue-{secrets.token_hex(8)}"
        self.secret = f"secretvalue-{secrets.token_hex(8)}"
        self.given = {"X_TOKEN": self.env, "X_SECRET": self.secret}
        """For `--env X_TOKEN --secret X_SECRET`, which take the caller's own values."""

    def found_in(self, data: bytes | str) -> list[str]:
        raw = data.encode() if isinstance(data, str) else data
        tails = [value.partition("-")[2] for value in (self.env, self.secret)]
        return [tail for tail in tails if tail.encode() in raw]

    def expect_none(self, what: str, data: bytes | str) -> None:
        assert not self.found_in(data), f"{what} holds a value"

    def expect_none_below(self, directory: Path) -> None:
        for path in directory.rglob("*"):
            if path.is_file():
                with contextlib.suppress(FileNotFoundError):  # others use the hosts, too
                    self.expect_none(str(path), path.read_bytes())


OPTIONS = ("--env", "X_TOKEN", "--secret", "X_SECRET")


@contextmanager
def command_lines(values: Values) -> Iterator[list[str]]:
    """Every command line on this machine (pods and hosts are processes here, too) that holds a value while inside."""
    caught: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue  # it has ended
                if values.found_in(line):
                    caught.append(line.replace(b"\0", b" ").decode(errors="replace"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield caught
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_values_are_in_the_jobs_environment_and_nowhere_else(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with places.place(kind, tmp_path, request) as place:
        expect_nowhere_else(place, request)


def expect_nowhere_else(place: Place, request: pytest.FixtureRequest) -> None:
    sky = place.sky
    values = Values()
    env = {**values.given, "SKY_DEBUG": "1", "SKY_TRACE_HOOKS": "1"}
    with command_lines(values) as caught:
        done = sky("launch", "-c", "c", *place.options, *OPTIONS, "--", "sh", "-c", JOB, env=env)
        again = sky("exec", "c", *OPTIONS, "--", "sh", "-c", JOB, env=env)
    assert done.out == again.out == "envvalue\nsecretvalue\n", done
    assert not caught, f"a command line held a value: {caught[0]}"
    for which in (done, again):
        values.expect_none("what was printed", which.raw + which.raw_err)
    values.expect_none_below(sky.state)
    values.expect_none_below(sky.home)
    for argv in (("status", "-o", "json"), ("queue", "c", "-o", "json"), ("status", "-v")):
        values.expect_none(f"sky {argv}", sky(*argv).raw)
    if place.kind == "local":
        values.expect_none_below(sky.data)
    elif place.kind == "ssh":
        runtime = Path(sky.extra["XDG_RUNTIME_DIR"])
        assert any(path.is_socket() for path in runtime.rglob("*"))
        values.expect_none("names of sockets", "\n".join(map(str, runtime.rglob("*"))))
        values.expect_none_below(runtime)
        expect_none_on_hosts(place, request.getfixturevalue("ssh_hosts"), values)
    else:
        kubernetes: Kubernetes = request.getfixturevalue("kubernetes")
        values.expect_none("the pod", json.dumps(kubernetes.pods_of(sky.user)))
    # Not the value itself, which would be in the script that looks.
    pattern = f"[0-9a-f]{{12}}{values.secret[-4:]}"
    where = "/var/sky ../../node ../.sky-node"
    look = sky(
        "exec", "c", f"grep -rlE '{pattern}' {where} 2>/dev/null; ls -d {where} 2>/dev/null | grep -c ."
    )
    assert look.out == "1\n", f"left on the node: {look.out}"


def expect_none_on_hosts(place: Place, hosts: Hosts, values: Values) -> None:
    """The lease, and all else that the account and the host's daemons keep there."""
    (leased,) = place.existing()
    name = leased.partition(":")[0]
    for root in ("tmp", "home"):
        values.expect_none_below(hosts.state / "hosts" / name / root)
    values.expect_none("sshd's log", hosts.on(name, "cat /run/sshd.log"))


def test_a_dry_run_shows_the_names_and_no_values(kube_sky: Sky) -> None:
    sky = kube_sky
    values = Values()
    for place in ("local", "k8s"):
        argv = ("launch", "--infra", place, "--dryrun", *OPTIONS, "-o", "json", "--", "true")
        text = sky(*argv[:-4], "--", "true", env=values.given)
        values.expect_none("the dry run", text.raw + text.raw_err)
        done = sky(*argv, env=values.given)
        values.expect_none("the dry run", done.raw + done.raw_err)
        task = done.json()["task"]
        assert list(task["envs"]) == ["X_TOKEN"] and list(task["secrets"]) == ["X_SECRET"]
    values.expect_none_below(sky.state)


def test_a_task_that_fails_to_launch_prints_no_value(sky: Sky) -> None:
    values = Values()
    env = {**values.given, "SKY_DEBUG": "1"}
    done = sky("launch", "--infra", "local", "-y", "--cpus", "900", *OPTIONS, "--", "true", env=env, code=120)
    values.expect_none("the traceback", done.raw_err)
    (sky.project / "t.yaml").write_text(
        f"envs: {{A-B: {values.env}}}\nsecrets: {{C-D: {values.secret}}}\nrun: true\n"
    )
    done = sky("launch", "--infra", "local", "-y", "t.yaml", env=env, code=2)
    values.expect_none("the problems of the file", done.raw_err)
    assert "A-B" in done.err and "C-D" in done.err


def test_a_killed_client_leaves_no_value_behind(sky: Sky) -> None:
    values = Values()
    launch = sky.start(
        "launch", "-c", "c", "--infra", "local", "-y", *OPTIONS, "--", "sleep", "60", env=values.given
    )
    launch.until("job 1")
    launch.signal(9)
    launch.end()
    values.expect_none_below(sky.state)
    sky("cancel", "c", "-a", "-y")
    values.expect_none_below(sky.data)


def test_a_configured_token_is_not_printed(sky: Sky, kubernetes: Kubernetes) -> None:
    values = Values()
    path = sky.root / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        'clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]\n'
        f"users: [{{name: u, user: {{token: {values.secret}}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
    )
    env = {"KUBECONFIG": str(path), "SKY_DEBUG": "1", "SKY_TRACE_HOOKS": "1"}
    done = sky("launch", "--infra", "k8s", "-y", "--", "true", env=env, code=121)
    values.expect_none("what was printed", done.raw_err)
    values.expect_none_below(sky.state)
