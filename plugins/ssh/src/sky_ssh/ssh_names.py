"""The names that the user's ssh config has: what `--infra ssh/NAME` may say besides pools."""

from __future__ import annotations

import fnmatch
import glob
import shlex
from collections.abc import Iterator
from pathlib import Path

from sky.api import Context

_INCLUDE_DEPTH = 16


def config_file(ctx: Context) -> Path:
    """The user's ssh config, that of $HOME; it need not exist."""
    return Path(str(ctx.config.get("config_file") or "~/.ssh/config")).expanduser()


def patterns(ctx: Context) -> list[str]:
    """What the `Host` lines say, files that are included too, in their order. Reads files."""
    return list(dict.fromkeys(_patterns(config_file(ctx), 0)))


def plain(found: list[str]) -> list[str]:
    """Those that are names, not patterns."""
    return [p for p in found if not set(p) & set("*?!")]


def known(name: str, found: list[str]) -> bool:
    """Whether a `Host` line means this very name, or a group of names that it is in; `*` means none."""
    return any(
        fnmatch.fnmatchcase(name, p.replace("[", "[[]"))
        for p in found
        if p.strip("*?") and not p.startswith("!")
    )


def _patterns(path: Path, depth: int) -> Iterator[str]:
    if path.parent == Path("~/.ssh/sky").expanduser():
        return  # ours: names of clusters
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return  # as ssh does: an unreadable include names nobody
    for line in lines:
        keyword, words = _words(line)
        if keyword == "host":
            yield from words
        elif keyword == "include" and depth < _INCLUDE_DEPTH:
            for word in words:
                # Relative ones are below ~/.ssh, wherever the including file is.
                place = Path(word).expanduser()
                full = place if place.is_absolute() else Path("~/.ssh").expanduser() / place
                for found in sorted(glob.glob(str(full))):  # noqa: PTH207 - the pattern may be absolute
                    yield from _patterns(Path(found), depth + 1)


def _words(line: str) -> tuple[str, list[str]]:
    text = line.strip()
    if not text or text.startswith("#"):
        return "", []
    keyword = text.replace("=", " ", 1).split(None, 1)
    try:
        words = shlex.split(keyword[1]) if len(keyword) > 1 else []
    except ValueError:
        words = keyword[1].split()
    return keyword[0].lower(), words
