"""One task, every transport: what its blocks find is the same, but for names and addresses of the place.

Profiles, variables and who wins, directories, umask, stdin, devices.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import places
import pytest
from places import EVERYWHERE, Place

TASK = """\
num_nodes: 2
workdir: ./work
envs: {A: task, B: task, C: task, OF_PROFILE_AND_TASK: task, ODD: "it's $HOME \\"`x`\\" \\\\n"}
secrets: {S: task, T: task, U: task}
setup: |
  SEES=setup
  . ./look.sh
run: |
  SEES=run
  . ./look.sh
"""
LOOK = r"""
say() { printf '%s=%s\n' "$SEES.$1" "$2"; }
for name in A B C D S T U ODD OF_PROFILE OF_PROFILE_AND_TASK; do
  eval "say $name \"\${$name-unset}\""
done
say cuda "${CUDA_VISIBLE_DEVICES-unset}"
say names "$(env | sed -n 's/^\(SKYPILOT_[A-Z_]*\)=.*/\1/p' | sort | tr '\n' ' ')"
say rank "$SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES, $SKYPILOT_NUM_GPUS_PER_NODE GPUs"
say ips "$(echo "$SKYPILOT_NODE_IPS" | grep -c .) different: $(echo "$SKYPILOT_NODE_IPS" | sort -u | grep -c .)"
say task_id "$SKYPILOT_TASK_ID"
say info "$SKYPILOT_CLUSTER_INFO"
say umask "$(umask)"
say pwd "${PWD#"$HOME"}"
say home "$([ -d "$HOME" ] && [ -w "$HOME" ] && echo writable)"
say stdin "$(wc -c | tr -d ' ')"
say tty "$([ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none)"
say bash "${BASH_VERSION:+yes}"
say login "$(shopt -q login_shell && echo yes)"
say interactive "$(case $- in *i*) echo yes;; *) echo no;; esac)"
say files "$(ls -A | sort | tr '\n' ' ')"
"""
PROFILE = "export OF_PROFILE=profile OF_PROFILE_AND_TASK=profile\n"
Seen = dict[str, str]


@dataclass
class Everywhere:
    """What the job saw on each kind of place, by rank; launched when first asked for."""

    request: pytest.FixtureRequest
    factory: pytest.TempPathFactory
    _seen: dict[str, list[Seen]] = field(default_factory=dict)

    def __getitem__(self, kind: str) -> list[Seen]:
        if kind not in self._seen:
            with places.place(kind, self.factory.mktemp(kind), self.request) as place:
                self._seen[kind] = run(place)
        return self._seen[kind]


@pytest.fixture(scope="module")
def everywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Everywhere:
    return Everywhere(request, tmp_path_factory)


def run(place: Place) -> list[Seen]:
    """Launch it, with something in every source of variables; each rank's lines."""
    sky = place.sky
    (sky.project / "work").mkdir()
    for name, text in {
        "work/look.sh": LOOK,
        "profile": PROFILE,
        "task.yaml": TASK,
        "env": "B=file\nC=file\n",
        "secrets": "T=file\nU=file\n",
    }.items():
        (sky.project / name).write_text(text)
    sky("launch", "-c", "same", *place.options, "--num-nodes", "2")
    sky("rsync", "profile", "same:.profile")
    given = (
        "--env-file",
        "env",
        "--env",
        "C=option",
        "--env",
        "D",
        "--secret-file",
        "secrets",
        "--secret",
        "U",
    )
    done = sky(
        "launch", "-c", "same", "-y", "task.yaml", *given, env={"D": "caller", "U": "caller", "A": "caller"}
    )
    return [
        dict(line.removeprefix(mark).split("=", 1) for line in done.out.splitlines() if line.startswith(mark))
        for mark in ("(rank 0) ", "(rank 1) ")
    ]


EXPECTED = {
    "A": "task",
    "B": "file",
    "C": "option",
    "D": "caller",
    "S": "task",
    "T": "file",
    "U": "caller",
    "ODD": 'it\'s $HOME "`x`" \\n',
    "OF_PROFILE": "profile",
    "OF_PROFILE_AND_TASK": "task",
    "cuda": "unset",
    "names": "SKYPILOT_CLUSTER_INFO SKYPILOT_NODE_IPS SKYPILOT_NODE_RANK SKYPILOT_NUM_GPUS_PER_NODE"
    " SKYPILOT_NUM_NODES SKYPILOT_TASK_ID ",
    "umask": "0022",
    "pwd": "/sky_workdir",
    "home": "writable",
    "stdin": "0",
    "tty": "none",
    "bash": "yes",
    "login": "yes",
    "interactive": "no",
    "files": "look.sh ",
}


@pytest.mark.parametrize("kind", EVERYWHERE)
@pytest.mark.parametrize("block", ["setup", "run"])
def test_each_block_finds_what_is_documented(everywhere: Everywhere, kind: str, block: str) -> None:
    for rank, seen in enumerate(everywhere[kind]):
        assert {name: seen.get(f"{block}.{name}") for name in EXPECTED} == EXPECTED
        assert seen[f"{block}.rank"] == f"{rank} of 2, 0 GPUs"
        info = json.loads(seen[f"{block}.info"])
        assert list(info) == ["cluster_name", "cloud", "region", "zone"]
        assert (info["cluster_name"], info["cloud"]) == ("same", kind)
        assert re.fullmatch(r"sky-\d{4}(-\d\d){5}_same_[a-z0-9]{8,40}", seen[f"{block}.task_id"])
        # On this machine all nodes are one.
        assert seen[f"{block}.ips"] == f"2 different: {1 if kind == 'local' else 2}"


def test_nothing_else_differs_between_transports(everywhere: Everywhere) -> None:
    def common(kind: str) -> list[Seen]:
        own = ("info", "task_id", "ips")
        return [
            {k: v for k, v in seen.items() if k.partition(".")[2] not in own} for seen in everywhere[kind]
        ]

    assert common("ssh") == common("local")
    assert common("kubernetes") == common("local")
    first, second = everywhere["ssh"]
    assert first["run.task_id"] == second["run.task_id"] == first["setup.task_id"]


def test_a_name_in_envs_and_in_secrets_is_refused_everywhere_alike(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with places.place("ssh", tmp_path, request) as place:
        done = place.sky("launch", *place.options, "--env", "X=1", "--secret", "X=2", "--", "true", code=2)
        assert "envs.X" in done.err and "is a secret too" in done.err


# --- devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ssh", "kubernetes"])
def test_what_is_granted_is_what_is_seen(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Where there are two: one of them for a job that asks for one, both for two, none for none."""
    with places.place(kind, tmp_path, request) as place:
        sky = place.sky
        if kind == "ssh":
            file = sky.state / "ssh_node_pools.yaml"
            pools = json.loads(file.read_text())
            pools["lab"]["accelerators"] = {"H100": 2}
            file.write_text(json.dumps(pools))
        look = 'echo "[${CUDA_VISIBLE_DEVICES-unset}] $SKYPILOT_NUM_GPUS_PER_NODE"'
        assert sky("launch", "-c", "c", *place.options, "--gpus", "H100:2", look).out == "[0,1] 2\n"
        assert sky("exec", "c", "--gpus", "H100:1", look).out == "[0] 1\n"
        assert sky("exec", "c", look).out == "[] 0\n"
