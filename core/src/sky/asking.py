"""The same question to several places of one cloud at once (hosts, contexts, regions), each in its own time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from sky.errors import SkyError, TimedOut
from sky.types import Context, Event
from sky.wording import counted, some

K = TypeVar("K")
T = TypeVar("T")
AT_ONCE = 32
"""Questions at the same moment: more connections would only wait for each other."""
_MARGIN_SECONDS = 0.1
_SILENT_SECONDS = 2.0
"""For which nobody wonders what is going on."""


def limited(ctx: Context, seconds: float) -> Context:
    """`ctx` with a deadline at most `seconds` from now."""
    latest = time.monotonic() + seconds
    return dataclasses.replace(ctx, deadline=latest if ctx.deadline is None else min(latest, ctx.deadline))


def ask_each(
    ctx: Context,
    places: Sequence[K],
    ask: Callable[[Context, K], T],
    seconds: float,
    name: Callable[[K], str] = lambda place: str(getattr(place, "name", place)),
) -> list[T | SkyError]:
    """What `ask(ctx, place)` returned or failed with, for each place in order. Blocks for about `seconds`.

    Late ones are left behind and answered by `TimedOut`, which calls the place what `name` says; anything but a
    `SkyError` is raised. Whom it waits for after 2 s is a `phase` event, once. Raises `Cancelled`.
    """
    started = time.monotonic()
    inner = limited(ctx, seconds)
    assert inner.deadline is not None
    answers: dict[int, T | BaseException] = {}
    turns = threading.Semaphore(AT_ONCE)

    def run(index: int) -> None:
        with turns:
            try:
                answers[index] = ask(inner, places[index])
            except BaseException as error:  # noqa: BLE001 -- handed to the caller, below
                answers[index] = error

    threads = [
        threading.Thread(target=run, args=(i,), name="sky-ask", daemon=True) for i in range(len(places))
    ]
    for thread in threads:
        thread.start()
    silent = True
    for thread in threads:
        while thread.is_alive() and (left := inner.deadline + _MARGIN_SECONDS - time.monotonic()) > 0:
            thread.join(min(left, 0.5))
            ctx.cancel.check()
            if silent and thread.is_alive() and time.monotonic() - started >= _SILENT_SECONDS:
                silent = False
                open_ = [name(place) for i, place in enumerate(places) if i not in answers]
                ctx.emit(_waiting(open_, inner.deadline - time.monotonic()))
    ctx.cancel.check()
    late = [TimedOut(f"{name(place)}: no answer within {seconds:.2g} s") for place in places]
    return [_result(answers.get(i, late[i])) for i in range(len(places))]


def _waiting(names: Sequence[str], seconds: float) -> Event:
    longest = counted(max(1, round(seconds)), "second")
    return Event(kind="phase", message=f"waiting for {some(names)}, {longest} more at most")


def _result(answer: T | BaseException) -> T | SkyError:
    if isinstance(answer, BaseException) and not isinstance(answer, SkyError):
        raise answer
    return answer
