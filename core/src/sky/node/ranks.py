"""The logs of all ranks of one job, followed at once, while rank 0's says how the job is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from sky.errors import Cancelled, ConnectionLost, SkyError
from sky.node.engine import Engine
from sky.node.merged import Merged
from sky.node.stream import Stream
from sky.types import JobState

if TYPE_CHECKING:
    from sky.session import Session

LAST_WORDS_SECONDS = 5.0
"""How long the end of the other ranks' logs is waited for when the job is over."""

Follow = Callable[[int, BinaryIO], Stream]


class Ranks:
    """`follow` begins with the others; `until_over` is rank 0's own stream, of which `heard` tells.

    With `all_or_none`, a rank that can't be given the job before it runs ends it for all.
    """

    def __init__(
        self,
        session: Session,
        engines: list[Engine],
        names: list[str],
        out: BinaryIO,
        all_or_none: bool = False,
    ) -> None:
        self._session, self._engines, self._names = session, engines, names
        self._all_or_none = all_or_none
        self._merged = Merged(out)
        self._threads: dict[int, threading.Thread] = {}
        self._streams: dict[int, Stream] = {}
        self._over = threading.Event()
        self._failed: Exception | None = None
        self._first = Stream()

    def heard(self, first: Stream) -> None:
        """That rank 0 has spoken, and in which stream."""
        self._first = first

    def follow(self, number: int, call: Follow) -> None:
        """Follow the others of so many, each in a thread of its own. Once only, however often it is said."""
        if self._threads:
            return
        self._merged.several()
        for rank in range(1, min(number, len(self._engines))):
            self._engines[rank].pointless = self._no_more
            self._threads[rank] = threading.Thread(
                target=self._one, args=(rank, call), name=f"sky-rank-{rank}", daemon=True
            )
        for thread in self._threads.values():
            thread.start()

    def until_over(self, call: Callable[[BinaryIO], Stream]) -> Stream:
        """Rank 0's own stream, to its end; then what is left of the others'. Raises what the ranks raised."""
        self._engines[0].pointless = self._lost_by_all
        try:
            stream = call(self._merged.rank(0))
        except Cancelled:
            if self._failed is not None:
                raise self._failed from None
            raise
        finally:
            self._over.set()
        limit = time.monotonic() + LAST_WORDS_SECONDS
        for rank, thread in self._threads.items():
            thread.join(max(0.0, limit - time.monotonic()))
            if thread.is_alive() and self._failed is None:
                self._session.warn(f"{self._names[rank]}: the end of its log didn't come")
        self._merged.flush()
        if self._failed is not None:
            raise self._failed
        return stream

    def _one(self, rank: int, call: Follow) -> None:
        try:
            self._streams[rank] = call(rank, self._merged.rank(rank))
        except SkyError as error:
            if self._over.is_set() or self._session.cancel.cancelled:
                return
            if self._all_or_none and self._first.state is JobState.PENDING:
                self._end_all(rank, error)
            else:
                self._session.warn(f"{self._names[rank]}: {error.message}")
        except Exception as error:  # noqa: BLE001 - the reader of our output left: raised by `until_over`
            self._failed = self._failed or error
            self._session.cancel.cancel()

    def _end_all(self, rank: int, error: SkyError) -> None:
        """None runs it when one can't: all of them wait for this one."""
        self._failed = self._failed or not_given(self._names[rank], error)
        while not self._first.job_id:
            if self._over.wait(0.02):
                return  # rank 0 has nothing to cancel: what went wrong there is told
        try:
            self._engines[0].cancel(self._first.job_id)
        except SkyError as second:
            self._session.warn(
                f"{self._names[0]}: {second.message}; the job gives up by itself within a minute"
            )

    def _no_more(self) -> SkyError | None:
        return ConnectionLost("the job is over") if self._over.is_set() else None

    def _lost_by_all(self) -> SkyError | None:
        """When rank 0 can't be reached, and the others say that they lost it, too: that is the end of it."""
        for rank, stream in list(self._streams.items()):
            if stream.ended and stream.reason.startswith("rank 0 "):
                return ConnectionLost(
                    f"{self._names[0]} can't be reached; {self._names[rank]} says: {stream.reason}; the job is lost"
                )
        return None


def not_given(name: str, error: BaseException | None) -> SkyError:
    """The error of a rank that could not be given the job, as that of the whole."""
    why = getattr(error, "message", None) or str(error or "no answer")
    text = why if name in why else f"{name}: {why}"
    # its class decides the exit code; one that is made from other things than a message is told as a plain error
    kind = (
        type(error) if isinstance(error, SkyError) and type(error).__init__ is SkyError.__init__ else SkyError
    )
    return kind(f"{text}; no node runs the job", remedy=getattr(error, "remedy", ""))
