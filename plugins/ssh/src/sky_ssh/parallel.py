"""The same question to many hosts at once, each guarded and each in its own time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sky.api import Context, SkyError, TimedOut


class Named(Protocol):
    """A host of some kind."""

    @property
    def name(self) -> str:
        """For people."""


K = TypeVar("K", bound=Named)
T = TypeVar("T")
AT_ONCE = 32
"""Connections that are being made at the same moment; more would only wait for each other here."""
_MARGIN_SECONDS = 0.1


def limited(ctx: Context, seconds: float) -> Context:
    """`ctx` with a deadline at most `seconds` from now."""
    latest = time.monotonic() + seconds
    return dataclasses.replace(ctx, deadline=latest if ctx.deadline is None else min(latest, ctx.deadline))


def each(
    ctx: Context, items: Sequence[K], ask: Callable[[Context, K], T], seconds: float
) -> list[T | SkyError]:
    """What `ask(ctx, item)` returned or failed with, for each item in order. Blocks.

    Late ones are left behind and answered by `TimedOut`; anything but a `SkyError` is raised.
    Raises `Cancelled`.
    """
    inner = limited(ctx, seconds)
    assert inner.deadline is not None
    answers: dict[int, T | BaseException] = {}
    turns = threading.Semaphore(AT_ONCE)

    def run(index: int) -> None:
        with turns:
            try:
                answers[index] = ask(inner, items[index])
            except BaseException as error:  # noqa: BLE001 -- handed to the caller, below
                answers[index] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and (left := inner.deadline + _MARGIN_SECONDS - time.monotonic()) > 0:
            thread.join(min(left, 0.5))
            ctx.cancel.check()
    ctx.cancel.check()
    late = [TimedOut(f"{item.name}: no answer within {seconds:.2g} s") for item in items]
    return [_result(answers.get(i, late[i])) for i in range(len(items))]


def _result(answer: T | BaseException) -> T | SkyError:
    if isinstance(answer, BaseException) and not isinstance(answer, SkyError):
        raise answer
    return answer
