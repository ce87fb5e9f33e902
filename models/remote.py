"""Members that run at endpoints: the file of such a member says where (`smoothcert.engine.remote`)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from models.description import MemberFile
from models.errors import FileError
from smoothcert.engine.remote.endpoint import Endpoint, RemotePolicy
from smoothcert.engine.remote.member import Remote

REMOTE = "remote"
"""The architecture of a member that runs elsewhere."""
SUFFIX = ".json"


def take_in(endpoint: Endpoint, folder: Path) -> MemberFile:
    """Write the file of an endpoint into the folder of a new ensemble."""
    address = endpoint.address
    target = folder / f"{address.model}{'' if address.version is None else f'-{address.version}'}{SUFFIX}"
    if target.exists():
        raise FileError(f"there is a second file of the name {target.name}")
    data = endpoint.model_dump_json(indent=2).encode()
    target.write_bytes(data)
    return MemberFile(target.name, hashlib.sha256(data).hexdigest(), len(data), architecture=REMOTE)


def connect(data: bytes, *, classes: int, policy: RemotePolicy) -> Remote:
    """The network of such a file; RemoteError if the operator does not allow its host."""
    return Remote(Endpoint.read(data), classes=classes, policy=policy)
