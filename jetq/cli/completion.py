"""Print the shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from jetq.errors import UsageError


@click.command(
    epilog="""\b
Examples (the folder must be there: mkdir -p):
  jetq completion bash > ~/.local/share/bash-completion/completions/jetq
  jetq completion zsh > "${fpath[1]}/_jetq"
  jetq completion fish > ~/.config/fish/completions/jetq.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, flags and the names of nodes, tasks and newest jobs in SHELL."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"click has no completion for {shell}")
    print(kind(ctx.find_root().command, {}, "jetq", "_JETQ_COMPLETE").source())
