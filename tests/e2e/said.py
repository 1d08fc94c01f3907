"""What every failure of Sky's own looks like: one or two lines on stderr, soon."""

from __future__ import annotations

from sky_command import Done


def expect_two_lines(done: Done, *parts: str, seconds: float = 10) -> None:
    """Nothing on stdout, at most two lines on stderr, `parts` among them; progress doesn't count."""
    assert done.out == "", done
    lines = [line for line in done.err.splitlines() if not line.startswith("· ")]
    assert 1 <= len(lines) <= 2 and lines[0].startswith("sky: "), done
    for part in parts:
        assert part in done.err, f"{part!r} isn't said: {done}"
    assert done.seconds < seconds, f"{done.seconds:.1f} s: {done}"
