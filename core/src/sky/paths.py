"""Where Sky keeps its own files. Every directory is private (0700) and made on first use."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`$SKY_HOME`, else `~/.sky`: a cache and a log of intents; the truth is what carries our tags."""
    override = os.environ.get("SKY_HOME")
    return Path(override) if override else Path.home() / ".sky"


def private(*parts: str) -> Path:
    """A directory below `home()`, made with mode 0700 if missing."""
    path = home().joinpath(*parts)
    if not path.is_dir():
        if parts:
            private(*parts[:-1])  # parents that mkdir makes by itself are anybody's to read
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file of mode 0600 as a whole: a reader sees the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    temporary.replace(path)
