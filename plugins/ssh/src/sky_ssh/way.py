"""Where ssh would connect to, as whom and by what, as its own `ssh -G` says: for who connects without it."""

from __future__ import annotations

import shlex
import socket
import subprocess
import threading
from pathlib import Path

from sky.api import Context, CredentialsError
from sky_ssh import connection, options
from sky_ssh.address import Target


class Way:
    """Where ssh would connect to, as whom, and by what: its own word."""

    def __init__(self, ctx: Context, target: Target) -> None:
        hop = target.hop()
        if hop is not None:
            connection.Master(ctx, hop).ensure()
        identity = connection.Master(ctx, target).identity
        said = self._resolved([options.PROGRAM, "-G", *identity, "--", target.host])
        self.hostname = said["hostname"][0]
        self.user = said["user"][0]
        self.port = int(said["port"][0])
        keys = [Path(name).expanduser() for name in said.get("identityfile", [])]
        self.keys = [str(key) for key in keys if key.is_file()]
        files = shlex.split(
            " ".join(said.get("userknownhostsfile", []) + said.get("globalknownhostsfile", []))
        )
        # ssh prints names with spaces in them as if they were several.
        self.known = [
            Path(name).expanduser() for name in ([target.known_hosts] if target.known_hosts else files)
        ]
        self.known_as = (said.get("hostkeyalias") or [""])[0] or (
            self.hostname if self.port == 22 else f"[{self.hostname}]:{self.port}"
        )
        self.proxy = self._proxy(said, options.config_arguments(ctx.config, target))

    @property
    def known_hosts(self) -> str:
        """The first file of known hosts: where ssh would add one."""
        return str(self.known[0]) if self.known else "~/.ssh/known_hosts"

    def _resolved(self, argv: list[str]) -> dict[str, list[str]]:
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise connection.no_program() from error
        if done.returncode != 0:
            words = (done.stderr.strip() or "it says nothing").splitlines()[0]
            raise CredentialsError(f"ssh can't read its config: {words}", remedy="mend that line")
        said: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            key, _, value = line.partition(" ")
            said.setdefault(key, []).append(value)
        return said

    def _proxy(self, said: dict[str, list[str]], config: list[str]) -> Proxy | None:
        command, jump = said.get("proxycommand"), said.get("proxyjump")
        if command and command[0] != "none":
            line = command[0]
        elif jump and jump[0] != "none":
            before, _, last = jump[0].rpartition(",")
            words = [options.PROGRAM, *config, *options.BATCH, *(("-J", before) if before else ())]
            line = shlex.join([*words, "-W", f"[{self.hostname}]:{self.port}", last]).replace("%", "%%")
        else:
            return None
        tokens = {"%%": "%", "%h": self.hostname, "%p": str(self.port), "%r": self.user}
        return Proxy("".join(tokens.get(part, part) for part in _tokens(line)))


class Proxy:
    """A program that leads to the host, on a socket: unlike paramiko's own, its end is seen at once."""

    def __init__(self, line: str) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            end = theirs.fileno()
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {line}"], stdin=end, stdout=end, stderr=subprocess.PIPE
            )
        self._said = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            self._said = stderr.read(1 << 16)

    def last_words(self) -> str:
        """What it said before it gave up. Ends it."""
        self.close()
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        # ssh's own last line tells that the connection is closed; the one before it, why.
        told = [line for line in lines if "UNKNOWN port 65535" not in line]
        return told[-1] if told else ""

    def close(self) -> None:
        """End it. Idempotent."""
        self.socket.close()
        self._process.terminate()
        self._process.wait()
        self._reader.join(1)  # what it started may still hold its stderr


def _tokens(line: str) -> list[str]:
    parts, at = [], 0
    while at < len(line):
        length = 2 if line[at] == "%" else 1
        parts.append(line[at : at + length])
        at += length
    return parts
