"""Exit codes of our own remote scripts: none of them is one of rsync's or tar's."""

from __future__ import annotations

from collections.abc import Sequence

from sky.errors import ProgramMissing, SkyError, TransferFailed

NO_RSYNC = 90
PROGRAM_MISSING = 91
"""Its name is on stdout."""
WRONG_KIND = 92
"""A directory would replace a file, or a file a directory."""
NO_SOURCE = 93
OTHER_WAY = 94
"""rsync can't do this one as the contract wants it; tar can."""
CUT = 95
"""The stream ended before what it announced."""
FAILED = 96
"""A program failed; it said why on stderr."""
NOT_ALL_LISTED = 97
ENDED = 98
"""By a signal; the staging directory was removed."""


def failure(root: str, staging: str, program: str, code: int, lines: Sequence[str]) -> SkyError:
    """What a code that isn't 0 means to users; `lines` are what the script said on stderr."""
    if code == 127:
        return ProgramMissing(program)
    reason = " ".join(lines[:1]).replace(f"./{staging}/", "").replace("'files/", "'")
    if code == CUT and not reason:
        reason = "the stream was cut"
    return TransferFailed(f"{root}: {reason or f'exit code {code} on the host'}")
