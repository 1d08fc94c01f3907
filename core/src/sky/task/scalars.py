"""Fields that are one piece of text: the same parsers read the file and the command line.

Every parser takes the text as typed and returns the value, or raises `UsageError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sky.errors import UsageError
from sky.task import quantities
from sky.task.model import Autostop
from sky.task.problems import shown

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MINUTES = {"": 1, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
DEFAULT_IDLE_MINUTES = 5
"""What `autostop: true` means, as in SkyPilot."""
DISK_TIERS = ("low", "medium", "high", "ultra", "best", "none")
WAIT_FOR = ("jobs_and_ssh", "jobs", "none")


def parse_text(text: str) -> str:
    """Any text, as typed."""
    return text


def check_text(text: str) -> str:
    """Any text that a file and a process can hold; the message never quotes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("has bytes that aren't UTF-8 text") from None
    if "\0" in text:
        raise UsageError("has a NUL character, which no program can be given")
    return text


def parse_line(text: str) -> str:
    """Text of one line, not empty; spaces around it don't count."""
    if not text.strip() or not text.strip().isprintable():
        raise UsageError(f"{shown(text)} must be one line of printable text")
    return text.strip()


def parse_path(text: str) -> str:
    """A path: any text but the empty one."""
    if not text:
        raise UsageError("the path is empty")
    return text


def parse_image(text: str) -> str:
    """A cloud's image, or `docker:NAME`."""
    image = parse_line(text)
    if image == "docker:":
        raise UsageError("the name of the container image is missing", remedy="write docker:NAME")
    return image


def parse_bool(text: str) -> bool:
    """`true`, `yes`, `on`, and their opposites."""
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise UsageError(f"{shown(text)} is neither true nor false") from None


def parse_count(text: str) -> int:
    """A whole number, 1 or more."""
    if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) is None or int(text) < 1:
        raise UsageError(f"{shown(text)} is not a whole number of 1 or more")
    return int(text)


def parse_port(text: str) -> str:
    """`8080` or `8000-8010`."""
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text.strip(), re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise UsageError(f"{shown(text)} is not a port or a range of ports", remedy="write 8080 or 8000-8010")
    return f"{first}-{last}" if match and match[2] else str(first)


def parse_ports(text: str) -> tuple[str, ...]:
    """One port or range (a list of them is read one by one)."""
    return (parse_port(text),)


def parse_infra(text: str) -> dict[str, str | None]:
    """`cloud[/region[/zone]]` as cloud, region and zone; `*` is any.

    Only the first two slashes separate: the rest stays in the zone. A cloud whose second level may hold
    slashes (a Kubernetes context) has no third one, and joins the two again.
    """
    parts = [part.strip() for part in text.strip().split("/", 2)]
    if not all(parts):
        raise UsageError(f"{shown(text)} has an empty part", remedy="write cloud/region/zone, with * for any")
    cloud, region, zone = (None if part == "*" else part for part in [*parts, "*", "*"][:3])
    return {"cloud": cloud.lower() if cloud else None, "region": region, "zone": zone}


def parse_cloud(text: str) -> str:
    """A cloud's name, in any case."""
    return parse_line(text).lower()


def parse_disk_tier(text: str) -> str:
    """One of the tiers."""
    return parse_choice(text, DISK_TIERS)


def parse_wait_for(text: str) -> str:
    """What an idle cluster waits for."""
    return parse_choice(text, WAIT_FOR)


def parse_choice(text: str, choices: tuple[str, ...]) -> str:
    """One of `choices`, in any case."""
    word = text.strip().lower()
    if word not in choices:
        raise UsageError(f"{shown(text)} is not one of {', '.join(choices)}")
    return word


def parse_minutes(text: str) -> int:
    """`10` (minutes), `10m`, `2h`, `1d`, `1w`."""
    match = re.fullmatch(r"(\d{1,6})\s*([mhdw]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise UsageError(f"{shown(text)} is not a time", remedy="write minutes, or 10m, 2h, 1d")
    return int(match[1]) * _MINUTES[match[2]]


def parse_autostop(text: str) -> Autostop | None:
    """`true`, `false`, or a time of idleness; a negative number is never."""
    word = text.strip().lower()
    if word in _WORDS:
        return Autostop(idle_minutes=DEFAULT_IDLE_MINUTES) if _WORDS[word] else None
    if re.fullmatch(r"-\d{1,6}", word, re.ASCII):
        return None
    return Autostop(idle_minutes=parse_minutes(text))


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "script": parse_text,
    "line": parse_line,
    "workdir": parse_path,
    "image": parse_image,
    "bool": parse_bool,
    "count": parse_count,
    "number": quantities.parse_number,
    "cpus": quantities.parse_cpus,
    "memory": quantities.parse_memory,
    "disk_size": quantities.parse_disk_size,
    "disk_tier": parse_disk_tier,
    "accelerators": quantities.parse_accelerators,
    "infra": parse_infra,
    "cloud": parse_cloud,
    "ports": parse_ports,
    "minutes": parse_minutes,
    "wait_for": parse_wait_for,
    "autostop": parse_autostop,
}
"""By the kind of a field in `sky.task.fields`."""
