"""What people and programs read. Data goes to stdout, everything else to stderr; nothing else may write there."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from sky.errors import SkyError
    from sky.types import Event

SCHEMA = 1
"""Version of every JSON document: a new field keeps it, a changed or removed one raises it."""

_stdout = sys.stdout
_given: tuple[TextIO, ...] = ()
"""The interpreter's own outputs: held, as their end would close the descriptors."""
_as_json = False
_documented = False
_partial_line = False


def claim_stdout(as_json: bool) -> None:
    """From now on stdout is ours: what a plugin or a library prints goes to stderr."""
    global _stdout, _as_json
    _as_json = as_json
    if sys.stdout is not sys.stderr:
        _stdout = sys.stdout
        sys.stdout = sys.stderr


class _Output(io.FileIO):
    """An output that blames the disk behind it when that is full. A reader that has left stays what it is."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            from sky.errors import SkyError

            raise SkyError(
                f"can't write the output: {error.strerror}",
                remedy="make room where it goes, or send it elsewhere; what was asked for may be done",
            ) from error


class _Notes(_Output):
    """stderr: with its disk full there is no way to say so, and what was asked for is done all the same."""

    def write(self, data: Buffer, /) -> int:
        from sky.errors import SkyError

        try:
            return super().write(data)
        except SkyError:
            return memoryview(data).nbytes


def own_outputs() -> None:
    """Of the installed command: from now on every failure to write, whoever writes, is said in one way."""
    global _stdout, _given
    _given = sys.stdout, sys.stderr
    sys.stdout = _stdout = _text(sys.stdout, _Output, by_line=sys.stdout.isatty())
    sys.stderr = _text(sys.stderr, _Notes, by_line=True)


def _text(like: TextIO, kind: type[_Output], by_line: bool) -> TextIO:
    raw = kind(like.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), like.encoding, like.errors, line_buffering=by_line)


def data_stream() -> BinaryIO:
    """Where a job's bytes go, each chunk at once: stdout; with -o json stderr, as stdout is for the document."""
    flush()
    raw = _Output((sys.stderr if _as_json else _stdout).fileno(), "wb", closefd=False)
    return _AtOnce(io.BufferedWriter(raw))  # type: ignore[return-value]


class _AtOnce:
    """A stream without a buffer of its own: a job's line is seen when it's printed, also through a pipe."""

    def __init__(self, stream: io.BufferedWriter) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        written = self._stream.write(data)
        self._stream.flush()
        return written

    def flush(self) -> None:
        self._stream.flush()


def flush() -> None:
    """Hand on what was written to either output. Raises `SkyError` or `BrokenPipeError` when nobody can take it."""
    _stdout.flush()
    sys.stderr.flush()


def line(text: str = "") -> None:
    """A line of data on stdout."""
    _stdout.write(text + "\n")


def document(kind: str, **fields: Any) -> None:
    """A JSON document on stdout, in one line."""
    import json

    global _documented
    _documented = True
    _stdout.write(json.dumps({"schema": SCHEMA, "kind": kind, **fields}, ensure_ascii=False) + "\n")
    _stdout.flush()


def failure(error: SkyError) -> None:
    """What is wrong and what to do; with -o json also as a document, unless the command has printed its own."""
    from sky.errors import SkyError

    _end_partial()
    message = error.message.replace("\n", "\n  ")
    sys.stderr.write(f"{red('sky:')} {message}\n" + (f"  {error.remedy}\n" if error.remedy else ""))
    if _as_json and not _documented:
        fields = {
            "kind": error.kind,
            "message": error.message,
            "remedy": error.remedy,
            "code": error.exit_code,
        }
        # It's said on stderr, and by the exit code: that stdout can't take it as well changes neither.
        with contextlib.suppress(SkyError, BrokenPipeError):
            document("error", error=fields)


def note(text: str) -> None:
    """A line for people, on stderr."""
    _end_partial()
    sys.stderr.write(text + "\n")


def show(event: Event) -> None:
    """Progress and warnings of a session. Never raises: a closed stderr stops nothing."""
    global _partial_line
    try:
        if event.kind == "phase":
            note(dim(f"· {event.message}"))
        elif event.kind == "warning":
            note(f"{yellow('warning:')} {event.message}")
        elif event.kind == "progress" and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{dim('· ' + event.message)}")
            sys.stderr.flush()
            _partial_line = True
    except (OSError, ValueError):
        return


def _end_partial() -> None:
    global _partial_line
    if _partial_line:
        _partial_line = False
        sys.stderr.write("\r\x1b[K")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the last is not padded."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def render(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    return "\n".join([bold(render(head)), *(render(row) for row in rows)])


def _paint(code: str, text: str) -> str:
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain or not _stdout.isatty() else f"\x1b[{code}m{text}\x1b[0m"


def bold(text: str) -> str:
    return _paint("1", text)


def dim(text: str) -> str:
    return _paint("2", text)


def red(text: str) -> str:
    return _paint("31", text)


def yellow(text: str) -> str:
    return _paint("33", text)


def age(seconds: float) -> str:
    """`42s`, `5m`, `3h 10m`, `2d 4h`."""
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{max(int(seconds), 0)}s"
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes}m"
    return f"{hours // 24}d {hours % 24}h"
