"""How often a command waits for the API server: what a distance of 200 ms there and back adds to it.

Connecting is local in these tests. What a first command on a connection can't do without is a round trip
for the TLS 1.3 handshake, one for the upgrade to a WebSocket, and one for the job itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sky_command import SMALL, Kubernetes, Sky, kubernetes_home
from slow_proxy import SlowProxy

ROUND_TRIP = 0.2
RUNS = 2


@dataclass
class Distant:
    """A home whose API server is as far away as `proxy` makes it; a cluster `c` with a workdir is up."""

    sky: Sky
    proxy: SlowProxy

    def trips(self, *argv: str) -> float:
        """Round trips that a command waits for: how much longer it takes at a distance, the best of each."""
        near = self._seconds(*argv)
        self.proxy.delay_seconds, before = ROUND_TRIP / 2, self.proxy.connections
        far = self._seconds(*argv)
        self.proxy.delay_seconds = 0
        connections = (self.proxy.connections - before) / RUNS
        trips = (far - near) / ROUND_TRIP
        print(
            f"\nsky {' '.join(argv)}: ({far * 1000:.0f} ms - {near * 1000:.0f} ms) / {ROUND_TRIP * 1000:.0f} ms"
            f" = {trips:.2f} round trips, {connections:g} connections"
        )
        return trips

    def _seconds(self, *argv: str) -> float:
        return min(self.sky(*argv).seconds for _ in range(RUNS))


@pytest.fixture(scope="module")
def distant(tmp_path_factory: pytest.TempPathFactory, kubernetes: Kubernetes) -> Iterator[Distant]:
    root: Path = tmp_path_factory.mktemp("distant")
    proxy = SlowProxy(("127.0.0.1", 6443))
    for sky in kubernetes_home(root, kubernetes):
        text = kubernetes.kubeconfig.read_text().replace("127.0.0.1:6443", f"127.0.0.1:{proxy.port}")
        path = root / "distant"
        path.write_text(text)
        sky.extra = {"KUBECONFIG": str(path)}
        work = sky.project / "work"
        work.mkdir()
        for number in range(20):
            (work / f"file{number}").write_text(f"{number}\n")
        (sky.project / "t.yaml").write_text("workdir: ./work\nrun: ls | wc -l\n")
        assert sky("launch", "-c", "c", *SMALL, "t.yaml").out.strip() == "20"
        yield Distant(sky, proxy)
    proxy.close()


def test_exec_is_one_round_trip_after_the_connection(distant: Distant) -> None:
    # TLS 1 + upgrade 1 + the job 1
    assert distant.trips("exec", "c", "--", "true") < 3.5


def test_a_detached_exec_is_one_round_trip_after_the_connection(distant: Distant) -> None:
    assert distant.trips("exec", "c", "-d", "--", "true") < 3.5


def test_logs_of_a_finished_job_are_one_round_trip_after_the_connection(distant: Distant) -> None:
    assert distant.trips("logs", "c", "1") < 3.5


def test_queue_is_one_round_trip_after_the_connection(distant: Distant) -> None:
    assert distant.trips("queue", "c") < 3.5


def test_rsync_of_what_is_there_is_few_round_trips(distant: Distant) -> None:
    # The connection 2, what rsync says to rsync 3 to 4
    assert distant.trips("rsync", "./work", "c:copy") < 7.5


def test_launch_of_a_cluster_that_is_up_is_few_round_trips(distant: Distant) -> None:
    # Whether it still exists 2, the job 3
    assert distant.trips("launch", "-c", "c", *SMALL, "--", "true") < 6.5


def test_launch_that_syncs_an_unchanged_workdir_adds_the_sync_alone(distant: Distant) -> None:
    assert distant.trips("launch", "-c", "c", *SMALL, "t.yaml") < 13.5
