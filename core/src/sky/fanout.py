"""Ask many at once; wait for none longer than the deadline, not even at the end of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """What one of them said: `value`, or `error`, or neither when it was late."""

    def __init__(self) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        self.seconds: float | None = None

    @property
    def late(self) -> bool:
        return self.seconds is None


def fan_out(calls: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, Answer[T]]:
    """Run every call in a thread of its own and return after all, or after `seconds`, whichever is first.

    Blocks. The threads are daemons: a late one ends with the process and is not joined at its exit (as
    concurrent.futures would). What a call raises is in its answer. What a late one does later changes
    nothing in what was returned.
    """
    results: dict[str, Answer[T]] = {}
    condition = threading.Condition()

    def work(name: str, call: Callable[[], T]) -> None:
        answer = _answer(call)
        with condition:
            results[name] = answer
            condition.notify()

    for name, call in calls.items():
        threading.Thread(target=work, args=(name, call), name=f"sky-{name}", daemon=True).start()
    end = time.monotonic() + seconds
    with condition:
        while len(results) < len(calls) and (left := end - time.monotonic()) > 0:
            condition.wait(left)
        return {name: results.get(name, Answer()) for name in calls}


def _answer(call: Callable[[], T]) -> Answer[T]:
    answer: Answer[T] = Answer()
    started = time.monotonic()
    try:
        answer.value = call()
    except Exception as error:  # noqa: BLE001 - kept in the answer, for the caller to judge
        answer.error = error
    answer.seconds = time.monotonic() - started
    return answer
