"""The engine over the local runner, and over one that loses the connection at any byte."""

from __future__ import annotations

import functools
import io
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from node_harness import MARK, environ, job, kill, processes, until

from sky.cancellation import CancelToken
from sky.errors import Cancelled, ConnectionLost, HostGone, SkyError, Unreachable, UsageError
from sky.local.plugin import LocalRunner
from sky.node import engine as engine_module
from sky.node import protocol
from sky.node.engine import Engine, Stream
from sky.node.gang import Gang
from sky.types import Allocation, Context, Event, Host, Job, JobState, Place

LINES = b"".join(b"line %d\n" % n for n in range(3000))
PRINT_LINES = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo x >>../ran"


class Runner:
    """What `Plugin` is to the engine. `cuts` are taken one for each call: how it goes wrong."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.calls = 0
        self._runner = LocalRunner()

    def call(self, hook: str, **arguments: Any) -> Any:
        assert hook == "sky_run"
        self.calls += 1
        cut = self.cuts.pop(0) if self.cuts else None
        if cut is None:
            return self._runner.sky_run(**arguments)
        return cut.run(self._runner.sky_run, **arguments)


class Cut:
    """A connection that carries `out` bytes of stdout and `err` of stderr, and then fails with `error`.

    Without an error it drops the rest in silence and returns 0.
    """

    def __init__(self, out: int = 1 << 60, err: int = 1 << 60, error: SkyError | None = None) -> None:
        self._left = {"stdout": out, "stderr": err}
        self._error = error

    def run(self, sky_run: Callable[..., int], stdout: BinaryIO, stderr: BinaryIO, **arguments: Any) -> int:
        code = sky_run(
            stdout=_Limited(self, "stdout", stdout), stderr=_Limited(self, "stderr", stderr), **arguments
        )
        if self._error is not None:
            raise self._error
        return code

    def pass_on(self, which: str, sink: BinaryIO, data: bytes) -> int:
        sink.write(data[: self._left[which]])
        self._left[which] -= len(data)
        if self._left[which] < 0:
            self._left[which] = 0
            if self._error is not None:
                raise self._error
        return len(data)


class _Limited:
    def __init__(self, cut: Cut, which: str, sink: BinaryIO) -> None:
        self._cut, self._which, self._sink = cut, which, sink

    def write(self, data: bytes) -> int:
        return self._cut.pass_on(self._which, self._sink, data)

    def flush(self) -> None:
        pass


class Session:
    """Of a session, what the engine uses."""

    def __init__(self, directory: Path) -> None:
        self.cancel = CancelToken()
        self.warnings: list[str] = []
        self._directory = directory

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def context(self, plugin: object, seconds: float | None = None) -> Context:
        from sky.cache import Cache

        def emit(event: Event) -> None:
            pass

        return Context(
            config={}, deadline=None, cancel=self.cancel, emit=emit, cache=Cache(), directory=self._directory
        )


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


@pytest.fixture
def engine(
    runner: Runner, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    (tmp_path / "0/home").mkdir(parents=True)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(engine_module, "PAUSE_SECONDS", (0.001, 0.01))
    host = Host(
        transport="local",
        address={"root": str(tmp_path / "0"), "cluster": str(tmp_path)},
        name="local-0",
        work_dir=str(tmp_path / "0/node"),
    )
    allocation = Allocation(id="c-1", cloud="local", cluster_name="c", tags={}, num_nodes=1)
    yield Engine(cast(Any, session), cast(Any, runner), Place(allocation=allocation, hosts=(host,)))

    def living() -> list[int]:
        mark = f"{MARK}={tmp_path}".encode()
        return processes(lambda pid: pid != os.getpid() and mark in environ(pid))

    try:
        until(lambda: not living(), 5)
    finally:
        kill(living())


def follow(engine: Engine, made: Job) -> tuple[Stream, bytes]:
    out = io.BytesIO()
    return engine.submit(made, True, out), out.getvalue()


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code(engine: Engine, code: int) -> None:
    stream, out = follow(engine, job(f"echo $SKYPILOT_NODE_RANK; exit {code}"))
    assert (out, stream.code, stream.ended, stream.job_id) == (b"0\n", code, True, "1")
    assert stream.state == ("FAILED" if code else "SUCCEEDED")
    again = engine.logs("1", out2 := io.BytesIO(), False)
    assert (out2.getvalue(), again.code, again.state) == (b"0\n", code, stream.state)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_cut_at_any_byte(engine: Engine, runner: Runner, session: Session, seed: int, silent: bool) -> None:
    """Every byte once, one job, its own code: however often and wherever the connection is lost."""
    chance = random.Random(seed)
    error = None if silent else ConnectionLost("cut")
    runner.cuts = [
        Cut(
            chance.choice([0, 1, 4000, chance.randrange(len(LINES)), 1 << 60]),
            chance.choice([0, 5, 20, 40, 1 << 60]),
            error,
        )
        for _ in range(6)
    ]
    stream, out = follow(engine, job(PRINT_LINES + "; exit 3"))
    runner.cuts = []
    assert out == LINES
    assert (stream.code, stream.state, stream.position) == (3, "FAILED", len(LINES))
    assert [s.id for s, _ in engine.jobs()] == ["1"]
    assert sum("connecting again" in w for w in session.warnings) <= 1


def test_cut_before_the_id_is_known(engine: Engine, runner: Runner, tmp_path: Path) -> None:
    """The same token is sent again: what was started is not started twice, and output isn't shown twice."""
    for cut in (Cut(err=0, error=ConnectionLost("cut")), Cut(err=0), Cut(out=100, err=0)):
        runner.cuts, runner.calls = [cut], 0
        (tmp_path / "0/home/ran").unlink(missing_ok=True)
        stream, out = follow(engine, job(PRINT_LINES))
        assert out == LINES and runner.calls == 2 and stream.ended
        assert (tmp_path / "0/home/ran").read_text() == "x\n"
    assert len(engine.jobs()) == 3


def test_cut_while_detached(engine: Engine, runner: Runner) -> None:
    runner.cuts = [Cut(err=0, error=ConnectionLost("cut")), Cut(err=0)]
    stream = engine.submit(job("echo x"), False, out := io.BytesIO())
    assert stream.job_id == "1" and runner.calls == 3 and out.getvalue() == b"" and not stream.ended
    runner.cuts, runner.calls = [Cut(err=len(b"sky1 job 2\n"), error=ConnectionLost("cut"))], 0
    assert engine.submit(job("echo x"), False, out).job_id == "2" and out.getvalue() == b""
    until(lambda: all(s.state.final for s, _ in engine.jobs()))


@pytest.mark.parametrize("err", [0, 11, 20, 30, 1 << 60])
@pytest.mark.parametrize("out", [0, 3, 1 << 60])
@pytest.mark.parametrize("silent", [False, True])
def test_logs_of_the_last_lines_when_cut(
    engine: Engine, runner: Runner, out: int, err: int, silent: bool
) -> None:
    follow(engine, job(PRINT_LINES))
    for following in (False, True):
        runner.cuts = [Cut(out, err, None if silent else ConnectionLost("cut"))]
        stream = engine.logs("1", got := io.BytesIO(), following, tail=2)
        assert got.getvalue() == b"line 2998\nline 2999\n"
        assert (stream.code, stream.ended, stream.position) == (0, True, len(LINES))


def test_list_that_was_cut(engine: Engine, runner: Runner) -> None:
    for _ in range(3):
        follow(engine, job("true"))
    runner.cuts = [Cut(out=30)]
    assert len(engine.jobs()) == 3
    runner.cuts = [Cut(out=30), Cut(err=3)]
    with pytest.raises(ConnectionLost, match="cut short"):
        engine.jobs()


def test_connection_that_does_not_come_back(
    engine: Engine, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "RECONNECT_SECONDS", 0.05)
    runner.cuts = [Cut(err=20, error=ConnectionLost("cut"))] + [Cut(0, 0, Unreachable("no route"))] * 1000
    with pytest.raises(ConnectionLost, match="job 1 may still be running") as caught:
        follow(engine, job("sleep 0.2"))
    assert caught.value.remedy == "sky logs c 1"
    runner.cuts = [Cut(0, 0, ConnectionLost("cut"))] * 1000
    with pytest.raises(ConnectionLost, match="isn't known") as caught:
        engine.submit(job("true"), False, io.BytesIO())
    assert caught.value.remedy == "sky queue c"
    runner.cuts = []


def test_errors_that_are_not_tried_again(engine: Engine, runner: Runner) -> None:
    for error in (Unreachable("no route"), HostGone("pod gone")):
        runner.cuts, runner.calls = [Cut(0, 0, error)], 0
        with pytest.raises(type(error)):
            follow(engine, job("true"))
        assert runner.calls == 1
    with pytest.raises(UsageError, match="no job 77 on this cluster"):
        engine.logs("77", io.BytesIO(), True)
    with pytest.raises(SkyError, match="needs 2 devices, and there are 1"):
        follow(engine, job("true", accelerators_per_node=2, place_accelerators_per_node=1))


def test_gone_while_following(engine: Engine, runner: Runner) -> None:
    runner.cuts = [Cut(out=1000, error=ConnectionLost("cut")), Cut(0, 0, HostGone("pod gone"))]
    with pytest.raises(HostGone):
        follow(engine, job(PRINT_LINES))


def test_user_stops_following(engine: Engine, session: Session) -> None:
    """The job goes on, and the error says so and what to do."""
    states: list[str] = []
    out = io.BytesIO()

    def stop() -> None:
        until(lambda: b"started" in out.getvalue())
        session.cancel.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    run = "echo started; until [ -e ../go ]; do sleep 0.01; done; echo ended"
    with pytest.raises(Cancelled, match="job 1 goes on") as caught:
        engine.submit(job(run), True, out, lambda s: states.append(s.state))
    thread.join()
    assert caught.value.remedy == "sky logs c 1, sky cancel c 1"
    session.cancel = CancelToken()
    ((status, directory),) = engine.jobs()
    assert status.state == JobState.RUNNING and states
    (Path(directory) / "../../../home/go").touch()
    stream = engine.logs("1", rest := io.BytesIO(), True)
    assert rest.getvalue() == b"started\nended\n" and stream.code == 0


def test_cancel(engine: Engine) -> None:
    assert engine.cancel("9") == [("9", "unknown")]
    engine.submit(job("sleep 1000"), False, io.BytesIO())
    assert engine.cancel("all") == [("1", "CANCELLED")]


def test_a_client_that_is_killed(engine: Engine, tmp_path: Path) -> None:
    """In the middle of the stream, with -9: the job goes on, and the log has everything."""
    code = (
        "import sys\nfrom test_engine import Runner, Session, job\nfrom sky.node.engine import Engine\n"
        "from sky.types import *\nfrom pathlib import Path\n"
        f"host = Host(transport='local', address={{'root': {str(tmp_path / '0')!r}, 'cluster': {str(tmp_path)!r}}}, "
        f"work_dir={str(tmp_path / '0/node')!r})\n"
        "a = Allocation(id='c-1', cloud='local', cluster_name='c', tags={}, num_nodes=1)\n"
        f"e = Engine(Session(Path({str(tmp_path)!r})), Runner(), Place(allocation=a, hosts=(host,)))\n"
        "e.submit(job('echo one; until [ -e ../go ]; do sleep 0.01; done; echo two'), True, open(1, 'wb', 0))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    assert client.stdout is not None and client.stdout.readline() == b"one\n"
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()
    (tmp_path / "0/home/go").touch()
    stream = engine.logs("1", out := io.BytesIO(), True)
    assert (out.getvalue(), stream.state) == (b"one\ntwo\n", "SUCCEEDED")


@pytest.mark.parametrize("known", [True, False])
def test_what_comes_later_is_waited_for_last(known: bool) -> None:
    """All else is read by then; the bytes are those of a submission that knew it, and without it there is no end."""
    gang, one = protocol.gang_file(1, "0" * 32, ["a", "b"], "10.0.0.1", "20001"), job("true")
    asked: list[bytes] = []

    def wait() -> bytes:
        asked.append(gang if known else b"")
        return asked[-1]

    whole = protocol.submit("", one, {"A": "1"}, True, gang)[1].read()
    first, _, end = whole.rpartition(gang)
    command, stdin = protocol.submit("", one, {"A": "1"}, True, protocol.Later(len(gang), wait))
    assert command.argv[-2] == str(len(gang))
    assert b"".join(stdin.read(1000) for _ in range(-(-len(first) // 1000))) == first
    assert not asked
    rest = b"".join(iter(functools.partial(stdin.read, 7), b""))
    assert rest == (gang + end if known else b"")
    assert len(asked) == 1


@pytest.mark.parametrize("following", [True, False])
def test_where_no_node_can_be_reached_one_error_is_told(session: Session, following: bool) -> None:
    """All are called at once; where rank 0 was given nothing, nothing is cancelled there."""
    refused = threading.Semaphore(0)
    called = []

    class Away(Runner):
        def call(self, hook: str, **arguments: Any) -> Any:
            name = arguments["host"].name
            called.append(name)
            for _ in range(2):
                refused.acquire(timeout=10) if name == "h0" else refused.release()
            raise Unreachable(f"{name} is away")

    hosts = tuple(
        Host(transport="local", address={}, name=f"h{k}", internal_ip="127.0.0.1") for k in range(2)
    )
    allocation = Allocation(id="c-1", cloud="local", cluster_name="c", tags={}, num_nodes=2)
    gang = Gang(cast(Any, session), cast(Any, Away()), Place(allocation=allocation, hosts=hosts))
    with pytest.raises(Unreachable, match="h0 is away"):
        gang.submit(job("true", num_nodes=2), following, io.BytesIO())
    until(lambda: not any(thread.name.startswith("sky-rank-") for thread in threading.enumerate()))
    assert sorted(called) == ["h0", "h1"]
    assert session.warnings == []
