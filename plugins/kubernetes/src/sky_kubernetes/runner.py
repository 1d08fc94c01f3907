"""Commands in pods: `sky_run`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from sky.api import (
    CancelToken,
    Command,
    ConnectionLost,
    Context,
    Host,
    MarkReader,
    ProgramMissing,
    SkyError,
    UsageError,
)
from sky_kubernetes import exec_channel, wrapper
from sky_kubernetes.api_client import Api, connect
from sky_kubernetes.api_errors import error_of
from sky_kubernetes.exec_channel import STATUS, STDERR, STDIN, STDOUT, Channel
from sky_kubernetes.upgrade import Refused

if TYPE_CHECKING:
    from sky_kubernetes.stdin_pump import StdinPump

_KILL_SECONDS = 0.8
"""For telling a program to end when the user has given up: `sky_run` returns within a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """A host's address, taken apart."""

    context: str | None
    namespace: str
    pod: str
    container: str
    uid: str
    work_dir: str

    @classmethod
    def of(cls, host: Host) -> Target:
        """Raises `UsageError` for an address that isn't of this runner."""
        address = host.address
        if not address.get("pod"):
            raise UsageError(f"host {host.name!r} has no pod in its address")
        return cls(
            address.get("context") or None,
            address.get("namespace") or "default",
            address["pod"],
            address.get("container", ""),
            address.get("uid", ""),
            host.work_dir,
        )

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"


def exec_query(target: Target, argv: Sequence[str], *, tty: bool = False) -> list[tuple[str, str]]:
    """The query of an exec. stdin is always asked for: by its end the wrapper notices that we are gone."""
    flags = {"stdin": True, "stdout": True, "stderr": not tty, "tty": tty}
    query = [(name, "true") for name, value in flags.items() if value]
    if target.container:
        query.append(("container", target.container))
    return query + [("command", argument) for argument in argv]


def run(
    ctx: Context, host: Host, command: Command, stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    """`sky_run`: see the hook's specification.

    What can remain on the pod: a program that ignores SIGTERM or has left its process group, and, while
    the network between is cut, everything until the cluster notices the lost connection.
    """
    target = Target.of(host)
    with connect(ctx, target.context) as api:
        return _Run(ctx, api, target, command, stdin).go(stdout, stderr)


class _Run:
    """One command, from the upgrade to its code."""

    def __init__(
        self, ctx: Context, api: Api, target: Target, command: Command, stdin: BinaryIO | None
    ) -> None:
        self._ctx, self._api, self._target, self._command = ctx, api, target, command
        self._stdin = stdin
        self._framed = stdin is None or command.stdin_mode == "eof"
        self._nonce = wrapper.Nonce()
        self._status = b""
        self._phase = f"running {command.argv[0]!r} on pod {target.pod}"

    def go(self, stdout: BinaryIO, stderr: BinaryIO) -> int:
        channel = self._open()
        out = MarkReader(self._nonce.mark, stdout.write, begun=True)
        err = MarkReader(self._nonce.mark, stderr.write, begun=True)
        pump = self._start_stdin(channel)
        ended = False
        try:
            self._pump(channel, pump, out, err)
            ended = True
        finally:
            channel.close()
            if pump is not None:
                pump.stop()
            if not ended and not self._framed and err.process_group is not None:
                self._terminate(err.process_group)
        return self._code(out, err)

    def _open(self) -> Channel:
        mode = "e" if self._framed else "o"
        argv = ("sh", "-c", wrapper.WRAPPER, "sky", *self._nonce.halves, mode, self._target.work_dir)
        query = exec_query(self._target, (*argv, *self._command.argv))
        return open_exec(self._ctx, self._api, self._target, query)

    def _start_stdin(self, channel: Channel) -> StdinPump | None:
        if self._stdin is None:
            channel.send(STDIN, wrapper.frame(b""))
            return None
        from sky_kubernetes.stdin_pump import StdinPump

        return StdinPump(self._stdin, wrapper.CHUNK)

    def _pump(self, channel: Channel, pump: StdinPump | None, out: MarkReader, err: MarkReader) -> None:
        """Move bytes until both marks are there or the channel ends."""
        readers = {STDOUT: out, STDERR: err}
        while not channel.closed and (out.result is None or err.result is None):
            waiting = [pump] if pump is not None and channel.hungry else []
            for number, data in channel.exchange(waiting, self._phase):
                if number in readers:
                    readers[number].feed(data)
                elif number == STATUS:
                    self._status += data
            while pump is not None and channel.hungry:
                chunk = pump.take()
                if chunk is None:
                    break
                self._send(channel, chunk)
                if not chunk:
                    pump.stop()
                    pump = None
        out.finish()
        err.finish()

    def _send(self, channel: Channel, chunk: bytes) -> None:
        if self._framed:
            channel.send(STDIN, wrapper.frame(chunk))
        elif chunk:
            channel.send(STDIN, chunk)
        elif channel.protocol.startswith("v5"):
            channel.send(exec_channel.CLOSE, bytes((STDIN,)))

    def _code(self, out: MarkReader, err: MarkReader) -> int:
        result = out.result
        if result is not None and result == err.result:
            if result.isdigit() and int(result) <= 255:
                return int(result)
            if result == "missing":
                raise ProgramMissing(self._command.argv[0], remedy="install it in the image")
            if result == "dd":
                raise ProgramMissing("dd", remedy="the image needs it: it comes with coreutils and busybox")
            if result == "home":
                other = self._target.work_dir or "/tmp"
                raise SkyError(
                    f"pod {self._target.pod}: neither $HOME nor {other} is writable",
                    remedy="let the pod have a writable directory, such as an emptyDir",
                )
        said = status_message(self._status)
        if _names_missing_shell(said):
            raise ProgramMissing("sh", remedy="the image has no shell; choose one that has")
        from sky_kubernetes.pod_fate import fate

        lost = f"the connection to pod {self._target.pod} ended before its program said how it ended"
        raise fate(self._ctx, self._api, self._target, ConnectionLost(lost, retryable=True), said)

    def _terminate(self, group: int) -> None:
        """Best effort, for a program that holds stdin itself and so can't notice our end of it."""
        ctx = dataclasses.replace(self._ctx, deadline=time.monotonic() + _KILL_SECONDS, cancel=CancelToken())
        argv = ("sh", "-c", wrapper.KILL_GROUP, "sky", str(group))
        with contextlib.suppress(SkyError), Api(ctx, self._api.ref) as api:
            channel = open_exec(ctx, api, self._target, exec_query(self._target, argv))
            try:
                while not channel.closed and not any(n == STATUS for n, _ in channel.exchange()):
                    pass
            finally:
                channel.close()


def open_exec(ctx: Context, api: Api, target: Target, query: Sequence[tuple[str, str]]) -> Channel:
    """Open an exec channel; what the server refuses becomes what it means for the host."""
    try:
        return exec_channel.open_channel(ctx, api, f"{target.path}/exec", query)
    except Refused as refused:
        if refused.status == 403:
            raise error_of(api.ref, 403, refused.message) from None
        if refused.status in (414, 431):
            raise UsageError("the command is too long for that cluster", remedy="send it by stdin") from None
        from sky.api import Unreachable
        from sky_kubernetes.pod_fate import fate

        refusal = Unreachable(f"pod {target.pod} can't be reached: {refused.message}", retryable=True)
        raise fate(ctx, api, target, refusal, "") from None


def status_message(content: bytes) -> str:
    """What the status channel says went wrong; empty for success, and for what can't be read."""
    try:
        status = json.loads(content)
        return "" if status.get("status") == "Success" else str(status.get("message") or "")
    except (ValueError, AttributeError):
        return ""


def status_code(content: bytes) -> int | None:
    """The exit code that the status channel tells; None if it tells none. Always the same for the same."""
    try:
        status: Mapping[str, object] = json.loads(content)
        if status.get("status") == "Success":
            return 0
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        for cause in causes or ():
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
    return None


def _names_missing_shell(message: str) -> bool:
    return '"sh"' in message and ("executable file not found" in message or "no such file" in message)
