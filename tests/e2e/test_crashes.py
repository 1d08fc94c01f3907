"""Whatever ends a client, nothing is doubled, nothing is lost, and `down` removes all of it.

The truth is what exists, asked of the place itself: directories of `local`, leases on the hosts, pods as
kubectl lists them.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import places
import pytest
from places import EVERYWHERE, LOCAL, Place
from sky_command import SMALL, Kubernetes, Running, Sky, eventually


@pytest.fixture(params=EVERYWHERE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with places.place(request.param, tmp_path, request) as made:
        yield made


def intents(sky: Sky) -> list[tuple[str, bool]]:
    """(step, whether it has ended) of every intent, as written so far."""
    try:
        with sqlite3.connect(f"file:{sky.state}/sky.db?mode=ro", uri=True, timeout=5) as connection:
            rows = connection.execute(
                "SELECT step, ended_at IS NOT NULL FROM intents ORDER BY number"
            ).fetchall()
        return [(step, bool(ended)) for step, ended in rows]
    except sqlite3.OperationalError:
        return []  # not made yet


def kill_after(running: Running, moment: Callable[[], bool]) -> None:
    """SIGKILL as soon as `moment()`, unless it has ended before."""
    deadline = time.monotonic() + 30
    while not moment() and running.process.poll() is None:  # steps may take less than `eventually` waits
        assert time.monotonic() < deadline
        time.sleep(0.001)
    running.process.kill()
    running.end()


def expect_whole_after_a_kill(place: Place) -> None:
    """What a killed launch left is known here or isn't there; the next launch adopts it; down removes it."""
    sky = place.sky
    known = [c["name"] for c in sky("status", "-o", "json").json()["clusters"]]
    existing = place.existing()
    assert len(existing) <= 1, f"doubled: {existing}"
    assert known == ["c"] or not existing, f"{existing} exists and isn't known"
    assert sky("launch", "-c", "c", *place.options, "--", "echo", "again").out == "again\n"
    adopted = place.existing()
    assert len(adopted) == 1, f"doubled: {adopted}"
    assert not existing or adopted == existing, f"{existing} was replaced by {adopted}"
    assert sky("down", "c", "-y").out == "c: gone\n"
    assert place.existing() == []
    assert sky("status", "-o", "json").json()["clusters"] == []


def steps(place: Place) -> list[Callable[[], bool]]:
    """Moments of one launch: each intent written, and each outcome."""
    before = len(intents(place.sky))

    def mine() -> list[tuple[str, bool]]:
        return intents(place.sky)[before:]

    return [
        lambda: ("run_instances", False) in mine(),
        lambda: ("run_instances", True) in mine(),
        lambda: ("wait_instances", False) in mine(),
        lambda: ("wait_instances", True) in mine(),
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_launch_killed_at_a_step_is_taken_up_again(place: Place, number: int) -> None:
    launch = place.sky.start("launch", "-c", "c", *place.options, "--", "sleep", "1")
    kill_after(launch, steps(place)[number])
    expect_whole_after_a_kill(place)


def test_a_local_launch_killed_at_any_time_is_taken_up_again(sky: Sky) -> None:
    place = places.local(sky)
    for _ in range(11):
        after = time.monotonic() + random.uniform(0.02, 0.35)
        launch = sky.start("launch", "-c", "c", *LOCAL, "--", "sleep", "1")
        kill_after(launch, lambda after=after: time.monotonic() > after)  # type: ignore[misc]
        expect_whole_after_a_kill(place)


def test_a_kubernetes_launch_killed_at_any_time_is_taken_up_again(
    kube_sky: Sky, kubernetes: Kubernetes
) -> None:
    place = places.kubernetes(kube_sky, kubernetes)
    for _ in range(2):
        after = time.monotonic() + random.uniform(0.2, 1.5)
        launch = kube_sky.start("launch", "-c", "c", *SMALL, "--", "sleep", "1")
        kill_after(launch, lambda after=after: time.monotonic() > after)  # type: ignore[misc]
        expect_whole_after_a_kill(place)


def test_a_killed_down_is_repeated(place: Place) -> None:
    place.sky("launch", "-c", "c", *place.options, "-d", "--", "sleep", "600")
    before = len(intents(place.sky))
    down = place.sky.start("down", "c", "-y")
    kill_after(down, lambda: len(intents(place.sky)) > before)
    known = [c["name"] for c in place.sky("status", "-o", "json").json()["clusters"]]
    assert known == ["c"] or not place.existing()
    place.sky("down", "c", "-y", code=0 if known else 2)
    assert place.existing() == []


def test_two_launches_of_one_name_make_one_cluster_and_the_second_waits(place: Place) -> None:
    options = (*place.options, "--", "echo", "ran")
    first = place.sky.start("launch", "-c", "c", *options)
    first.until("creating 'c'")
    second = place.sky.start("launch", "-c", "c", *options)
    done = first.end(), second.end()
    assert [d.out for d in done] == ["ran\n", "ran\n"], done
    if place.kind == "kubernetes":  # a launch elsewhere may be over before the second has begun
        assert f"waiting for sky launch (pid {first.process.pid})" in done[1].err, done[1]
    assert len(place.existing()) == 1


def test_launches_at_the_same_moment_make_one_cluster(place: Place) -> None:
    running = [place.sky.start("launch", "-c", "c", *place.options, "--", "true") for _ in range(3)]
    assert [r.end().code for r in running] == [0, 0, 0]
    assert len(place.existing()) == 1


def test_down_while_a_launch_runs_leaves_nothing(place: Place) -> None:
    launch = place.sky.start("launch", "-c", "c", *place.options, "--", "sleep", "20")
    launch.until("creating 'c'")
    down = place.sky.start("down", "c", "-y").end()
    assert down.code == 0 and down.out == "c: gone\n", down
    assert place.existing() == []
    ended = launch.end(20)
    assert ended.code in (122, 123, 137, 143), f"its job can't have ended by itself: {ended}"
    assert place.sky("status", "-o", "json").json()["clusters"] == []


def test_interrupting_a_launch_that_waits_gives_back_and_says_so(
    kube_sky: Sky, kubernetes: Kubernetes
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        launch = kube_sky.start("launch", "-c", "c", *SMALL[:-1], "docker:127.0.0.1:1/none", "--", "true")
        eventually(lambda: kubernetes.pod_names(kube_sky.user))
        launch.signal(number)
        done = launch.end(15)
        assert done.code == 123 and "giving back 'c'" in done.err and done.out == "", done
        assert kubernetes.pods_of(kube_sky.user) == []
        assert "c" not in kube_sky("status").out


def test_interrupting_the_log_leaves_the_job_running(place: Place) -> None:
    for argv in (("launch", "-c", "c", *place.options), ("exec", "c")):
        follow = place.sky.start(*argv, "--", "sh", "-c", "echo begun; sleep 1; echo done")
        follow.until("begun")
        follow.signal(signal.SIGINT)
        done = follow.end(10)
        assert done.code == 123, done
        job = "1" if argv[0] == "launch" else "2"
        assert f"job {job} goes on" in done.err and f"sky logs c {job}" in done.err, done
        assert place.sky("logs", "c", job).out == "begun\ndone\n"
    logs = place.sky.start("logs", "c", "1")
    assert logs.end().code == 0


def test_rebuild_finds_every_cluster_with_its_resources(place: Place) -> None:
    sky = place.sky
    for name in ("one", "two words"):
        sky("launch", "-c", name, *place.options, "--", "echo", f"log of {name}")
    before = sky("status", "-o", "json").json()["clusters"]
    place.forget()
    assert sky("status", "-o", "json").json()["clusters"] == []
    sky("status", "--rebuild")
    after = sky("status", "-o", "json").json()["clusters"]
    kept = ("name", "id", "status", "cloud", "num_nodes", "offer", "hosts")
    assert sorted(([c[k] for k in kept] for c in after), key=str) == sorted(
        ([c[k] for k in kept] for c in before), key=str
    )
    assert sky("exec", "one", "--", "echo", "hi").out == "hi\n"
    assert sky("logs", "two words").out == "log of two words\n"
    assert sky("launch", "-c", "one", *place.options, "--", "echo", "again").out == "again\n"
    assert len(place.existing()) == 2
    sky("down", "-a", "-y")
    assert place.existing() == []
    sky("status", "--rebuild")
    assert sky("status", "-o", "json").json()["clusters"] == [], "what is being deleted was found again"
