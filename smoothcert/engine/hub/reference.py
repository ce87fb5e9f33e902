"""Names of models on the hub: hf://ORGANISATION/NAME@REVISION, and timm/NAME@REVISION for timm's own organisation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from smoothcert.engine.errors import MemberError

SCHEME = "hf://"
TIMM = "timm/"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{40}", re.ASCII)


@dataclass(frozen=True)
class Reference:
    """A repository at one commit. A branch or a tag may move, and a certificate is about fixed weights."""

    repository: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse the name of a repository at a commit; MemberError for any other text."""
        repository, at, revision = text.removeprefix(SCHEME).partition("@")
        if not _REPOSITORY.fullmatch(repository) or "--" in repository or ".." in repository:
            raise MemberError(
                f"{text!r} does not name a model of the hub; it must be hf://ORGANISATION/NAME@REVISION or "
                f"timm/NAME@REVISION"
            )
        if not at:
            raise MemberError(
                f"{text!r} has no revision, so it could be another model tomorrow: add @ and the commit, 40 "
                f"hexadecimal digits, which the hub shows in the history of the files"
            )
        if not _REVISION.fullmatch(revision):
            raise MemberError(
                f"{text!r} has the revision {revision!r}, which may move; it must be a commit, 40 hexadecimal digits"
            )
        return cls(repository, revision)

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"

    @property
    def folder(self) -> str:
        """The snapshot's place in the hub's cache."""
        return f"models--{self.repository.replace('/', '--')}/snapshots/{self.revision}"

    @property
    def stem(self) -> str:
        """A name for a file of this model, without characters that are special in paths."""
        return f"{self.repository.replace('/', '--')}-{self.revision[:8]}"


def is_reference(text: str) -> bool:
    """Whether a text looks like the name of a model on the hub."""
    return text.startswith((SCHEME, TIMM))
