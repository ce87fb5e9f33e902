"""How the help of a command looks: paragraphs as wide as the screen, and flags without a type."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose help is shown as its docstring means it."""

    def get_params(self, ctx: Any) -> Any:
        return flags_without_type(super().get_params(ctx))


class Group(TyperGroup):
    """Commands, with the help of `Command` for their common options."""

    def get_params(self, ctx: Any) -> Any:
        return flags_without_type(super().get_params(ctx))


def add_command(cli: typer.Typer, function: Any, *, name: str | None = None) -> None:
    """Make a command of the function, whose docstring is its help."""
    cli.command(name, cls=Command, help=flowing(function.__doc__))(function)


def flowing(text: str) -> str:
    """The text with one line for each paragraph; otherwise typer breaks lines where a docstring does."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))


def flags_without_type(parameters: Any) -> Any:
    """The parameters, with nothing where typer shows `<bool>` beside a flag: a flag takes no value."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters
