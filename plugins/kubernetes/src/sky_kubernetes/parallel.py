"""The same question to several contexts at once, each guarded and each in its own time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sky.api import Context, SkyError, TimedOut

T = TypeVar("T")
_MARGIN_SECONDS = 0.1


def limited(ctx: Context, seconds: float) -> Context:
    """`ctx` with a deadline at most `seconds` from now."""
    latest = time.monotonic() + seconds
    return dataclasses.replace(ctx, deadline=latest if ctx.deadline is None else min(latest, ctx.deadline))


def each(
    ctx: Context, names: Sequence[str], ask: Callable[[Context, str], T], seconds: float
) -> dict[str, T | SkyError]:
    """What `ask(ctx, name)` returned or failed with, for every name, in their order. Blocks.

    Late ones are left behind and answered by `TimedOut`; anything but a `SkyError` is raised.
    Raises `Cancelled`.
    """
    inner = limited(ctx, seconds)
    assert inner.deadline is not None
    answers: dict[str, T | BaseException] = {}

    def run(name: str) -> None:
        try:
            answers[name] = ask(inner, name)
        except BaseException as error:  # noqa: BLE001 -- handed to the caller, below
            answers[name] = error

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and (left := inner.deadline + _MARGIN_SECONDS - time.monotonic()) > 0:
            thread.join(min(left, 0.5))
            ctx.cancel.check()
    return {name: _result(answers.get(name), name, seconds) for name in names}


def together(*calls: Callable[[], Any]) -> list[Any]:
    """The results of all calls, made at once; when all have ended, the first one's error is raised."""
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as error:  # noqa: BLE001 -- raised again, below
            errors[index] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(1, len(calls))]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join()
    for index in sorted(errors):
        raise errors[index]
    return [results[index] for index in range(len(calls))]


def _result(answer: T | BaseException | None, name: str, seconds: float) -> T | SkyError:
    if answer is None:
        return TimedOut(f"Kubernetes context {name!r} gave no answer within {seconds:g} s")
    if isinstance(answer, BaseException) and not isinstance(answer, SkyError):
        raise answer
    return answer
