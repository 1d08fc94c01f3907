"""outcome:
kind = "command"
name = "greet"
state = "ready"
problem = ""
remedy = ""
"""

import click


@click.command()
@click.argument("whom")
def Plugin(whom):
    """Say hello."""
    click.echo(f"hello {whom}")
