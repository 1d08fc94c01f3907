"""The exit code tells who failed: the job with its own code, or Sky with one of the documented ones.

Each failure of Sky's own is one or two lines on stderr, nothing on stdout, no traceback, within seconds.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import places
import pytest
from places import EVERYWHERE, LOCAL, Place
from said import expect_two_lines
from sky_command import Kubernetes, Sky, eventually

# --- the job's own ------------------------------------------------------------------------------------


@pytest.fixture(params=EVERYWHERE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with places.place(request.param, tmp_path, request) as made:
        yield made


def test_a_failing_job_fails_launch_exec_and_logs_with_its_code(place: Place) -> None:
    sky = place.sky
    sky("launch", "-c", "c", *place.options, "--", "sh", "-c", "exit 7", code=7)
    sky("exec", "c", "--", "sh", "-c", "exit 8", code=8)
    sky("exec", "c", "kill -KILL $$", code=137)
    sky("logs", "c", code=137)
    sky("logs", "c", "1", code=7)
    assert sky("logs", "c", "1", "--status", code=7).out == "1 FAILED\n"
    sky("exec", "c", "--", "no-such-program", code=127)


def test_a_failing_setup_fails_the_launch_with_its_code_and_run_is_not_started(place: Place) -> None:
    sky = place.sky
    (sky.project / "t.yaml").write_text("setup: exit 9\nrun: echo never\n")
    done = sky("launch", "-c", "c", *place.options, "t.yaml", code=9)
    assert "never" not in done.out and "FAILED_SETUP" in done.err
    assert sky("logs", "c", "1", "--status", code=9).out == "1 FAILED_SETUP\n"


def test_a_cancelled_job_is_123_for_whoever_follows_it(place: Place) -> None:
    sky = place.sky
    launch = sky.start("launch", "-c", "c", *place.options, "--", "sleep", "600")
    launch.until("job 1")
    logs = sky.start("logs", "c", "1")
    eventually(lambda: "RUNNING" in sky("queue", "c").out)
    sky("cancel", "c", "1", "-y")
    assert launch.end(15).code == 123
    assert logs.end(15).code == 123
    sky("logs", "c", "1", "--status", code=123)


def test_a_detached_job_is_0_whatever_comes_of_it(place: Place) -> None:
    sky = place.sky
    sky("launch", "-c", "c", *place.options, "-d", "--", "false")
    sky("exec", "c", "-d", "--", "false")
    sky("logs", "c", "2", code=1)


# --- Sky's own ----------------------------------------------------------------------------------------


def test_the_codes_are_in_the_help(sky: Sky) -> None:
    told = sky("--help").out
    for code in (2, 120, 121, 122, 123, 124, 125):
        assert f"\n{code:>5}  " in told


def test_nothing_feasible_is_120_with_the_reason_and_what_would_do(sky: Sky) -> None:
    for more in ((), ("--dryrun",)):
        done = sky("launch", "-c", "c", *LOCAL, *more, "--cpus", "900", "--", "true", code=120)
        expect_two_lines(done, "900 were asked for", "would do: cpus: ")
    assert sky("status").out == "", "nothing was begun"


def test_nothing_feasible_on_kubernetes_is_120_with_the_node_and_what_would_do(kube_sky: Sky) -> None:
    done = kube_sky("launch", "-c", "c", "--infra", "k8s", "-y", "--cpus", "900", "--", "true", code=120)
    expect_two_lines(done, "testbed", "cpus: ")
    done = kube_sky("launch", "--infra", "k8s", "-y", "--gpus", "H100:16", "--", "true", code=120)
    expect_two_lines(done, "H100:8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rum: echo\n", "run"),
        ("run: [a\n", "t.yaml"),
        ("resources: {cpus: many}\n", "cpus"),
        ("workdir: ./none\nrun: true\n", "./none"),
        ("file_mounts: {/x: ./none}\nrun: true\n", "./none"),
        ("envs: {A-B: 1}\nrun: true\n", "A-B"),
        ("resources: {infra: nebula}\nrun: true\n", "nebula"),
    ],
)
def test_a_wrong_task_file_is_2_and_says_where(sky: Sky, text: str, said: str) -> None:
    (sky.project / "t.yaml").write_text(text)
    done = sky("launch", "-c", "c", "-y", "t.yaml", code=None)
    assert done.code == 2, done
    expect_two_lines(done, said)


def test_a_missing_task_file_is_2(sky: Sky) -> None:
    expect_two_lines(sky("launch", "-y", "none.yaml", code=2), "none.yaml")


def test_an_unknown_cluster_is_2_with_the_nearest_name(sky: Sky) -> None:
    sky("launch", "-c", "training", *LOCAL, "--", "true")
    for argv in (
        ("exec", "trainign", "--", "true"),
        ("logs", "trainign"),
        ("queue", "trainign"),
        ("cancel", "trainign", "-y"),
        ("down", "trainign", "-y"),
        ("ssh", "trainign"),
        ("status", "trainign"),
    ):
        expect_two_lines(sky(*argv, code=2), "'trainign'", "did you mean 'training'?")


def test_an_unknown_job_is_named(sky: Sky) -> None:
    sky("launch", "-c", "c", *LOCAL, "--", "true")
    expect_two_lines(sky("logs", "c", "44", code=None), "44", "sky queue")
    expect_two_lines(sky("cancel", "c", "44", "-y", code=None), "44")


@pytest.mark.parametrize(
    "argv",
    [
        ("launch", "--bogus"),
        ("exec",),
        ("lanch", "t.yaml"),
        ("logs", "c", "--tail", "few"),
        ("launch", "--infra"),
        ("launch", "-y", "--env", "A-B=1", "--", "true"),
        ("launch", "-y", "--cpus", "x", "--", "true"),
        ("launch", "-y", "--down", "--", "true"),
        ("launch", "-c", "-x", "-y", "--", "true"),
        ("launch", "-c", "a\nb", "-y", "--", "true"),
        ("down",),
        ("rsync", "a", "b"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_2(sky: Sky, argv: tuple[str, ...]) -> None:
    expect_two_lines(sky(*argv, code=2), seconds=3)


def test_a_launch_that_must_ask_and_can_not_is_2(sky: Sky) -> None:
    done = sky("launch", "-c", "c", "--infra", "local", "--", "true", code=2)
    assert "add -y" in done.err and done.out == ""
    assert sky("status").out == ""


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}", {more}}}}}]
users: [{{name: u, user: {{{user}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


def kubeconfig(
    sky: Sky, server: str, user: str = "token: abc", more: str = "insecure-skip-tls-verify: true"
) -> dict[str, str]:
    path = sky.root / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=server, user=user, more=more))
    return {"KUBECONFIG": str(path)}


LAUNCH = ("launch", "-c", "c", "--infra", "k8s", "-y", "--", "true")


def test_a_dead_server_is_122(sky: Sky) -> None:
    done = sky(*LAUNCH, code=122, env=kubeconfig(sky, "https://127.0.0.1:1"))
    expect_two_lines(done, "127.0.0.1:1", seconds=3)


def test_a_server_that_never_answers_is_122_or_124_after_the_deadline(sky: Sky) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        done = sky(*LAUNCH, code=None, env=kubeconfig(sky, f"https://127.0.0.1:{port}"))
    assert done.code in (122, 124), done
    expect_two_lines(done, seconds=8)


def test_absent_credentials_are_121(sky: Sky) -> None:
    expect_two_lines(sky(*LAUNCH, code=121), "kubeconfig", seconds=3)


def test_refused_credentials_are_121(sky: Sky, kubernetes: Kubernetes) -> None:
    (authority,) = (
        line.strip() for line in kubernetes.kubeconfig.read_text().splitlines() if "server:" in line
    )
    path = authority.partition("certificate-authority:")[2].strip(" }],")
    wrong = kubeconfig(sky, "https://127.0.0.1:6443", "token: expired", f"certificate-authority: {path}")
    expect_two_lines(sky(*LAUNCH, code=121, env=wrong), "x", seconds=5)
    done = sky("check", "k8s", code=121, env=wrong)
    assert "not usable" in done.out


def test_a_cluster_whose_server_is_gone_is_122_for_every_command(
    kube_sky: Sky, small: tuple[str, ...]
) -> None:
    sky = kube_sky
    sky("launch", "-c", "c", *small, "--", "true")
    live = Path(sky.extra["KUBECONFIG"]).read_text()
    dead = sky.root / "dead"
    dead.write_text(live.replace("127.0.0.1:6443", "127.0.0.1:1"))
    env = {"KUBECONFIG": str(dead)}
    for argv in (
        ("exec", "c", "--", "true"),
        ("logs", "c"),
        ("queue", "c"),
        ("cancel", "c", "-y"),
        ("rsync", ".", "c:x"),
    ):
        expect_two_lines(sky(*argv, code=122, env=env), seconds=5)
    done = sky("down", "c", "-y", code=122, env=env)
    assert done.out == "" and "127.0.0.1:1" in done.err
    assert "c" in sky("status", env=env).out, "it may still cost money"
    done = sky("status", "--refresh", env=env, code=122)
    # What a `down` may have given back in part isn't taken for whole until its cloud says so.
    assert "can't be asked" in done.err and "giving it back was begun, and not finished" in done.out
    shown = sky("status", "--refresh", "-o", "json", env=env, code=122).json()
    assert list(shown["not_asked"]) == ["c"], "a program must see that this is old, too"
    assert "UP" in sky("status", "--refresh").out, "it is whole after all"
