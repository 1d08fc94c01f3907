"""Several requests to one API server at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


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
