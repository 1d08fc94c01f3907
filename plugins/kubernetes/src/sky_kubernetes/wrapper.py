"""What runs around every command in a pod, whose marks `sky.api.MarkReader` reads.

Why a wrapper at all: the API server reports success with half of the output when the container runtime
restarts; it can't close a program's stdin (protocol v4); it leaves programs running when the client goes;
and it names no missing program. So a small POSIX script runs the program and ends *both* output streams
with a mark that carries the exit code. Without both marks nothing is believed.
"""

from __future__ import annotations

import os

# Arguments: half a mark, the other half, mode (`e` stdin framed, `o` stdin as it is), work directory, argv.
# A mark is never whole in argv, so that a program which prints the process list doesn't print a mark.
# In mode `e`, stdin is `LENGTH\n` and that many bytes, over and over, `0\n` at its end. Who unpacks it also
# watches for the client: an end of the channel without being told to stop means that nobody listens any
# more, and TERM goes to the process group, in which a container runtime starts each exec.
# It's told to stop (KILL) before the marks are written: programs left in the background live on.
# `dd` with full blocks is the only reader in every image that takes exactly as many bytes as it's told.
# The shell's own stderr is closed to it: it would report there that a program was killed.
WRAPPER = r"""
a=$1 b=$2 m=$3 w=$4; shift 4
exec 4>&2 2>/dev/null
end() {
  [ -z "$d" ] || kill -s KILL "$d"
  printf '\036%s%s:%s\n' "$a" "$b" "$1"; printf '\036%s%s:%s\n' "$a" "$b" "$1" >&4
  exit "${2:-125}"
}
have() { case $1 in */*) [ -f "$1" ] && [ -x "$1" ];; *) command -v "$1" >/dev/null;; esac; }
take() { [ "$1" = 0 ] || [ "$2" = 0 ] || dd bs="$1" count="$2" iflag=fullblock; }
run() { (exec "$@" 2>&4 4>&-); c=$?; end $c $c; }
d=
[ -d "$HOME" ] && [ -w "$HOME" ] || { HOME=${w:-/tmp/sky-node-$(id -u)}/home; export HOME; mkdir -p "$HOME"; }
cd "$HOME" || end home
have "$1" || end missing
if [ "$m" = o ]; then printf '\036%s%s@%s\n' "$a" "$b" $$ >&4; run "$@"; fi
have dd || end dd
{
  read -r p c s q g r </proc/self/stat; echo "$p"
  while read -r n; do
    if [ "$n" = 0 ]; then exec >&-; continue; fi
    take 65536 $((n / 65536)) && take $((n % 65536)) 1 || dd bs=65536 of=/dev/null
  done
  [ "$g" != $$ ] || kill -s TERM 0
} 4>&- | { read -r d; run "$@"; }
""".strip()

KILL_GROUP = 'kill -s TERM -- "-$1" || kill -s TERM "-$1"'
"""Run as `sh -c KILL_GROUP sky PID`."""

CHUNK = 1024 * 1024
"""Most that one `LENGTH` announces: at most two `dd` each."""


class Nonce:
    """The two halves of one command's mark."""

    def __init__(self) -> None:
        self.halves = os.urandom(8).hex(), os.urandom(8).hex()
        self.mark = b"\x1e" + "".join(self.halves).encode()


def frame(data: bytes) -> bytes:
    """A piece of stdin as mode `e` expects it; of nothing: its end."""
    return b"%d\n" % len(data) + data
