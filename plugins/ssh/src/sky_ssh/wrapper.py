"""What runs around every command on a host; `sky.api.MarkReader` reads the marks that it leaves.

Why a wrapper at all: `ssh` says 255 both for its own failures and for a program's, and for one that a signal
ended; it says 127 both for a missing program and for a program's own 127; a client that loses its master
may report success with output cut; what the login shell's rc files print comes first in the same streams; and
sshd starts in whatever $HOME the account has. So a small POSIX script marks the beginning and the end of
*both* output streams, the end with the exit code. Without all marks nothing is believed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sky.api import UsageError

# A name in /tmp that can be guessed may have been taken by another account, which then decides what is run there.
GO_HOME = r"""
{ [ -d "$HOME" ] && [ -w "$HOME" ] || {
  HOME=${w:-/tmp/sky-node-$(id -u)}/home; export HOME
  (umask 077; mkdir -p "$HOME"); [ -O "$HOME" ] && { [ -n "$w" ] || [ -O "${HOME%/home}" ]; }
}; } && cd "$HOME"
""".strip()
"""What a shell does first: it fails where the account has no directory of its own to be in. Reads $w."""

# Variables: a and b, the halves of the mark (never whole in argv, so that a program which prints the process
# list doesn't print a mark); w, the work directory. The positional parameters are the program's argv.
# The traps are for a program that signals its whole group: it doesn't inherit them, and its end is still told.
# The shell's own stderr is closed to it: it would report there that a program was killed.
_SCRIPT = r"""
exec 4>&2 2>/dev/null
say() { printf '\036%s%s%s\n' $a $b "$1"; printf '\036%s%s%s\n' $a $b "$1" >&4; }
trap : HUP INT TERM
say @$$
GO_HOME || { say :home; exit 125; }
case $1 in */*) [ -f "$1" ] && [ -x "$1" ];; *) command -v "$1" >/dev/null;; esac || { say :missing; exit 127; }
[ ! -x "$w/askpass" ] || { SUDO_ASKPASS=$w/askpass; export SUDO_ASKPASS; }
(exec "$@" 2>&4 4>&-)
c=$?
say :$c
exit $c
""".replace("GO_HOME", GO_HOME)

# bash, dash, tcsh and fish read these alike: no newline, no `!`, no quote or backslash but before a digit.
_FROM_ARGUMENT = """exec sh -c 'eval "$(printf %%b "$0")"' '%s'"""
_FROM_STDIN = """exec sh -c 'read -r l; eval "$(printf %b "$l")"'"""
_MOST_IN_ARGUMENT = 100_000
"""Linux takes 131,072 bytes in one argument, here and for the login shell; `read` costs a system call a byte."""

KILL_GROUP = 'kill -s TERM -- "-$1" || kill -s TERM "-$1"'
"""Run as `sh -c KILL_GROUP sky PID`."""


class Wrapped:
    """One command as the login shell gets it."""

    def __init__(self, argv: Sequence[str], work_dir: str) -> None:
        halves = os.urandom(8).hex(), os.urandom(8).hex()
        self.mark = b"\x1e" + "".join(halves).encode()
        encoded = _encoded(f"a={halves[0]} b={halves[1]}\n{_SCRIPT}", argv, work_dir)
        self.header = b""
        """What stdin must begin with."""
        if len(encoded) <= _MOST_IN_ARGUMENT:
            self.line = _FROM_ARGUMENT % encoded
        else:
            self.line = _FROM_STDIN
            self.header = encoded.encode() + b"\n"


def line_of(script: str, argv: Sequence[str], work_dir: str) -> str:
    """Another script for the login shell; `argv` are its parameters, `$w` is the work directory.

    Raises `UsageError` if that is too long for one argument.
    """
    encoded = _encoded(script, argv, work_dir)
    if len(encoded) > _MOST_IN_ARGUMENT:
        raise UsageError("the command is too long for a terminal's", remedy="send it as a file")
    return _FROM_ARGUMENT % encoded


def _encoded(script: str, argv: Sequence[str], work_dir: str) -> str:
    words = b" ".join(quoted(argument) for argument in argv)
    return encode(b"w=%s; set -- %s\n" % (quoted(work_dir), words) + script.encode())


def quoted(argument: str) -> bytes:
    """As one word for a POSIX shell. Bytes that aren't UTF-8 come as `os.fsdecode` gives them."""
    return b"'" + os.fsencode(argument).replace(b"'", b"'\\''") + b"'"


def encode(script: bytes) -> str:
    """As `printf %b` takes it, in characters that are the same in single quotes of any shell."""
    return "".join(_ENCODED[byte] for byte in script)


_ENCODED = [
    chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in "'\\!" else f"\\0{byte:03o}" for byte in range(256)
]
