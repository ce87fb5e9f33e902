"""Where the archive keeps its objects: a folder, or a bucket of an S3-compatible store."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from smoothcert.errors import SmoothcertError

if TYPE_CHECKING:
    from obstore.store import S3Store

ATTEMPT_S = 10
"""Seconds that one call of a store may take; what failed is tried again by the archivist."""
STALE_S = 3600.0
"""Seconds after which a file that was not completed is removed: its writer is dead."""


class StorageError(SmoothcertError):
    """The archive does not answer, is full, or refuses."""


class Storage(Protocol):
    """Objects by name. A write is complete or has no effect; every method raises StorageError."""

    def write(self, name: str, data: bytes) -> None: ...
    def read(self, name: str) -> bytes | None: ...
    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""

    def names(self, folder: str, *, after: str = "", most: int = 1000) -> list[str]:
        """The names in a folder, without its own, in order: those that come after a text."""


class Folder:
    """Files. Each is written into `incoming`, synced, and then moved to its name.

    A folder without `incoming` is the empty place of a volume that is not mounted: nothing can be said about its files.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._incoming = root, root / "incoming"
        try:
            self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clean()
        except OSError as error:
            raise StorageError(f"the archive {root} cannot be used: {error}") from error

    def _clean(self) -> None:
        for left in self._incoming.iterdir():
            with suppress(OSError):  # another process has moved it meanwhile, or the archive cannot be written now
                if time.time() - left.stat().st_mtime > STALE_S:
                    left.unlink()

    def write(self, name: str, data: bytes) -> None:
        path, incoming = self._root / name, self._incoming / secrets.token_hex(16)
        try:
            self._require_there()
            try:
                with incoming.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                incoming.replace(path)
            except BaseException:
                incoming.unlink(missing_ok=True)
                raise
            _sync(path.parent)
        except OSError as error:
            raise StorageError(f"{name} cannot be written: {error.strerror or error}") from error

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._require_there()
            return None
        except OSError as error:
            raise StorageError(f"{name} cannot be read: {error.strerror or error}") from error

    def remove(self, name: str) -> None:
        path = self._root / name
        try:
            with suppress(FileNotFoundError):
                path.unlink()
                _sync(path.parent)
            with suppress(OSError):  # it has other files, or is gone
                path.parent.rmdir()
        except OSError as error:
            raise StorageError(f"{name} cannot be removed: {error.strerror or error}") from error

    def names(self, folder: str, *, after: str = "", most: int = 1000) -> list[str]:
        try:
            found = sorted(each.name for each in (self._root / folder).iterdir() if each.name > after)
        except FileNotFoundError:
            self._require_there()
            return []
        except OSError as error:
            raise StorageError(f"{folder} cannot be listed: {error.strerror or error}") from error
        return found[:most]

    def _require_there(self) -> None:
        with suppress(OSError):
            if self._incoming.is_dir():
                return
        raise StorageError(f"the archive {self._root} is not there: its volume may not be mounted")


def _sync(folder: Path) -> None:
    """Let the name of a file, or its removal, survive a loss of power, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Bucket:
    """Objects of an S3-compatible store."""

    def __init__(self, store: S3Store, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    @classmethod
    def at(cls, url: str, *, endpoint: str, region: str, credentials: tuple[str, str] | None) -> Bucket:
        """The bucket and prefix of an address such as s3://bucket/prefix."""
        try:
            from obstore.store import S3Store
        except ModuleNotFoundError as error:
            raise StorageError("an archive in a bucket needs the package obstore (group `archive`)") from error
        parts = urlsplit(url)
        options: dict[str, str] = {"endpoint": endpoint} if endpoint else {}
        if credentials:
            options["access_key_id"], options["secret_access_key"] = credentials
        store = S3Store(
            parts.netloc,
            region=region,
            virtual_hosted_style_request=not endpoint,
            client_options={
                "timeout": f"{ATTEMPT_S}s",
                "connect_timeout": "3s",
                "allow_http": endpoint.startswith("http://"),
            },
            retry_config={"max_retries": 1},
            **options,  # type: ignore[arg-type]
        )
        prefix = parts.path.strip("/")
        return cls(store, f"{prefix}/" if prefix else "")

    def write(self, name: str, data: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, self._prefix + name, data, use_multipart=False)
        except Exception as error:
            raise StorageError(f"{name} cannot be written: {_first_line(error)}") from error

    def read(self, name: str) -> bytes | None:
        import obstore

        try:
            return obstore.get(self._store, self._prefix + name).bytes().to_bytes()
        except FileNotFoundError:
            return None
        except Exception as error:
            raise StorageError(f"{name} cannot be read: {_first_line(error)}") from error

    def remove(self, name: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, self._prefix + name)
        except FileNotFoundError:
            return
        except Exception as error:
            raise StorageError(f"{name} cannot be removed: {_first_line(error)}") from error

    def names(self, folder: str, *, after: str = "", most: int = 1000) -> list[str]:
        import obstore

        whole = f"{self._prefix}{folder}/"
        try:
            pages = obstore.list(self._store, whole, offset=whole + after if after else None, chunk_size=most)
            found = (each["path"].removeprefix(whole) for page in pages for each in page)
            return list(islice(found, most))
        except Exception as error:  # also a bucket that is not there
            raise StorageError(f"{folder} cannot be listed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """The first line of an error of the store, which may have a whole page."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
