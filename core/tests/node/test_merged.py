"""The logs of several ranks as one: whole lines, each with its rank, and not a byte of another in it."""

from __future__ import annotations

import io
import threading

from hypothesis import given
from hypothesis import strategies as st

from sky.node.merged import LONGEST, Merged


def test_as_it_is_until_there_are_several() -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.rank(0).write(b"half a li")
    assert out.getvalue() == b"half a li"


def test_lines_wait_for_their_end() -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.several()
    first, second = merged.rank(0), merged.rank(12)
    first.write(b"one ")
    second.write(b"two\nthr")
    assert out.getvalue() == b"(rank 12) two\n"
    first.write(b"line\n")
    merged.flush()
    assert out.getvalue() == b"(rank 12) two\n(rank 0) one line\n(rank 12) thr\n"


def test_a_progress_bar_moves() -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.several()
    sink = merged.rank(1)
    for part in (b"10%\r20%\r", b"30%\r", b"\n"):
        sink.write(part)
    assert out.getvalue().replace(b"(rank 1) ", b"") == b"10%\r20%\r30%\r\n"
    assert b"(rank 1) \n" not in out.getvalue(), "a carriage return and its line feed are one end"


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.several()
    merged.rank(0).write(b"x" * (LONGEST + 1))
    assert len(out.getvalue()) > LONGEST


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=20)), max_size=40))
def test_each_rank_keeps_its_bytes(writes: list[tuple[int, bytes]]) -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.several()
    said = dict.fromkeys(range(3), b"")
    for rank, data in writes:
        merged.rank(rank).write(data)
        said[rank] += data
    merged.flush()
    heard = dict.fromkeys(range(3), b"")
    for line in out.getvalue().splitlines(keepends=True):
        prefix, _, text = line.partition(b") ")
        heard[int(prefix.removeprefix(b"(rank "))] += text
    for rank in range(3):
        assert heard[rank] in (said[rank], said[rank] + b"\n")


def test_lines_of_many_threads_stay_whole() -> None:
    out = io.BytesIO()
    merged = Merged(out)
    merged.several()

    def work(rank: int) -> None:
        for _ in range(200):
            merged.rank(rank).write(b"%d" % rank * 50)
            merged.rank(rank).write(b"\n")

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 800
    assert set(lines) == {b"(rank %d) " % rank + b"%d" % rank * 50 for rank in range(4)}
