"""The training card of an ensemble: what its `ensemble.toml` says about how the members were made."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.certificate import EnsembleRecord
from smoothcert.errors import SmoothcertError

SHORT = 12
"""The characters of a digest that tell members apart for people."""


@dataclass(frozen=True)
class Card:
    """The facts about an ensemble, and a row for each member."""

    facts: Sequence[tuple[str, str]]
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    classes: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path, ensemble: EnsembleRecord | None) -> Card:
        """The card in this file; SmoothcertError where it cannot be read, or is of another ensemble."""
        try:
            stated = tomllib.loads(path.read_text(encoding="utf-8"))
            members = [dict(member) for member in stated.get("members", ())]
        except OSError as error:
            raise SmoothcertError(f"--card {path} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise SmoothcertError(f"--card {path} is not an ensemble.toml: {error}") from error
        digests = [str(member.get("sha256", "")) for member in members]
        if ensemble and "denoiser" not in stated and not set(ensemble.members) <= set(digests):
            named, made = (", ".join(each[:SHORT] for each in found) for found in (digests, ensemble.members))
            raise SmoothcertError(
                f"--card {path} is of another ensemble: its members are {named or 'none'}, and the certificates are of "
                f"{ensemble.name} with the members {made}"
            )
        return cls.of(stated, members)

    @classmethod
    def of(cls, stated: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> Card:
        facts = [(name, _text(value)) for name, value in stated.items() if name != "members"]
        trainings = [_training(member) for member in members]
        known = list(dict.fromkeys(name for training in trainings for name in training))
        rows = [
            (str(member.get("sha256", ""))[:SHORT], *(training.get(name, "") for name in known))
            for member, training in zip(members, trainings, strict=True)
        ]
        return cls(facts, ("member", *known), rows, [*map(str, stated.get("classes", ()))])


def _training(member: Mapping[str, Any]) -> dict[str, str]:
    found = member.get("training", {})
    return {name: _text(value) for name, value in found.items()} if isinstance(found, Mapping) else {}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return str(value)
