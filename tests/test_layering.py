"""What may know of what: the rules that keep a cloud out of the core and plugins out of each other.

Run as a script it rewrites `hookspecs.golden`, after a change of the contract that is meant.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sky import hookspecs

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "src" / "sky"
GOLDEN = Path(__file__).with_name("hookspecs.golden")
PLUGINS = sorted(
    path for path in (ROOT / "plugins").glob("*/src/*") if path.is_dir() and path.name.startswith("sky_")
)

CLOUD_WORDS = re.compile(
    r"(?<![a-z])(kubernetes|k8s|kubectl|kubeconfig|aws|amazon|boto3?|botocore|ec2|eks|gcp|gcloud|gke|azure|slurm|srun"
    r"|sbatch|squeue|paramiko|fabric|namespace|pods?)(?![a-z])",
    re.IGNORECASE,
)
NAMED_IN_CORE = {
    # file: (words, why it may name them)
    "types.py": ({"kubernetes", "pod", "pods"}, "examples in docstrings of the contract"),
    "errors.py": ({"pod", "namespace"}, "examples in docstrings of the contract"),
    "hookspecs.py": ({"namespace"}, "examples in docstrings of the contract"),
    "registry/plugins.py": ({"k8s"}, "example of a short name, in a docstring"),
    "registry/index.py": ({"namespace"}, "stevedore's own word for a group of entry points"),
    "task/fields.py": ({"pod"}, "a field of SkyPilot's that is refused by name"),
    "task/scalars.py": ({"kubernetes"}, "example of a name with slashes, in a docstring"),
}
LOCAL = CORE / "local"
"""The embedded cloud: a plugin that comes with the core, held to the rules of plugins."""

MAX_LINES = 250
LONGER = {
    # file: (limit, why it isn't cut)
    "core/src/sky/types.py": (450, "the contract is read from top to bottom"),
    "core/src/sky/hookspecs.py": (320, "the contract is read from top to bottom"),
    "core/src/sky/testing/lifecycle.py": (
        345,
        "the promises of one group of hooks, in the order of the contract",
    ),
    "core/src/sky/testing/rsync.py": (280, "the promises of one hook"),
    "core/src/sky/testing/run.py": (260, "the promises of one hook"),
    "plugins/kubernetes/src/sky_kubernetes/transport.py": (260, "one connection, from its name to its bytes"),
    "plugins/kubernetes/src/sky_kubernetes/api_client.py": (300, "one HTTP client"),
}
DOCUMENTED = (
    "client/clusters",
    "client/common",
    "client/jobs",
    "client/launching",
    "api",
    "types",
    "errors",
    "hookspecs",
    "cancellation",
    "cache",
)


def sources(root: Path, *suffixes: str) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.suffix in (suffixes or (".py",)) and path.is_file():
            yield path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, wherever in the file; `from a import b` may mean the module a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def below(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def test_the_core_names_no_cloud() -> None:
    wrong = []
    for path in sources(CORE, ".py", ".sh"):
        if path.is_relative_to(LOCAL):
            continue
        name = str(path.relative_to(CORE))
        allowed, _ = NAMED_IN_CORE.get(name, (set(), ""))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word in CLOUD_WORDS.findall(line):
                if word.lower() not in allowed:
                    wrong.append(f"{name}:{number}: {word}: {line.strip()}")
    assert not wrong, "the core knows a cloud by name:\n" + "\n".join(wrong)


def test_the_list_of_words_in_the_core_has_nothing_that_is_gone() -> None:
    for name, (words, _) in NAMED_IN_CORE.items():
        found = {word.lower() for word in CLOUD_WORDS.findall((CORE / name).read_text())}
        assert words <= found, f"{name} no longer says {words - found}: take it off the list"


def test_the_core_imports_no_plugin() -> None:
    names = [path.name for path in PLUGINS]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources(CORE)
        for line, module in imports(path)
        if below(module, *names) or module.startswith("sky_")
    ]
    assert PLUGINS and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", [*PLUGINS, LOCAL], ids=lambda path: path.name)
def test_a_plugin_imports_of_sky_only_its_api(package: Path) -> None:
    own = "sky.local" if package == LOCAL else package.name
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources(package)
        for line, module in imports(path)
        if (below(module, "sky") or module.startswith("sky_")) and not below(module, "sky.api", own)
    ]
    assert not wrong, "a plugin may import sky.api and itself:\n" + "\n".join(wrong)


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_tests_of_a_plugin_import_of_sky_only_its_api_and_the_kit(package: Path) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources(package.parents[1] / "tests")
        for line, module in imports(path)
        if (below(module, "sky") or module.startswith("sky_"))
        and not below(module, "sky.api", "sky.testing", package.name)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_library_does_not_import_the_command_line() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources(CORE)
        if not path.is_relative_to(CORE / "cli")
        for line, module in imports(path)
        if below(module, "sky.cli", "click")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_everything_public_says_what_it_is(name: str) -> None:
    tree = ast.parse((CORE / f"{name}.py").read_text())
    assert ast.get_docstring(tree), f"{name}.py has no docstring"
    assert not list(undocumented(tree, f"sky.{name}"))


def undocumented(tree: ast.Module | ast.ClassDef, where: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name[0] != "_":
            if not ast.get_docstring(node):
                yield f"{where}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node, f"{where}.{node.name}")


def test_no_file_is_longer_than_it_may_be() -> None:
    files = [path for root in (CORE, *PLUGINS) for path in sources(root, ".py", ".sh")]
    wrong = []
    for path in files:
        name = str(path.relative_to(ROOT))
        limit, _ = LONGER.get(name, (MAX_LINES, ""))
        count = path.read_bytes().count(b"\n")
        if count > limit:
            wrong.append(f"{name}: {count} lines, at most {limit}")
        elif name in LONGER and count <= MAX_LINES:
            wrong.append(f"{name}: {count} lines now: take it off the list")
    assert not wrong, "\n".join(wrong)


# --- the contract ------------------------------------------------------------------------------------


def hooks() -> dict[str, object]:
    return {name: hook for name, hook in vars(hookspecs).items() if name.startswith("sky_")}


@pytest.mark.parametrize("name", hooks())
def test_the_kit_has_a_test_of_the_hook(name: str) -> None:
    kit = "".join(path.read_text() for path in sources(CORE / "testing"))
    assert re.search(rf"\b{name}\b", kit), f"sky.testing says nothing of {name}"


def signatures() -> str:
    major, minor = hookspecs.API_VERSION
    lines = [f"API {major}.{minor}"]
    for name, hook in hooks().items():
        options = getattr(hook, "sky_spec")  # noqa: B009 - set by pluggy
        kind = "first result" if options["firstresult"] else "all results"
        assert callable(hook)
        lines.append(f"{name}{inspect.signature(hook)}  [{kind}]")
    return "\n".join(lines) + "\n"


def test_the_contract_is_what_was_published() -> None:
    assert signatures() == GOLDEN.read_text(), (
        "a hook has changed: raise API_VERSION as hookspecs.py says, then run "
        f"`{Path(sys.executable).name} {Path(__file__).name}` to publish it"
    )


if __name__ == "__main__":
    GOLDEN.write_text(signatures())
