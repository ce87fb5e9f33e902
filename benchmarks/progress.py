"""How a long benchmark gets on: a bar on a terminal, lines elsewhere."""

from smoothcert.cli.bar import bar
from smoothcert.cli.screen import err as console

__all__ = ["bar", "console"]
