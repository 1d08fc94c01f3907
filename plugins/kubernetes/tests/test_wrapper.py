"""Marks at the end of a stream are found, and nothing else is, wherever the stream is cut."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sky.api import MarkReader
from sky_kubernetes.wrapper import WRAPPER, Nonce


def read(nonce: Nonce, pieces: list[bytes]) -> tuple[bytes, MarkReader]:
    written = bytearray()
    reader = MarkReader(nonce.mark, written.extend, begun=True)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    return bytes(written), reader


@given(data=st.data(), text=st.binary(max_size=60), before=st.integers(0, 40))
def test_any_bytes_cut_anywhere_are_the_programs(data: st.DataObject, text: bytes, before: int) -> None:
    nonce = Nonce()
    text += nonce.mark[:before]  # what looks like a mark and isn't
    stream = text + nonce.mark + b":137\n" + b"of a survivor"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    written, reader = read(nonce, pieces)
    assert (written, reader.result) == (text, "137")


def test_cut_at_every_byte() -> None:
    nonce = Nonce()
    text = "é漢🙂\n\x1e".encode() + nonce.mark[:-1]
    stream = nonce.mark + b"@4711\n" + text + nonce.mark + b":0\n"
    for cut in range(len(stream) + 1):
        written, reader = read(nonce, [stream[:cut], stream[cut:]])
        assert (written, reader.result, reader.process_group) == (text, "0", 4711)


@pytest.mark.parametrize("end", [b"", b":", b":13", b":" + b"9" * 50])
def test_half_a_mark_is_none(end: bytes) -> None:
    nonce = Nonce()
    written, reader = read(nonce, [b"text" + nonce.mark + end])
    assert reader.result is None
    assert written.startswith(b"text")


def test_wrapper_is_small_and_each_shell_can_read_it() -> None:
    assert len(WRAPPER) < 4096
    for shell in (["sh"], ["dash"], ["bash"], ["busybox", "sh"]):
        try:
            done = subprocess.run([*shell, "-nc", WRAPPER], capture_output=True, text=True, timeout=10)
        except FileNotFoundError:
            continue
        assert (done.returncode, done.stderr) == (0, "")
