"""The kit itself: its tests can't be taken away, it finds what is broken, and authors get it in the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sky.testing
from sky.testing import CloudConformance, CloudLifecycle, RunnerConformance

CORE = Path(__file__).resolve().parents[2]


def test_a_test_of_the_kit_cannot_be_overridden_or_deleted() -> None:
    with pytest.raises(TypeError, match="test_it_says_what_it_is overrides a test of the kit"):

        class Overrides(CloudConformance):
            def test_it_says_what_it_is(self) -> None:  # type: ignore[override]
                """Passes, whatever the plugin says."""

    with pytest.raises(TypeError, match="test_no_stdin_is_an_empty_one"):

        class Deletes(RunnerConformance):
            test_no_stdin_is_an_empty_one = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="nothing_is_printed"):

        class Prints(CloudConformance):
            nothing_is_printed = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="reason"):

        class NoReason(CloudConformance):
            @pytest.mark.xfail
            def test_it_says_what_it_is(self) -> None:  # type: ignore[override]
                """An xfail must say why."""


def test_an_expected_failure_with_its_reason_is_accepted() -> None:
    class Admits(CloudConformance):
        __test__ = False

        @pytest.mark.xfail(reason="the provider has no name for itself")
        def test_it_says_what_it_is(self) -> None:  # type: ignore[override]
            """Left to fail."""

    assert issubclass(Admits, CloudConformance)


@pytest.mark.parametrize("base", [CloudConformance, CloudLifecycle, RunnerConformance])
def test_bases_are_not_collected_and_subclasses_are(base: type) -> None:
    assert base.__test__ is False  # type: ignore[attr-defined]
    made = type("Any", (base,), {"__module__": __name__, "plugin": "local"})
    assert made.__test__ is True  # type: ignore[attr-defined]


def test_every_module_with_assertions_shows_their_values() -> None:
    """What pytest isn't told of beforehand fails with a bare `AssertionError`."""
    modules = {path.stem for path in Path(sky.testing.__file__).parent.glob("*.py")}
    silent = [
        name
        for name in modules - {"__init__", "probe", "shell_probe"}
        if "@pytest_ar" not in vars(sys.modules[f"sky.testing.{name}"])
        and "    assert " in Path(sky.testing.__file__).with_name(f"{name}.py").read_text()
    ]
    assert not silent


BROKEN_RUNNER = """
import io, subprocess
from sky.api import Cancelled, Command, TransferResult, hookimpl, transfer_over
from sky.local.plugin import LocalRunner

class Runner(LocalRunner):
    api = (1, 0)

    @hookimpl
    def sky_run(self, ctx, host, command, stdin, stdout, stderr):
        {body}
"""
MUTANTS = {
    "quotes by a shell": (
        'command = Command(argv=("sh", "-c", " ".join(command.argv)), stdin_mode=command.stdin_mode)\n'
        "        return super().sky_run(ctx, host, command, stdin, stdout, stderr)",
        "no_shell_reads_them",
    ),
    "mixes the streams": (
        "return super().sky_run(ctx, host, command, stdin, stdout, stdout)",
        "every_byte_value",
    ),
    "decodes": (
        "out = io.BytesIO()\n"
        "        code = super().sky_run(ctx, host, command, stdin, out, stderr)\n"
        "        stdout.write(out.getvalue().decode('utf-8', 'replace').encode())\n"
        "        return code",
        "every_byte_value",
    ),
    "holds output back": (
        "out = io.BytesIO()\n"
        "        code = super().sky_run(ctx, host, command, stdin, out, stderr)\n"
        "        stdout.write(out.getvalue())\n"
        "        return code",
        "both_directions_move",
    ),
    "says success": (
        "super().sky_run(ctx, host, command, stdin, stdout, stderr)\n        return 0",
        "exit_code_is_the_programs_own",
    ),
    "prints": (
        "print('connected')\n        return super().sky_run(ctx, host, command, stdin, stdout, stderr)",
        "no_stdin_is_an_empty_one",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_runner_that_breaks_a_sentence_fails_its_test(mutant: str, tmp_path: Path) -> None:
    body, test = MUTANTS[mutant]
    site = tmp_path / "site"
    info = site / "broken_runner-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-runner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sky.runners]\nmutant = broken_runner:Runner\n")
    (site / "broken_runner.py").write_text(BROKEN_RUNNER.format(body=body))
    (tmp_path / "test_it.py").write_text(
        "from sky.testing import RunnerConformance\n"
        "class TestRunner(RunnerConformance):\n    plugin = 'mutant'\n    cloud = 'local'\n"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(site),
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-k", test, "--timeout", "60", str(tmp_path / "test_it.py")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert " failed" in done.stdout or " error" in done.stdout


def test_the_kit_is_in_the_wheel_and_can_be_imported_from_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=CORE, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    sources = {f"sky/testing/{path.name}" for path in (CORE / "src/sky/testing").glob("*.py")}
    assert sources <= set(zipfile.ZipFile(wheel).namelist())
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    script = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import sky.testing as kit; "
        f"assert kit.__file__.startswith({str(site)!r}), kit.__file__; print(*kit.__all__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == sky.testing.__all__, done.stderr
