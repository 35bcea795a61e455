"""``planrunner completion``."""

from __future__ import annotations

import click

from planrunner.cli.complete import SCRIPTS


@click.command("completion")
@click.argument("shell", type=click.Choice(sorted(SCRIPTS)))
def command(shell: str) -> int:
    """Print a completion script for a shell.

    \b
    Examples:
      eval "$(planrunner completion bash)"
      planrunner completion zsh > ~/.zfunc/_planrunner
      planrunner completion fish > ~/.config/fish/completions/planrunner.fish
    """
    click.echo(SCRIPTS[shell], nl=False)
    return 0
