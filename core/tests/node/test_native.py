"""Jobs of a place with an engine of its own: its log is read in slices, over connections that break."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from node_harness import job
from test_engine import Cut, Runner, Session

from sky.cancellation import CancelToken
from sky.errors import Cancelled, ConnectionLost, SkyError, Unreachable, UsageError
from sky.node import native
from sky.node.native import NativeEngine
from sky.types import Allocation, Host, Job, JobReference, JobState, JobStatus, Place


class Batch(Runner):
    """An engine that takes a step of `steps` whenever it is asked: each writes to the log, or ends the job."""

    def __init__(self, host: Host, log: Path, steps: list[bytes | int]) -> None:
        super().__init__()
        self.host, self.log, self.steps = host, log, steps
        self.submitted: list[Job] = []
        self.lost: list[SkyError] = []
        self.code: int | None = None

    def call(self, hook: str, **arguments: Any) -> Any:
        if hook == "sky_run":
            return super().call(hook, **arguments)
        if hook == "sky_submit_job":
            self.submitted.append(arguments["job"])
            return JobReference(id="41")
        if hook == "sky_cancel_job":
            self.steps = [130]
            return None
        references = arguments["references"]
        if self.lost:
            raise self.lost.pop(0)
        if references and references[0].id != "41":
            return []
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, bytes):
            with self.log.open("ab") as file:
                file.write(step)
        elif step is not None:
            self.code = step
        state = (
            JobState.RUNNING if self.code is None else JobState.FAILED if self.code else JobState.SUCCEEDED
        )
        reference = JobReference(id="41", log_host=self.host, log_path=str(self.log))
        return [JobStatus(id="41", name="", state=state, exit_code=self.code, reference=reference)]


class Registry:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def runner(self, transport: str) -> Runner:
        return self._runner


Make = Callable[..., tuple[NativeEngine, Batch, Session]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(native, "POLL_SECONDS", (0.001, 0.01))
    (tmp_path / "0/home").mkdir(parents=True)
    address = {"root": str(tmp_path / "0"), "cluster": "x"}
    host = Host(transport="local", address=address, name="login", work_dir=str(tmp_path / "0/node"))
    allocation = Allocation(id="c-1", cloud="x", cluster_name="c", tags={}, num_nodes=1)

    def build(*steps: bytes | int) -> tuple[NativeEngine, Batch, Session]:
        batch, session = Batch(host, tmp_path / "a log", list(steps)), Session(tmp_path)
        session.registry = Registry(batch)  # type: ignore[attr-defined]
        place = Place(allocation=allocation, hosts=(host,))
        return NativeEngine(cast(Any, session), cast(Any, batch), place), batch, session

    return build


def test_follow(make: Make) -> None:
    """Also before there is a log; secrets stay apart from what is told to the engine as environment."""
    engine, batch, _ = make(b"one\n", b"", b"two", 7)
    states: list[str] = []
    stream = engine.submit(
        job("x", secrets={"S": "s"}), True, out := io.BytesIO(), lambda s: states.append(s.state)
    )
    assert (out.getvalue(), stream.code, stream.state, stream.ended) == (b"one\ntwo", 7, "FAILED", True)
    assert states == ["PENDING", "RUNNING", "FAILED"]
    assert "S" not in batch.submitted[0].envs and batch.submitted[0].secrets == {"S": "s"}


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("out", [0, 2, 1 << 60])
@pytest.mark.parametrize("err", [0, 5, 1 << 60])
def test_cut(make: Make, out: int, err: int, silent: bool) -> None:
    """Every byte once, and never a success for half a log."""
    engine, batch, _ = make(b"first\n", b"second\n", b"third\n", 0)
    batch.cuts = [Cut(out, err, None if silent else ConnectionLost("cut")) for _ in range(6)]
    batch.cuts[1:1] = [Cut()]
    stream = engine.submit(job("x"), True, got := io.BytesIO())
    assert got.getvalue() == b"first\nsecond\nthird\n" and stream.code == 0


def test_engine_that_cannot_be_asked_for_a_while(make: Make) -> None:
    engine, batch, session = make(b"one\n", b"two\n", 0)
    stream = engine.submit(job("x"), False, out := io.BytesIO())
    assert (stream.job_id, stream.ended) == ("41", False)
    engine.logs("41", out, False)
    batch.lost = [ConnectionLost("cut"), ConnectionLost("cut")]
    again = engine.logs("41", all_of_it := io.BytesIO(), True)
    assert all_of_it.getvalue() == b"one\ntwo\n" and again.code == 0
    assert len(session.warnings) == 1
    batch.lost = [Unreachable("no route")]
    with pytest.raises(Unreachable):
        engine.logs("41", out, True)


def test_tail_then_follow(make: Make) -> None:
    """The last lines of what is there are shown at once, and then all that comes."""
    engine, _, _ = make(b"a\nb\rb\nc\nd", b"d\ne\n", b"f", 0)
    written: list[bytes] = []

    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            written.append(bytes(data))
            return len(data)

    engine.logs("41", Out(), True, tail=2)
    assert [w for w in written if w] == [b"c\nd", b"d\ne\n", b"f"]
    for tail, expected in ((0, b""), (1, b"f"), (3, b"dd\ne\nf"), (99, b"a\nb\rb\nc\ndd\ne\nf")):
        engine.logs("41", out := io.BytesIO(), False, tail=tail)
        assert out.getvalue() == expected


def test_no_log_and_no_job(make: Make) -> None:
    engine, _, _ = make(0)
    out = io.BytesIO()
    assert engine.logs("41", out, True).code == 0 and out.getvalue() == b""
    with pytest.raises(UsageError, match="no job 7"):
        engine.logs("7", out, True)
    assert engine.cancel("7") == [("7", "unknown")]


def test_cancel(make: Make) -> None:
    engine, _, _ = make(b"one\n")
    assert engine.cancel("all") == [("41", "FAILED")]


def test_user_stops_following(make: Make) -> None:
    engine, _, session = make(b"one\n")

    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            session.cancel.cancel()
            return len(data)

    with pytest.raises(Cancelled, match="job 41 goes on"):
        engine.submit(job("x"), True, Out())
    assert isinstance(session.cancel, CancelToken)
