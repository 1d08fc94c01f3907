"""The caller's streams inside a call of `sky_run`: what they raise is the caller's, and no defect of the plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Raised:
    """Remembers what the streams of one call raised."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def watch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the call with its streams watched."""
        return {
            name: Watched(value, self._errors)
            if name in ("stdin", "stdout", "stderr") and value is not None
            else value
            for name, value in arguments.items()
        }

    def __contains__(self, error: BaseException) -> bool:
        return any(error is own for own in self._errors)


class Watched:
    """A binary stream as it was, but for its memory."""

    def __init__(self, stream: Any, errors: list[BaseException]) -> None:
        self._stream, self._errors = stream, errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1) -> bytes:
        return self._call(self._stream.read, size)  # type: ignore[no-any-return]

    def read1(self, size: int = -1) -> bytes:
        return self._call(getattr(self._stream, "read1", self._stream.read), size)  # type: ignore[no-any-return]

    def write(self, data: Any) -> int:
        return self._call(self._stream.write, data)  # type: ignore[no-any-return]

    def flush(self) -> None:
        self._call(self._stream.flush)

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            self._errors.append(error)
            raise
