"""Exit codes of our own remote scripts: none of them is one of rsync's or tar's."""

from __future__ import annotations

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
