"""The files of a model at one commit: in the hub's cache, in a folder that the user names, or fetched from the hub."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert.engine.errors import MemberError, reason
from smoothcert.engine.hub.reference import Reference
from smoothcert.extras import needed_by

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
WANTED = (CONFIG, PREPROCESSOR, WEIGHTS, INDEX, "model-*.safetensors")
"""The files that are fetched. Code and pickles are not among them."""
MOST_JSON = 8 * 2**20
"""The largest configuration that is read, in bytes: the names of 20,000 classes take one MB."""
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors", re.ASCII)
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")


@dataclass(frozen=True)
class ModelFolder:
    """A folder in the layout of the hub: config.json, model.safetensors, and perhaps preprocessor_config.json."""

    folder: Path
    reference: Reference | None = None
    digests: dict[str, str] = field(default_factory=dict)
    """The sha256 of each file that has been read."""

    @classmethod
    def find(cls, reference: Reference) -> ModelFolder:
        """The snapshot in the hub's cache, fetched first if it is not there; MemberError where that fails."""
        local = cls(_cache() / reference.folder, reference)
        return local if local.is_complete else cls(_fetched(reference), reference)

    @property
    def is_complete(self) -> bool:
        return (self.folder / CONFIG).is_file() and any((self.folder / name).is_file() for name in (WEIGHTS, INDEX))

    @property
    def name(self) -> str:
        return str(self.folder if self.reference is None else self.reference)

    @property
    def source(self) -> str:
        """The reference, or the name of the folder if there is no reference."""
        return self.folder.resolve().name if self.reference is None else str(self.reference)

    def config(self) -> dict[str, Any]:
        if not (self.folder / CONFIG).is_file():
            raise MemberError(f"{self.name} has no {CONFIG}, which says what the network is")
        return self._json(CONFIG)

    def preprocessor(self) -> dict[str, Any] | None:
        """How transformers prepares images for the network; None where the repository does not say."""
        return self._json(PREPROCESSOR) if (self.folder / PREPROCESSOR).is_file() else None

    def tensors(self) -> dict[str, Tensor]:
        """The weights, from one file or from all files that the index names."""
        found: dict[str, Tensor] = {}
        for shard in self._shards():
            found |= self._load(shard)
        return found

    def _shards(self) -> list[str]:
        if (self.folder / WEIGHTS).is_file():
            return [WEIGHTS]
        if (self.folder / INDEX).is_file():
            places = self._json(INDEX).get("weight_map")
            names = sorted(set(map(str, places.values()))) if isinstance(places, dict) else []
            strange = [name for name in names if not _SHARD.fullmatch(name)]
            if strange or not names:
                raise MemberError(f"{self.name}: {INDEX} names {strange or 'no files'}; it must name its own parts")
            return names
        pickled = sorted(path.name for path in self.folder.glob("*") if path.suffix in _PICKLES)
        also = f"; {', '.join(pickled)} could execute code and is not read" if pickled else ""
        raise MemberError(f"{self.name} has no weights as safetensors ({WEIGHTS}){also}")

    def _load(self, name: str) -> dict[str, Tensor]:
        with needed_by("a model of the hub"):
            import safetensors
            import safetensors.torch
        try:
            return safetensors.torch.load(self._read(name))
        except (safetensors.SafetensorError, KeyError) as error:
            raise MemberError(f"{self.name}: {name} is not a safetensors file that torch can hold: {error}") from error

    def _json(self, name: str) -> dict[str, Any]:
        data = self._read(name, limit=MOST_JSON)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise MemberError(f"{self.name}: {name} is not JSON: {reason(error)}") from error
        if not isinstance(found, dict):
            raise MemberError(f"{self.name}: {name} is of type {type(found).__name__}, not an object")
        return found

    def _read(self, name: str, limit: int | None = None) -> bytes:
        """A file of the folder. In the hub's cache it is a link into the folder `blobs` of the same repository."""
        path = (self.folder / name).resolve()
        places = (self.folder.resolve(), self.folder.resolve().parent.parent / "blobs")
        if path.parent not in places:
            raise MemberError(f"{self.name}: {name} is a link that leads out of the model's folder, to {path}")
        try:
            size = path.stat().st_size
            if limit is not None and size > limit:
                raise MemberError(f"{self.name}: {name} has {size:,} bytes, more than {limit:,}")
            data = path.read_bytes()
        except OSError as error:
            raise MemberError(f"{self.name}: {name}: {error.strerror}") from error
        self.digests[name] = hashlib.sha256(data).hexdigest()
        return data


def _cache() -> Path:
    with needed_by("a model of the hub"):
        from huggingface_hub import constants
    return Path(constants.HF_HUB_CACHE)


def _fetched(reference: Reference) -> Path:
    with needed_by("a model of the hub"):
        from huggingface_hub import constants, snapshot_download
    try:
        folder = snapshot_download(
            reference.repository,
            revision=reference.revision,
            allow_patterns=list(WANTED),
            cache_dir=_cache(),
            endpoint=constants.ENDPOINT,
            max_workers=1,
        )
    except Exception as error:  # the errors of the hub and of its connections have no common class
        raise MemberError(
            f"{reference} is not in the cache {_cache()}, and the hub at {constants.ENDPOINT} does not provide it: "
            f"{reason(error)}. Without a network, copy the model's snapshot into the cache, or name its folder"
        ) from error
    return Path(folder)
