"""What holds for a plugin of any kind: how it is found, loaded and described."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sky.api import Diagnosis
from sky.hookspecs import API_VERSION
from sky.registry import index
from sky.registry.plugins import REQUIRED_HOOKS, SLOW_IMPORT_SECONDS, Plugin, Registry
from sky.testing.lab import MakeContext, context_maker

_PROBE = Path(__file__).with_name("probe.py")


class Kit:
    """Base of the kit's classes: attributes and fixtures, and the guard over the tests themselves."""

    __test__ = False

    kind: ClassVar[str]
    plugin: ClassVar[str] = ""
    """Name of the plugin's entry point: what users type."""
    config: ClassVar[Mapping[str, Any]] = {}
    """The plugin's section of the configuration, for the tests."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("sky.testing."):
            cls.__test__ = False
            return
        if "__test__" not in cls.__dict__:
            cls.__test__ = True
        refuse_overrides(cls)

    @pytest.fixture(scope="class")
    @classmethod
    def loaded(cls) -> Plugin:
        """The plugin, as the core loads it."""
        return Registry().get(cls.kind, cls.plugin)

    @pytest.fixture(scope="class")
    @classmethod
    def ctx_factory(cls, tmp_path_factory: pytest.TempPathFactory) -> MakeContext:
        """Makes the `ctx` of hooks; see `MakeContext`."""
        directory = tmp_path_factory.mktemp("plugin-directory")
        directory.chmod(0o700)
        return context_maker(cls.config, directory)

    @pytest.fixture(autouse=True)
    def nothing_is_printed(self, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
        """Of every test: "Nothing is printed: what people should see goes through `ctx.emit`."""
        yield
        assert tuple(capfd.readouterr()) == ("", ""), "a hook printed something"


def refuse_overrides(cls: type) -> None:
    """Raise `TypeError` if `cls` takes a test of the kit away without an xfail that says why."""
    for name, value in cls.__dict__.items():
        inherited = next((base for base in cls.__mro__[1:] if name in base.__dict__), None)
        if inherited is None or not (name.startswith("test_") or name == "nothing_is_printed"):
            continue
        marks = getattr(value, "pytestmark", [])
        if not any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks):
            raise TypeError(
                f"{cls.__qualname__}.{name} overrides a test of the kit ({inherited.__qualname__}); "
                "if the plugin can't pass it, mark the override pytest.mark.xfail(reason=...)"
            )


class PluginConformance(Kit):
    """Static: nothing of the place behind the plugin is touched."""

    sdk_modules: ClassVar[tuple[str, ...]] = ()
    """Modules that cost too much to be imported with the plugin: its SDK."""

    def test_the_entry_point_names_a_class_with_the_required_hooks(self, loaded: Plugin) -> None:
        """Loading also refuses misspelt hooks, wrong signatures and another API."""
        assert set(REQUIRED_HOOKS[self.kind]) <= loaded.hooks

    def test_the_declared_api_is_one_of_this_version(self, loaded: Plugin) -> None:
        assert loaded.api[0] == API_VERSION[0]
        assert loaded.api[1] <= API_VERSION[1]

    def test_importing_it_is_light(self) -> None:
        """The best of five: another process may have the processor meanwhile."""
        seconds = []
        for _ in range(5):
            seconds.append(probe(self.kind, self.plugin)["import_seconds"])
            if seconds[-1] < SLOW_IMPORT_SECONDS:
                return
        pytest.fail(
            f"importing {self.plugin} takes {min(seconds) * 1000:.0f} ms; import SDKs inside the hooks"
        )

    def test_importing_it_imports_no_sdk(self) -> None:
        brought = {name.partition(".")[0] for name in probe_once(self.kind, self.plugin)["imported"]}
        assert not brought & {name.partition(".")[0] for name in self.sdk_modules}

    def test_its_package_imports_nothing_of_sky_but_the_api(self) -> None:
        entry = entry_of(self.kind, self.plugin)
        module = entry.value.partition(":")[0]
        own = module.rpartition(".")[0] or module
        foreign = [
            f"{path.name}: {name}"
            for path in sources(module)
            for name in imported_names(path)
            if name.partition(".")[0] == "sky" and not _within(name, own) and not _within(name, "sky.api")
        ]
        assert not foreign, "everything else in sky may change at any time"

    def test_describing_it_does_no_io(self) -> None:
        assert probe_once(self.kind, self.plugin)["io"] == []

    def test_describing_it_twice_gives_the_same(self) -> None:
        seen = probe_once(self.kind, self.plugin)
        assert seen["same_twice"], "sky_cloud_info or sky_config_schema changes its answer"
        assert seen["described"] == probe(self.kind, self.plugin)["described"]

    def test_its_schema_is_a_json_schema_of_an_object(self, loaded: Plugin) -> None:
        if not loaded.has("sky_config_schema"):
            pytest.skip("not offered: it has no configuration")
        import jsonschema  # type: ignore[import-untyped]

        schema = loaded.hook.sky_config_schema()
        assert json.loads(json.dumps(schema)) == schema, "plain data only"
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema.get("type") == "object"
        assert isinstance(schema.get("properties"), dict)
        jsonschema.validate(json.loads(json.dumps(dict(self.config))), schema)

    def test_an_error_that_means_nothing_to_it_is_left_alone(
        self, loaded: Plugin, ctx_factory: MakeContext
    ) -> None:
        if not loaded.has("sky_classify_error"):
            pytest.skip("not offered: it explains no errors")
        said = loaded.hook.sky_classify_error(
            ctx=ctx_factory(), error=ZeroDivisionError("of another program")
        )
        assert said is None or isinstance(said, Diagnosis)


def entry_of(kind: str, name: str) -> index.Entry:
    """The installed entry point. Fails the test if there is none, or more than one."""
    found = [entry for entry in index.entries() if entry.kind == kind and entry.name == name]
    assert len(found) == 1, f"{len(found)} entry points {name!r} in {index.GROUPS[kind]} are installed"
    return found[0]


def probe(kind: str, name: str) -> dict[str, Any]:
    """Load and describe the plugin in a process of its own; see `probe.py`."""
    value = entry_of(kind, name).value
    command = [sys.executable, "-P", str(_PROBE), kind, value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@cache
def probe_once(kind: str, name: str) -> dict[str, Any]:
    return probe(kind, name)


def sources(module: str) -> list[Path]:
    """Every Python file of the package that holds `module`, or the module itself if it's in none."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    return sorted(path.parent.rglob("*.py")) if "." in module else [path]


def imported_names(path: Path) -> Iterator[str]:
    """Modules that a file imports anywhere, by absolute name; `from sky import api` is `sky.api`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [alias.name for alias in node.names]
            yield from (f"{node.module}.{name}" for name in names)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
