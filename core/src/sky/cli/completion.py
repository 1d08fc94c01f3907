"""`sky completion`: what makes a shell complete commands, options and cluster names."""

from __future__ import annotations

import click

from sky.cli import output


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print completion for a shell.

    \b
    bash:  eval "$(sky completion bash)"   in ~/.bashrc
    zsh:   eval "$(sky completion zsh)"    in ~/.zshrc
    fish:  sky completion fish | source    in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from sky.cli.main import cli

    chosen = get_completion_class(shell)
    if chosen is None:
        raise click.UsageError(f"no completion for {shell}")
    output.line(chosen(cli, {}, "sky", "_SKY_COMPLETE").source())
