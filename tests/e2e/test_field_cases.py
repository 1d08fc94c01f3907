"""What people have run into with tools of this kind, through the whole of ours: launch to log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import places
import pytest
from places import EVERYWHERE
from sky_command import SMALL, Kubernetes, Sky, eventually


@pytest.fixture(scope="module", params=EVERYWHERE)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sky]:
    """A cluster `c`, over each transport."""
    with places.place(request.param, tmp_path_factory.mktemp("field"), request) as place:
        place.sky("launch", "-c", "c", *place.options)
        yield place.sky


# --- arguments and scripts arrive as they were typed ---------------------------------------------------


def test_arguments_arrive_unchanged(up: Sky) -> None:
    odd = [
        "a  b",
        "$X",
        "`id`",
        "it's",
        'q"q',
        "*",
        "",
        "\\n",
        "é漢🙂",
        "-n",
        "a\nb",
        "!x",
        "#no",
        "{a,b}",
        "~",
    ]
    done = up("exec", "c", "--", "printf", "[%s]\\n", *odd)
    assert done.out == "".join(f"[{word}]\n" for word in odd)
    done = up("exec", "c", "--", "sh", "-c", 'printf "%s|" "$0" "$@" "$#"', *odd)
    assert done.out == "|".join([*odd, str(len(odd) - 1)]) + "|"


def test_one_argument_is_a_line_for_the_shell_there(up: Sky) -> None:
    assert up("exec", "c", 'X=there; echo "$X" | tr a-z A-Z', env={"X": "here"}).out == "THERE\n"


def test_heredocs_keep_dollars_backslashes_and_backticks(up: Sky) -> None:
    task = up.project / "heredoc.yaml"
    task.write_text(
        "run: |\n  X=set\n  cat <<'END'\n  $X `id` \\n \"q\"\n  END\n  cat <<END\n  $X \\$X \\`id\\` \\\\n\n  END\n"
    )
    assert up("exec", "c", "heredoc.yaml").out == '$X `id` \\n "q"\nset $X `id` \\n\n'


def test_bytes_that_are_no_text_arrive_as_they_are(up: Sky) -> None:
    assert up("exec", "c", r"printf '\324\377\r\n\033[0m'").raw == b"\xd4\xff\r\n\x1b[0m"


# --- task files as people's editors and YAML make them ------------------------------------------------


def test_a_task_file_with_crlf_and_a_byte_order_mark_runs_as_with_lf(up: Sky) -> None:
    text = "\ufeffworkdir: ./crlf\nsetup: |\n  echo setup\n"
    text += "run: |\n  if true; then\n    echo run\n  fi\n  od -An -c file.txt\n"
    (up.project / "crlf.yaml").write_bytes(text.replace("\n", "\r\n").encode())
    (up.project / "crlf").mkdir(exist_ok=True)
    (up.project / "crlf" / "file.txt").write_bytes(b"a\r\n")
    done = up("launch", "-c", "c", "-y", "crlf.yaml")
    assert [line.split() for line in done.out.splitlines()] == [["setup"], ["run"], ["a", "\\r", "\\n"]], done


@pytest.mark.parametrize(
    "resources",
    ["", "  # only a comment", "{zone: ''}", "{cpus: 1, zone: }", "{accelerators: }"],
)
def test_empty_sections_are_as_if_absent(sky: Sky, resources: str) -> None:
    text = f"envs:\nsecrets:\nfile_mounts:\nsetup:\nresources: {resources if resources[:1] == '{' else ''}\n"
    (sky.project / "t.yaml").write_text(text + ("  # c\n" if "#" in resources else "") + "run: echo ran\n")
    assert sky("launch", "-c", "c", "-y", "--infra", "local", "t.yaml").out == "ran\n"


@pytest.mark.parametrize("kinds", ["{T4: 1}", "[T4:1, L4:1]", "[{T4: 1}]", "T4", '"T4:1.0"'])
def test_accelerators_are_read_in_every_form(sky: Sky, kinds: str) -> None:
    (sky.project / "t.yaml").write_text(f"resources: {{infra: local, accelerators: {kinds}}}\nrun: true\n")
    done = sky("launch", "-y", "t.yaml", code=120)
    assert "T4:1" in done.err and "1.0" not in done.err


def test_scalars_reach_the_job_as_they_were_typed(up: Sky) -> None:
    values = {
        "A": "yes",
        "B": "010",
        "C": "1e3",
        "D": "12:30",
        "E": '"True"',
        "G": "1.10",
        "H": "0x1F",
        "I": "~x",
        "J": "2024-01-01",
    }
    lines = "".join(f"  {name}: {value}\n" for name, value in values.items())
    (up.project / "scalars.yaml").write_text(
        f"envs:\n{lines}run: |\n  echo {' '.join(f'${name}' for name in values)}\n"
    )
    assert up("exec", "c", "scalars.yaml").out.split() == [value.strip('"') for value in values.values()]


def test_a_null_variable_and_a_repeated_key_are_refused_with_their_line(sky: Sky) -> None:
    for text, name in (("run: echo\nenvs:\n  F: null\n", "F"), ("run: echo\nenvs:\n  K: 1\n  K: 2\n", "K")):
        (sky.project / "t.yaml").write_text(text)
        done = sky("launch", "-y", "--infra", "local", "t.yaml", code=2)
        assert name in done.err and "t.yaml:" in done.err, done


# --- logs ---------------------------------------------------------------------------------------------


def test_a_jobs_log_is_where_the_plugins_page_says(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "plugins/kubernetes/README.md").read_text()
    assert "**Logs.**" in page and "`/var/sky/j`" in page and "/proc/1/fd/1" in page
    kube_sky("launch", "-c", "c", *small, "echo in the log; echo for collectors 2>&1 | tee /proc/1/fd/1")
    (pod,) = kubernetes.pod_names(kube_sky.user)
    log = kubernetes.kubectl("exec", pod, "--", "sh", "-c", "cat /var/sky/j/*/log")
    assert log == "in the log\nfor collectors\n"
    assert kubernetes.kubectl("logs", pod) == "for collectors\n"


# --- what goes wrong on Kubernetes --------------------------------------------------------------------


def test_an_image_typo_fails_the_launch_with_the_image_and_gives_back(
    kube_sky: Sky, kubernetes: Kubernetes
) -> None:
    typo = ("--image-id", "docker:127.0.0.1:1/debain:typo")
    done = kube_sky("launch", "-c", "c", *SMALL[:-2], *typo, "--", "true", code=None, timeout=70)
    assert done.code not in (0, 2) and done.seconds < 60, done
    assert "127.0.0.1:1/debain:typo" in done.err and "ErrImagePull" in done.err.replace(
        "ImagePullBackOff", "ErrImagePull"
    )
    eventually(lambda: not kubernetes.pods_of(kube_sky.user))
    assert "c" not in kube_sky("status").out


def test_a_job_that_takes_too_much_memory_is_said_to_by_launch_and_status(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    hog = "data = bytearray(600 * 2**20)\nfor i in range(0, len(data), 4096): data[i] = 1\nprint('sur' + 'vived')"
    done = kube_sky("launch", "-c", "c", *small, "--", "python3", "-c", hog, code=None)
    assert "survived" not in done.out
    status = kube_sky("status", "--refresh", "c", "-o", "json").json()["clusters"][0]
    # Kubernetes decides: it kills the process alone (the job ends with 137) or the pod with it.
    if done.code == 137:
        assert status["status"] == "UP" and "took more memory than this node has" in done.out
    else:
        assert done.code == 122 and "OOMKilled" in done.err, done
        assert status["status"] == "FAILED" and "OOMKilled" in status["reason"]
    kube_sky("down", "c", "-y")


def test_a_pod_deleted_while_its_log_is_followed_ends_the_command(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    kube_sky("launch", "-c", "c", *small, "-d", "echo begun; sleep 600")
    logs = kube_sky.start("logs", "c")
    logs.until("begun")
    (pod,) = kubernetes.pod_names(kube_sky.user)
    kubernetes.kubectl("delete", "pod", pod, "--wait=false")
    done = logs.end(20)
    assert done.code == 122 and pod in done.err, done
    assert "Traceback" not in done.err
    expect_ended(kube_sky)


def test_a_pod_deleted_during_an_upload_ends_the_command(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    kube_sky("launch", "-c", "c", *small)
    with (kube_sky.project / "big").open("wb") as file:
        os.truncate(file.fileno(), 8 * 2**30)
    upload = kube_sky.start("rsync", "./big", "c:big")
    (pod,) = kubernetes.pod_names(kube_sky.user)
    look = "ls -A /root | grep -c '^[.]big' || :"
    eventually(lambda: kubernetes.kubectl("exec", pod, "--", "sh", "-c", look).strip() == "1")
    kubernetes.kubectl("delete", "pod", pod, "--wait=false")
    done = upload.end(20)
    assert done.code == 122 and pod in done.err and done.out == "", done
    expect_ended(kube_sky)


def expect_ended(sky: Sky) -> None:
    shown = sky("status", "--refresh", "c", "-o", "json").json()["clusters"][0]
    assert shown["status"] == "ENDED" and shown["reason"], shown
    assert shown["reason"] in sky("status").out
    assert sky("exec", "c", "--", "true", code=122).seconds < 5
    assert sky("down", "c", "-y").out == "c: gone\n"


# --- names --------------------------------------------------------------------------------------------


def test_long_and_odd_names_have_pods_of_their_own_and_are_shown_as_typed(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    start = "Ünïcode name with spaces + and (signs) " + "x" * 25
    names = [f"{start[:60]}{tail}{'y' * 19}" for tail in "AB"]
    assert all(len(name) == 80 for name in names)
    env = {"SKY_USER": "A.B_c"}
    for number, name in enumerate(names):
        kube_sky("launch", "-c", name, *small, "--", "sh", "-c", f"echo {number} > ~/mine", env=env)
    pods = kubernetes.pods_of("A.B_c")
    assert len(pods) == 2
    assert {pod["metadata"]["labels"]["sky.dev/user"] for pod in pods} == {"A.B_c"}
    assert [c["name"] for c in kube_sky("status", "-o", "json", env=env).json()["clusters"]] == names[::-1]
    for number, name in enumerate(names):
        assert kube_sky("exec", name, "--", "cat", "../mine", env=env).out == f"{number}\n"
    kube_sky.state.joinpath("sky.db").unlink()
    kube_sky("status", "--rebuild", env=env)
    assert {c["name"] for c in kube_sky("status", "-o", "json", env=env).json()["clusters"]} == set(names)
    kube_sky("down", *names, "-y", env=env)
    assert not kubernetes.pods_of("A.B_c")


# --- contexts -----------------------------------------------------------------------------------------


def two_contexts(kubernetes: Kubernetes, path: Path, server: str, namespace: str) -> None:
    """A current context that is dead, and `live`, with a namespace of its own."""
    live = kubernetes.kubeconfig.read_text()
    path.write_text(
        live.replace("https://127.0.0.1:6443", server)
        .replace("namespace: default", f"namespace: {namespace}")
        .replace("clusters: [", 'clusters: [{name: dead, cluster: {server: "https://127.0.0.1:1"}}, ')
        .replace("contexts: [", "contexts: [{name: dead, context: {cluster: dead, user: admin}}, ")
        .replace("current-context: testbed", "current-context: dead")
    )


def test_a_dead_current_context_does_not_keep_an_allowed_one_away(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    path = kube_sky.root / "two"
    two_contexts(kubernetes, path, "https://127.0.0.1:6443", kubernetes.namespace)
    kube_sky.configure("kubernetes: {allowed_contexts: [dead, testbed]}\n")
    env = {"KUBECONFIG": str(path)}
    done = kube_sky("launch", "-c", "c", *small, "--", "echo", "here", env=env)
    assert done.out == "here\n" and done.seconds < 10
    assert len(kubernetes.pods_of(kube_sky.user)) == 1, "not in the context's namespace"
    assert kube_sky("status", "--rebuild", env=env).seconds < 10
    assert kube_sky("down", "c", "-y", env=env).seconds < 10


def test_a_context_whose_server_moved_is_reached_at_its_new_address(
    kube_sky: Sky, kubernetes: Kubernetes, small: tuple[str, ...]
) -> None:
    path = kube_sky.root / "two"
    env = {"KUBECONFIG": str(path)}
    two_contexts(kubernetes, path, "https://127.0.0.1:6443", kubernetes.namespace)
    kube_sky.configure("kubernetes: {allowed_contexts: [testbed]}\n")
    kube_sky("launch", "-c", "c", *small, env=env)
    two_contexts(kubernetes, path, "https://localhost:6443", kubernetes.namespace)
    assert kube_sky("exec", "c", "--", "echo", "moved", env=env).out == "moved\n"
    two_contexts(kubernetes, path, "https://127.0.0.1:2", kubernetes.namespace)
    done = kube_sky("exec", "c", "--", "true", env=env, code=122)
    assert "127.0.0.1:2" in done.err and done.seconds < 5
    two_contexts(kubernetes, path, "https://127.0.0.1:6443", kubernetes.namespace)
    kube_sky("down", "c", "-y", env=env)
