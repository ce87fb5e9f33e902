"""The progress of a long benchmark: a bar on a terminal, lines elsewhere."""

from smoothcert.cli.bar import bar
from smoothcert.cli.screen import err as console

__all__ = ["bar", "console"]
