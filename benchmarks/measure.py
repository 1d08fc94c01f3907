"""Whole processes, ours and its floor by turns, so that a busy machine is busy for both."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Step = Sequence[str] | Callable[[], None]


@dataclass
class Result:
    """Seconds of each run of ours and of the floor, and what the budget says of their medians."""

    name: str
    limit: float | None
    """None: there is no budget, the figure is for information."""
    unit: str
    """`x`: ours is at most `limit` times the floor; `s`: at most `limit` seconds more."""
    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        a, b = statistics.median(self.ours), statistics.median(self.floor)
        return a / b if self.unit == "x" else a - b

    @property
    def met(self) -> bool:
        return self.limit is None or self.value <= self.limit


def pair(
    name: str,
    ours: Step,
    floor: Step,
    limit: float | None,
    *,
    unit: str = "x",
    runs: int = 15,
    warm_up: bool = True,
    between: Callable[[], None] = lambda: None,
) -> Result:
    """Run both `runs` times by turns, after one uncounted run of each, unless there is no `warm_up`; `between`
    is not timed. Blocks."""
    result = Result(name, limit, unit)
    for number in range(0 if warm_up else 1, runs + 1):
        for step, times in ((ours, result.ours), (floor, result.floor)):
            between()
            seconds = timed(step)
            if number:
                times.append(seconds)
    return result


def timed(step: Step) -> float:
    """Seconds that a command (or a function) takes, its process's start and end included."""
    started = time.perf_counter()
    if callable(step):
        step()
    else:
        done = subprocess.run(step, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(step)}: exit code {done.returncode}\n{os.fsdecode(done.stderr)}")
    return time.perf_counter() - started


def spread(seconds: list[float]) -> str:
    low, mid, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{low * 1000:6.0f} {mid * 1000:6.0f} {high * 1000:6.0f}"


HEAD = f"{'':46} {'ours min/median/max ms':>24} {'floor min/median/max ms':>26} {'':8} {'budget':>8}"


def show(result: Result) -> None:
    print(
        f"{result.name:46} {spread(result.ours):>24} {spread(result.floor):>26} "
        f"{_figure(result.value, result.unit):>8} {_figure(result.limit, result.unit):>8}"
        f"{'' if result.met else '  OVER'}",
        flush=True,
    )


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} x" if unit == "x" else f"{value:+.2f} s"
