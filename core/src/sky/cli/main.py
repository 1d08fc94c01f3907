"""`sky`: finds the command, runs it, turns every failure into two lines and an exit code.

Only the module of the command that runs is imported: `sky --help` knows names and one line of each.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sky.errors import SkyError
    from sky.registry.index import Entry

COMMANDS = {
    # name: (module, attribute, one line for --help)
    "launch": ("sky.cli.launch", "launch", "Get a place, sync files, run setup and the job."),
    "exec": ("sky.cli.launch", "exec_", "Run a job on a cluster that is up."),
    "status": ("sky.cli.show", "status", "List clusters."),
    "queue": ("sky.cli.show", "queue", "List the jobs of clusters."),
    "logs": ("sky.cli.logs", "logs", "Show the log of a job."),
    "cancel": ("sky.cli.logs", "cancel", "End jobs."),
    "down": ("sky.cli.manage", "down", "Give clusters back."),
    "check": ("sky.cli.manage", "check", "Say which clouds can be used, and what is missing."),
    "ssh": ("sky.cli.manage", "ssh", "Open a shell on a node."),
    "rsync": ("sky.cli.manage", "rsync", "Sync files to or from a cluster."),
    "plugins": ("sky.cli.plugins", "plugins", "List, show, enable and disable plugins."),
    "completion": ("sky.cli.completion", "completion", "Print completion for bash, zsh or fish."),
}

EXIT_CODES = """\
\b
Exit codes:
  launch, exec and logs exit with the job's own code, 0 to 255 (128 + N for signal N). Otherwise:
    2  usage: an option, a file or a name is wrong
  120  nothing can run the task
  121  credentials are missing, expired or not allowed to
  122  unreachable, or the connection was lost: what became of the job is unknown
  123  cancelled by the user, or the job was cancelled
  124  timed out
  125  anything else of Sky's own
  With -o json the field "error" tells a failure of Sky from the job's own code.

\b
Environment: SKY_DEBUG=1 shows tracebacks, SKY_TRACE_HOOKS=1 every plugin call, SKY_PLUGINS=a,b
  loads only these, NO_COLOR=1 no colours, SKY_HOME is where state is kept (~/.sky).
"""


class LazyGroup(click.Group):
    """Knows its commands by name; imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_plugin_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        import importlib

        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        entry = _plugin_commands().get(cmd_name)
        if entry is not None:
            from sky.cli import commands

            return commands.load(entry)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No command {args[0]!r}.{hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, line) for name, (_, _, line) in COMMANDS.items()]
        rows += [(name, f"(from {entry.dist})") for name, entry in _plugin_commands().items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n" + EXIT_CODES.replace("\b\n", ""))


def _plugin_commands() -> dict[str, Entry]:
    """Commands that plugins add; none of them can take the name of one of ours."""
    from sky.registry import index, settings

    found: dict[str, Entry] = {}
    for entry in index.entries():
        if entry.kind == "command" and entry.name not in COMMANDS and settings.enabled(entry):
            found.setdefault(entry.name, entry)
    return found


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from sky import __version__

        click.echo(f"sky {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version)
@click.option("--no-plugins", is_flag=True, help="Use nothing but what comes with the core.")
def cli(no_plugins: bool) -> None:
    """Launch a task on the cheapest place that can run it."""
    if no_plugins:
        os.environ["SKY_PLUGINS"] = ""


def entry() -> None:
    """What the installed `sky` calls."""
    from sky.cli import output
    from sky.errors import SkyError

    output.own_outputs()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL) if _reader_may_leave() else None
    code = run(sys.argv[1:])
    # Late daemon threads are not waited for, and nothing of ours runs at exit: files are closed by now. What
    # such a thread has started is ended.
    if "sky.process" in sys.modules:
        sys.modules["sky.process"].end_all()
    try:
        sys.stdout.flush()
        output.flush()
    except SkyError as error:
        code = code or _failed(error)
    except OSError:
        code = code or 128 + signal.SIGPIPE
    os._exit(code)


def _reader_may_leave() -> bool:
    """`sky status | head` should end quietly; a launch must not die of it in the middle of a creation."""
    return len(sys.argv) > 1 and sys.argv[1] in (
        "status",
        "queue",
        "check",
        "plugins",
        "completion",
        "--help",
    )


def run(argv: list[str]) -> int:
    """Run one command line; its exit code. Prints failures itself."""
    from sky.errors import SkyError

    try:
        result = cli.main(argv, prog_name="sky", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SkyError as error:
        return _failed(error)
    except click.exceptions.Abort:
        from sky.errors import Cancelled

        return _failed(Cancelled("cancelled"))
    except click.ClickException as error:
        return _refused(error, argv)
    except KeyboardInterrupt:
        sys.stderr.write("sky: interrupted\n")
        return 123
    except (BrokenPipeError, SystemExit) as error:
        # Who read our output has left: click turns that into an exit of its own. Nothing is left to say.
        # It ends a completion that way, too: with 0. Otherwise as a shell would say it.
        return 0 if isinstance(error, SystemExit) and error.code == 0 else 128 + signal.SIGPIPE
    except Exception as error:  # the last resort: no traceback reaches a user
        failure = _disk_failure(error)
        if failure is not None:
            return _failed(failure)
        if os.environ.get("SKY_DEBUG"):
            raise
        sys.stderr.write(
            f"sky: defect: {type(error).__name__}: {error}\nsee the traceback with SKY_DEBUG=1\n"
        )
        return 125


def _disk_failure(error: Exception) -> SkyError | None:
    """A full or read-only disk below `SKY_HOME` is no defect of ours, nor is a current directory that is gone."""
    import errno

    from sky import paths
    from sky.errors import SkyError, UsageError

    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and error.filename is None:  # only getcwd(2) names no file
        return UsageError("the current directory is gone", remedy="change to one that exists")
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    if not full and not str(error.filename or "").startswith(str(paths.home())):
        return None
    if error.filename is None:
        return SkyError(
            f"can't write below {paths.home()}, where Sky keeps its state: {error.strerror}",
            remedy="make room there, or name another directory in SKY_HOME",
        )
    return SkyError(
        f"{error.filename or paths.home()}: {error.strerror}",
        remedy="Sky keeps its state there: mend that, or name another directory in SKY_HOME",
    )


def _refused(error: click.ClickException, argv: list[str]) -> int:
    """What click couldn't read, said as any other failure is."""
    import re

    from sky.cli import output
    from sky.errors import UsageError

    if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2
        error.show()
        return 2
    ours = argv[: argv.index("--")] if "--" in argv else argv
    if re.search(r" (-o ?|--output[ =])json( |$)", " ".join(["", *ours])):
        output.claim_stdout(True)
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "sky"
    return _failed(UsageError(error.format_message().rstrip("."), remedy=f"{path} --help"))


def _failed(error: SkyError) -> int:
    if os.environ.get("SKY_DEBUG"):
        import traceback

        traceback.print_exception(error)
    from sky.cli import output

    output.failure(error)
    return error.exit_code
