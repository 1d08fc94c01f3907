"""What each command imports, against what it may: an import that nobody meant is found here, by name.

Counted is what comes on top of `import click`, the floor that the budgets are measured by. Modules of ours
are listed in full, others by their top-level name (`importlib`, `urllib` and `concurrent` by module).
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).with_name("e2e")))

from e2e_fixtures import kubernetes, ssh_hosts  # noqa: F401 - fixtures
from sky_command import SMALL, Kubernetes, Sky, kubernetes_home
from ssh_home import Hosts, disconnect, ssh_home

PROBE = """
import os, sys
sys.path[0] = os.path.dirname(sys.executable)  # as it is for the installed command, whose index this uses
import click
floor = set(sys.modules)
from sky.cli.main import run
try:
    code = run(sys.argv[1:])
except SystemExit as ended:  # click's own completion
    code = ended.code
more = sorted(set(sys.modules) - floor)
from sky.cli import output
output.flush()
import json
fd = os.open(os.environ["SKY_TEST_IMPORTS"], os.O_CREAT | os.O_WRONLY)
os.write(fd, json.dumps(more).encode())
os._exit(code)
"""
IN_FULL = ("sky", "sky_kubernetes", "sky_ssh", "importlib", "urllib", "concurrent")

# What every command may import: finding the command, and a failure's two lines.
BASE = {"sky", "sky.cli", "sky.cli.main", "sky.cli.output", "sky.errors", "locale", "signal"}
# The index of plugins, read for the names of the commands that they add.
INDEX = {"sky.paths", "sky.registry", "sky.registry.index", "sky.registry.settings"} | {
    "copy",
    "dataclasses",
    "fnmatch",
    "hashlib",
    "json",
    "ntpath",
    "pathlib",
    "urllib",
    "urllib.parse",
    "ipaddress",
}
STATE = INDEX | {
    "sky.state",
    "sky.state.clusters",
    "sky.state.codec",
    "sky.state.db",
    "sky.types",
    "fcntl",
    "sqlite3",
}
LIBRARY = STATE | {"sky.cancellation", "sky.cli.options", "sky.client", "sky.client.common"}
SESSION = (
    LIBRARY
    | {"sky.cache", "sky.config", "sky.hookspecs", "sky.session", "pluggy", "gc"}
    | {"sky.registry.loading", "sky.registry.observers", "sky.registry.plugins", "sky.registry.streams"}
)
TASK = {
    "sky.task",
    "sky.task.build",
    "sky.task.environment",
    "sky.task.fields",
    "sky.task.model",
    "sky.task.overrides",
    "sky.task.problems",
    "sky.task.quantities",
    "sky.task.resources",
    "sky.task.scalars",
    "shlex",
}
JOB = {
    "sky.launcher",
    "sky.launcher.jobs",
    "sky.node",
    "sky.node.caller",
    "sky.node.engine",
    "sky.node.stream",
    "sky.client.launching",
    "sky.node.environment",
    "sky.node.protocol",
}
TOKEN = {"base64", "binascii", "bisect", "hmac", "random", "secrets", "struct"}
EXEC = BASE | SESSION | TASK | JOB | TOKEN | {"sky.cli.launch", "sky.api", "select"}
# A connection with TLS, and what websocket-client brings along.
CHANNEL = {
    "ssl",
    "socket",
    "http",
    "selectors",
    "array",
    "websocket",
    "logging",
    "string",
    "stringprep",
    "textwrap",
    "traceback",
} | {"unicodedata", "atexit"}
KUBERNETES = {
    f"sky_kubernetes{module}"
    for module in (
        "",
        *[
            ".plugin",
            ".runner",
            ".wrapper",
            ".stdin_pump",
            ".exec_channel",
            ".masking",
            ".upgrade",
            ".transport",
            ".connections",
            ".api_client",
            ".api_errors",
            ".auth",
            ".kubeconfig",
            ".kubeconfig_file",
        ],
    )
}
SSH = {
    f"sky_ssh{module}"
    for module in ("", ".plugin", ".runner", ".wrapper", ".address", ".options", ".connection", ".about")
} | {"sky.marks", "sky.process", "atexit", "pwd", "selectors", "subprocess"}
# click.shell_completion asks bash for its version.
CLICK_COMPLETION = {
    "click",
    "shlex",
    "subprocess",
    "selectors",
    "select",
    "bz2",
    "lzma",
    "shutil",
    "zlib",
    "fcntl",
}

MAY = {
    "help": BASE
    | INDEX
    | {"click", "textwrap", "bz2", "lzma", "shutil", "zlib"},  # click asks shutil how wide a terminal is
    "version": BASE,
    "completion": BASE | INDEX | CLICK_COMPLETION | {"sky.cli.completion"},
    "complete": BASE | LIBRARY | CLICK_COMPLETION | {"sky.cli.manage"},
    "status": BASE | LIBRARY | {"sky.cli.show", "sky.client.clusters"},
    "exec-local": EXEC
    | {"sky.local", "sky.local.plugin", "sky.local.processes", "sky.local.runner", "sky.process"}
    | {"atexit", "selectors", "subprocess"},
    "exec-kubernetes": EXEC | CHANNEL | KUBERNETES | {"sky.marks"},
    "exec-ssh": EXEC | SSH,
    # Before it connects, the files of keys are looked at.
    "exec-ssh-connecting": EXEC | SSH | {"sky_ssh.failures"},
}
NEVER = {
    # module: who must not be paid for by any of these
    "yaml": "task and configuration files alone need it",
    "stevedore": "the index is there to spare it",
    "importlib.metadata": "the index is there to spare it",
    "kubernetes": "the official client costs 0.7 s",
    "urllib3": "80 ms",
    "asyncio": "nothing here is asynchronous",
    "tarfile": "exec moves no files",
    "email": "http.client brings it",
    "concurrent.futures": "it joins its threads at exit",
}


def imported(sky: Sky, *argv: str, env: dict[str, str] | None = None, code: int = 0) -> set[str]:
    """The modules that a command imported on top of click."""
    report = sky.root / "imports.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *argv],
        env={**sky.environment(env), "SKY_TEST_IMPORTS": str(report)},
        cwd=sky.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return {name for module in json.loads(report.read_text()) if (name := listed(module))}


def listed(module: str) -> str:
    """How a module stands in the lists; empty for the C half of another one."""
    top = module.partition(".")[0]
    if top.startswith("_") or top in ("encodings", "org"):
        return ""
    return module if top in IN_FULL else top


def expect(found: set[str], which: str) -> None:
    forbidden = sorted(NEVER.keys() & (found | {name.partition(".")[0] for name in found}))
    assert not forbidden, "\n".join(f"{name} is imported: {NEVER[name]}" for name in forbidden)
    extra = sorted(found - MAY[which])
    assert not extra, textwrap.fill(
        f"{which!r} now imports {', '.join(extra)} as well. Import them where they are used; if they are "
        f"meant, add them to MAY[{which!r}], and mind the budget (make bench).",
        110,
    )


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Sky]:
    made = Sky(tmp_path, {"KUBECONFIG": str(tmp_path / "none")})
    made("--help")  # makes the index of plugins
    yield made
    made.clean()


def test_help_imports_no_command(sky: Sky) -> None:
    expect(imported(sky, "--help"), "help")


def test_version_imports_next_to_nothing(sky: Sky) -> None:
    expect(imported(sky, "--version"), "version")


def test_the_completion_script_is_printed_without_a_session(sky: Sky) -> None:
    expect(imported(sky, "completion", "bash"), "completion")


def test_completing_a_cluster_name_reads_the_state_alone(sky: Sky) -> None:
    clusters(sky, 3)
    typed = {"_SKY_COMPLETE": "bash_complete", "COMP_WORDS": "sky down c", "COMP_CWORD": "2"}
    done = sky(env=typed)
    assert done.out.split() == ["plain,c2", "plain,c1", "plain,c0"], done
    expect(imported(sky, env=typed), "complete")


def test_status_of_twenty_clusters_loads_no_plugin(sky: Sky) -> None:
    clusters(sky, 20)
    assert len(sky("status").out.splitlines()) == 21
    expect(imported(sky, "status"), "status")


def test_exec_on_this_machine_imports_only_what_runs_it(sky: Sky) -> None:
    sky("launch", "-c", "c", "--infra", "local", "-y", "--", "true")
    expect(imported(sky, "exec", "c", "--", "true"), "exec-local")


def test_exec_on_kubernetes_imports_only_what_runs_it(tmp_path: Path, kubernetes: Kubernetes) -> None:  # noqa: F811
    for sky in kubernetes_home(tmp_path, kubernetes):
        sky("launch", "-c", "c", *SMALL, "--", "true")
        expect(imported(sky, "exec", "c", "--", "true"), "exec-kubernetes")


def test_exec_over_ssh_imports_only_what_runs_it(tmp_path: Path, ssh_hosts: Hosts) -> None:  # noqa: F811
    for sky in ssh_home(tmp_path, ssh_hosts):
        sky("launch", "-c", "c", "--infra", "ssh/lab", "-y", "--", "true")
        expect(imported(sky, "exec", "c", "--", "true"), "exec-ssh")
        disconnect(Path(sky.extra["XDG_RUNTIME_DIR"]), by_force=False)
        expect(imported(sky, "exec", "c", "--", "true"), "exec-ssh-connecting")


def clusters(sky: Sky, count: int) -> None:
    """Rows of the state, as launches write them."""
    code = """
import sys
from sky.state.clusters import State
spec = {"num_nodes": 1, "offer": {"cloud": "local", "region": "r", "vcpus": 1.0, "memory_gib": 1.0}}
with State() as state:
    for number in range(int(sys.argv[1])):
        state.add(f"c{number}", f"id{number}", "local", spec, "", "launch")
"""
    subprocess.run([sys.executable, "-c", code, str(count)], env=sky.environment(), check=True)
