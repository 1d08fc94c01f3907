"""Reads a stream in a thread of its own, for a `select` loop: bounded, and its error kept."""

from __future__ import annotations

import collections
import io
import os
import select
import threading
from typing import BinaryIO

_AHEAD = 4


class StdinPump:
    """Chunks of `source` as they come. `fileno` is readable while `take` has something to give.

    The thread never outlives the pump by a read from a terminal or pipe: it would eat what the next
    reader is to get. (A source without a descriptor can't be waited for, so there one read may be left.)
    """

    def __init__(self, source: BinaryIO, chunk_bytes: int) -> None:
        self._source = source
        self._chunk_bytes = chunk_bytes
        self._chunks: collections.deque[bytes] = collections.deque()
        self._error: BaseException | None = None
        self._room = threading.Condition()
        self._stopped = False
        self._signal_read, self._signal_write = os.pipe()
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="stdin", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._signal_read

    def take(self) -> bytes | None:
        """The next chunk, `b""` once at the end, None if there is none yet. Raises what `read` raised."""
        with self._room:
            if not self._chunks:
                if self._error is not None:
                    raise self._error
                return None
            chunk = self._chunks.popleft()
            os.read(self._signal_read, 1)
            self._room.notify()
            return chunk

    def stop(self) -> None:
        """End the thread as soon as it can. May be repeated."""
        with self._room:
            if self._stopped:
                return
            self._stopped = True
            self._room.notify()
            os.close(self._stop_write)
        self._thread.join(0.05)
        with self._room:
            os.close(self._signal_read)
            os.close(self._signal_write)

    def _run(self) -> None:
        try:
            while self._readable():
                chunk = self._read()
                if not self._put(chunk) or not chunk:
                    return
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asked for the data
            with self._room:
                self._error = error
                if not self._stopped:
                    os.write(self._signal_write, b"x")
        finally:
            os.close(self._stop_read)

    def _readable(self) -> bool:
        """Wait for data; false when stopped first."""
        try:
            descriptor = self._source.fileno()
        except (OSError, AttributeError, io.UnsupportedOperation):
            return not self._stopped
        # `poll` and not `select`: it takes a file that is always ready, and any number.
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN | select.POLLHUP)
        return all(ready != self._stop_read for ready, _ in poll.poll())

    def _read(self) -> bytes:
        # `read` of a buffered stream waits for all that was asked for.
        read1 = getattr(self._source, "read1", None)
        data = read1(self._chunk_bytes) if read1 is not None else self._source.read(self._chunk_bytes)
        return bytes(data or b"")

    def _put(self, chunk: bytes) -> bool:
        with self._room:
            self._room.wait_for(lambda: self._stopped or len(self._chunks) < _AHEAD)
            if self._stopped:
                return False
            self._chunks.append(chunk)
            os.write(self._signal_write, b"x")
            return True
