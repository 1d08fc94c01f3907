"""Everything that holds for a runner: its class, its streams, its files, its connections."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import pytest

from sky.api import Allocation, ConnectionLost, Host, Place, Request, Unreachable
from sky.registry.plugins import Plugin, Registry
from sky.testing.lab import MakeContext, eventually, launched
from sky.testing.plugin import PluginConformance
from sky.testing.rsync import RsyncConformance
from sky.testing.run import RunConformance
from sky.testing.streams import Remote


def _files(home: Path) -> dict[str, str]:
    return {str(path): path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file()}


_SHELL_PROBE = Path(__file__).with_name("shell_probe.py")


class RunnerConformance(RunConformance, RsyncConformance, PluginConformance):
    """The author sets `plugin`, and `cloud` and `request`, or overrides `host` and `gone_host`."""

    kind: ClassVar[str] = "runner"
    cloud: ClassVar[str] = ""
    """A cloud whose hosts this runner reaches; `config` is given to it, too."""
    request: ClassVar[Request] = Request()
    """Something small that the cloud offers now."""

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls, ctx_factory: MakeContext) -> Iterator[Host]:
        """A host to run on: by default of the cloud `cloud`."""
        with launched(Registry().cloud(cls.cloud), ctx_factory, cls.request) as (_, hosts):
            yield hosts[0]

    @pytest.fixture(scope="class")
    @classmethod
    def gone_host(cls, loaded: Plugin, ctx_factory: MakeContext) -> Host:
        """A host that is no more: by default one that was given back to the cloud `cloud`."""
        cloud = Registry().cloud(cls.cloud)
        with launched(cloud, ctx_factory, cls.request) as (_, hosts):
            given = Remote(loaded, hosts[0], ctx_factory)

        def refuses() -> bool:
            try:
                given.run("true")
            except (ConnectionLost, Unreachable):
                return True
            return False

        # Giving back is accepted before it is done: a host may serve until its grace is over.
        eventually(refuses, 120)
        return given.host

    @pytest.fixture
    def remote(self, loaded: Plugin, host: Host, ctx_factory: MakeContext) -> Remote:
        return Remote(loaded, host, ctx_factory)

    @pytest.fixture
    def gone_remote(self, loaded: Plugin, gone_host: Host, ctx_factory: MakeContext) -> Remote:
        return Remote(loaded, gone_host, ctx_factory)

    @pytest.fixture
    def scratch(self, remote: Remote) -> Iterator[str]:
        """A directory of the test's own on the host, by its absolute path."""
        path = (
            remote.sh('mkdir "$1" && cd "$1" && pwd -P', f"kit-{uuid.uuid4().hex[:8]}").decode().rstrip("\n")
        )
        yield path
        remote.sh('rm -rf "$1"', path)

    # --- connections ------------------------------------------------------------------------------------

    def test_disconnecting_may_be_repeated_and_stops_nothing(
        self, loaded: Plugin, host: Host, gone_host: Host, ctx_factory: MakeContext, remote: Remote
    ) -> None:
        if not loaded.has("sky_disconnect"):
            pytest.skip("not offered: it keeps no connections")
        for _ in range(2):
            loaded.hook.sky_disconnect(ctx=ctx_factory(), host=host)
            loaded.hook.sky_disconnect(ctx=ctx_factory(), host=gone_host)
            loaded.hook.sky_disconnect(ctx=ctx_factory(), host=None)
        assert remote.sh("echo again") == b"again\n"

    def test_a_forward_listens_until_it_is_closed(
        self, loaded: Plugin, host: Host, ctx_factory: MakeContext
    ) -> None:
        if not loaded.has("sky_forward"):
            pytest.skip("not offered: it forwards no ports")
        forward = loaded.hook.sky_forward(ctx=ctx_factory(None), host=host, remote_port=9, local_port=None)
        try:
            assert forward.remote_port == 9
            socket.create_connection(("127.0.0.1", forward.local_port), 10).close()
        finally:
            forward.close()
        forward.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", forward.local_port), 10)

    def test_names_for_the_users_own_tools_come_and_go(
        self,
        loaded: Plugin,
        host: Host,
        ctx_factory: MakeContext,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`sky_publish_hosts` and `sky_withdraw_hosts`, in a home of the test's own."""
        if not loaded.has("sky_publish_hosts"):
            pytest.skip("not offered: it gives the hosts no names")
        monkeypatch.setenv("HOME", str(tmp_path))
        before = _files(tmp_path)
        allocation = Allocation(id="kit-names", cloud="", cluster_name="kit-names", tags={}, num_nodes=1)
        place = Place(allocation=allocation, hosts=(host,))
        loaded.hook.sky_publish_hosts(ctx=ctx_factory(), place=place)
        published = _files(tmp_path)
        loaded.hook.sky_publish_hosts(ctx=ctx_factory(), place=place)
        assert _files(tmp_path) == published != before
        for _ in range(2):
            loaded.hook.sky_withdraw_hosts(ctx=ctx_factory(), allocation=allocation)
            assert {name for name, text in _files(tmp_path).items() if "kit-names" in text} == set()

    # --- the shell --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("code", [0, 3, 255])
    def test_the_shell_runs_a_command_on_the_terminal_and_exits_with_its_code(
        self, loaded: Plugin, host: Host, code: int
    ) -> None:
        if not loaded.has("sky_shell"):
            pytest.skip("not offered: it gives no shell")
        script = f"test -t 0 && test -t 1 && echo on a terminal; exit {code}"
        seen, ended = self._on_terminal(host, ["sh", "-c", script])
        assert b"on a terminal" in seen
        assert ended == code

    def _on_terminal(self, host: Host, argv: list[str]) -> tuple[bytes, int]:
        """What appeared on a terminal of its own, and the code."""
        asked = json.dumps(
            {"plugin": self.plugin, "host": asdict(host), "argv": argv, "config": dict(self.config)}
        )
        ours, theirs = pty.openpty()
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", str(_SHELL_PROBE), asked],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        seen = b""
        with (
            open(ours, "rb", buffering=0) as terminal,
            contextlib.suppress(OSError),
        ):  # EIO: the other end is closed
            while chunk := terminal.read(4096):
                seen += chunk
        return seen, process.wait(60)

    # --- jobs -------------------------------------------------------------------------------------------

    def test_job_hooks_come_together(self, loaded: Plugin) -> None:
        hooks = {"sky_submit_job", "sky_query_jobs", "sky_cancel_job"}
        assert loaded.hooks & hooks in (set(), hooks)
