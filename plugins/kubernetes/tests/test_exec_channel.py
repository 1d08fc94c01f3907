"""A channel's own duties: staying alive, and noticing that it is not."""

from __future__ import annotations

import os
import select
import time

import pytest
from kubernetes_fixtures import MakeContext
from kubernetes_stub import Exec, StubServer
from websocket import ABNF

from sky.api import ConnectionLost, Context
from sky_kubernetes.api_client import connect
from sky_kubernetes.exec_channel import STDOUT, Channel, open_channel
from sky_kubernetes.masking import binary_frame
from sky_kubernetes.stdin_pump import StdinPump

PATH = "/api/v1/namespaces/ns/pods/p/exec"


def open_to(ctx: Context, ping_seconds: float, pong_seconds: float) -> Channel:
    query = [("command", "true")]
    api = connect(ctx)
    return open_channel(ctx, api, PATH, query, ping_seconds=ping_seconds, pong_seconds=pong_seconds)


def test_silent_channel_is_kept_alive_by_pings(stub: StubServer, make_context: MakeContext) -> None:
    """As a load balancer does: whoever is silent for a second is cut."""

    def cut_the_silent(run: Exec) -> None:
        run.sock.settimeout(1.0)
        while run.pings < 3:
            run.stream.peek(1)  # raises when nothing comes for a second
            _one_ping(run)
        run.send(STDOUT, b"still here")

    stub.exec = cut_the_silent
    channel = open_to(make_context(seconds=10), 0.05, 5.0)
    received: list[tuple[int, bytes]] = []
    while not channel.closed and not received:
        received += channel.exchange()
    assert received == [(STDOUT, b"still here")]


def _one_ping(run: Exec) -> None:
    head = run.stream.read(6)
    assert head[0] & 0x0F == 9 and head[1] == 0x80, "an empty, masked ping"
    run.pings += 1
    run.send_frame(10, b"")


def test_peer_that_answers_no_ping_is_lost(stub: StubServer, make_context: MakeContext) -> None:
    stub.exec = Exec.wait_for_client_to_go
    channel = open_to(make_context(seconds=20), 0.05, 0.3)
    begun = time.monotonic()
    with pytest.raises(ConnectionLost, match="no longer answers"):
        while True:
            channel.exchange()
    assert time.monotonic() - begun < 5


def test_pump_leaves_what_it_was_not_asked_for() -> None:
    """The next reader of a terminal must get what is typed after the command has ended."""
    read, write = os.pipe()
    with open(read, "rb") as source:
        pump = StdinPump(source, 100)
        pump.stop()
        os.write(write, b"for the next")
        assert select.select([read], [], [], 5)[0], "something has eaten it"
        assert os.read(read, 100) == b"for the next"
    os.close(write)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 125, 126, 2047, 2048, 2049, 65535, 65536, 65537])
def test_frames_are_what_the_library_makes_of_the_same_key(size: int) -> None:
    payload = os.urandom(size)
    ours = binary_frame(payload)
    theirs = ABNF.create_frame(payload, ABNF.OPCODE_BINARY)
    theirs.get_mask_key = lambda _: ours[len(ours) - size - 4 : len(ours) - size]
    assert ours == theirs.format()
