"""Files of variables, as `--env-file` takes them. What is understood, all of it:

- UTF-8, with or without a mark at its start; lines end in LF or CRLF.
- Empty lines, and lines that begin with `#`, say nothing.
- `NAME=VALUE`, after an optional `export `; spaces around the name and the value don't count.
- An unquoted value ends at the end of the line, or before a `#` that follows a space; it is literal.
- A value in single quotes is literal and may span lines.
- A value in double quotes may span lines; in it `\\n`, `\\r` and `\\t` are those characters, a backslash
  before `"`, `$`, `` ` `` or another backslash is dropped, and any other backslash stays.
- After a closing quote only a comment may follow. Nothing is expanded: `$HOME` stays that text.
- The last of equal names wins.
"""

from __future__ import annotations

import re
from pathlib import Path

from sky.errors import UsageError
from sky.task.environment import check_name
from sky.task.scalars import check_text

_SKIP = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([^\s=#'\"]+)[ \t]*=[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_UNQUOTED = re.compile(r"(?:(?![ \t]#)[^\n])*")
_END = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_ESCAPE = re.compile(r"\\([nrt\"$`\\])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
MAX_BYTES = 4 * 2**20


def read_dotenv(path: str) -> dict[str, str]:
    """The variables of a file. Blocks on the file. Raises `UsageError`, without any value in it."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}:{data.count(10, 0, error.start) + 1}: not UTF-8 text") from None
    return parse_dotenv(text, path)


def parse_dotenv(text: str, filename: str) -> dict[str, str]:
    """The variables in `text`. Raises `UsageError` with the first line that can't be read."""
    text = text.replace("\r\n", "\n")
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        if skipped := _SKIP.match(text, position):
            position = skipped.end()
            continue
        start = position
        try:
            name, value, position = _assignment(text, position)
            values[check_name(name)] = check_text(value)
        except UsageError as error:
            line = text.count("\n", 0, start) + 1
            raise UsageError(f"{filename}:{line}: {error.message}", remedy=error.remedy) from None
    return values


def _assignment(text: str, position: int) -> tuple[str, str, int]:
    name = _NAME.match(text, position)
    if name is None:
        raise UsageError("not an assignment", remedy="write NAME=VALUE")
    position = name.end()
    quote = text[position : position + 1]
    if quote in ("'", '"') and quote:
        quoted = (_SINGLE if quote == "'" else _DOUBLE).match(text, position)
        if quoted is None:
            raise UsageError(f"the value of {name[1]} has no closing quote")
        end = _END.match(text, quoted.end())
        if end is None:
            raise UsageError(f"text follows the closing quote of {name[1]}")
        value = quoted[1]
        if quote == '"':
            value = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value)
        return name[1], value, end.end()
    unquoted = _UNQUOTED.match(text, position)
    assert unquoted is not None  # It matches the empty text.
    end = _END.match(text, unquoted.end())
    assert end is not None  # What is left of the line is a comment.
    value = unquoted[0].strip()
    return name[1], "" if value.startswith("#") else value, end.end()
