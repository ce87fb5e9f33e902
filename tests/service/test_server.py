"""Real servers of every kind: warnings, refusals in one sentence, and a service over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from app.redis.client import connected
from app.redis.inspector import Inspector
from app.redis.queue import Queue
from store import keys
from store.address import RedisAddress
from store.inspection import UnusableServerError
from store.plaintext import answers_plainly
from store.record import Record
from store.settings import WRONG_SETTINGS, RedisSettings
from tests.service import PATIENCE_S, eventually, free_port
from tests.support import nursery, stored
from tests.support.api import Api, picture, text
from tests.support.player import Player
from tests.support.pool import Pool
from tests.support.servers import KEEPING, Authority, ServerProcess, tls_binary
from tests.support.stored import MANY
from tests.support.zoo import ALLOWED, make_zoo
from workers.connection import RedisConnection

URL = "/v1/certifications"
SECRET = "hush"
BINARY = tls_binary()
speaks_tls = pytest.mark.skipif(
    BINARY is None, reason="there is no server with TLS in the PATH (redis-server or valkey-server), or no openssl"
)


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that stores nothing."""
    lines = ("appendonly no", 'save ""', "maxmemory-policy allkeys-lru", f"requirepass {SECRET}")
    with ServerProcess(tmp_path_factory.mktemp("careless"), *lines) as running:
        running.client(password=SECRET)
        yield running


def refusal(folder: Path, module: str, **settings: str) -> str:
    """The one sentence with which a process ends instead of starting."""
    output = folder / f"{module}.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SMOOTHCERT_")}
    named = {f"SMOOTHCERT_{name.upper()}": value for name, value in settings.items()}
    prepared = nursery.API if module == "app" else nursery.WORKER
    with output.open("wb") as file:
        child = nursery.start(
            [sys.executable, "-m", module], prepared=prepared, env=clean | named, stdout=file, stderr=file
        )
        assert child.wait(PATIENCE_S) == WRONG_SETTINGS, output.read_text()
    text = output.read_text()
    assert "Traceback" not in text
    assert SECRET not in text
    (sentence,) = [line for line in text.splitlines() if not line.startswith("{")]  # the other lines are the log
    return sentence


def test_a_careless_server_is_warned_of_in_the_log_and_in_readyz(careless: ServerProcess, tmp_path: Path) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{careless.port}/0"
    player = Player(url)
    player.announce()
    with Api(url, tmp_path) as api:
        checks = {check["name"]: check for check in api.client.get("/readyz").json()["redis"]}
        assert {name for name, check in checks.items() if check["status"] == "warning"} == {
            "append_only_file",
            "eviction",
        }
        assert "appendonly yes" in checks["append_only_file"]["detail"]
        log = [json.loads(line) for line in api.log.read_text().splitlines()]
    warned = [line["message"] for line in log if line["message"].startswith("Redis: ")]
    assert warned == [f"Redis: {checks[name]['detail']}" for name in ("append_only_file", "eviction")]  # once each


def test_a_strict_service_does_not_start_with_it(careless: ServerProcess, tmp_path: Path) -> None:
    settings = {"redis_url": f"redis://:{SECRET}@127.0.0.1:{careless.port}/0", "strict": "true"}
    found = "SMOOTHCERT_STRICT is set, and Redis does not suffice: The server writes no append-only file"
    assert found in refusal(tmp_path, "app", **settings)
    held = {"zoo": str(make_zoo(tmp_path / "zoo")), "allowed_imports": ",".join(ALLOWED)}
    assert found in refusal(tmp_path, "workers", **settings, **held)


def test_a_strict_api_does_not_start_without_redis(tmp_path: Path) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    assert "does not answer" in refusal(tmp_path, "app", redis_url=url, strict="true")


@pytest.mark.parametrize(
    ("user", "database", "sentence"),
    [
        (f":not-{SECRET}", 0, "does not accept the user and the password: invalid username-password pair"),
        (f"nobody:{SECRET}", 0, "does not accept the user and the password: invalid username-password pair"),
        ("", 0, "does not accept the user and the password: it demands a password"),
        (f":{SECRET}", 99, "refuses the connection: DB index is out of range"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_one_sentence(
    careless: ServerProcess, tmp_path: Path, user: str, database: int, sentence: str
) -> None:
    url = f"redis://{user}@127.0.0.1:{careless.port}/{database}"
    assert refusal(tmp_path, "app", redis_url=url).startswith(
        f"smoothcert: Redis at 127.0.0.1:{careless.port} {sentence}"
    )
    with pytest.raises(UnusableServerError, match=sentence):
        RedisConnection(url).require_usable(strict=False)


@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu"])
def test_workers_with_a_wrong_password_end_with_a_sentence(
    careless: ServerProcess, tmp_path: Path, devices: str
) -> None:
    held = {"devices": devices, "zoo": str(make_zoo(tmp_path / "zoo")), "allowed_imports": ",".join(ALLOWED)}
    sentence = refusal(tmp_path, "workers", redis_url=f"redis://:not-{SECRET}@127.0.0.1:{careless.port}/0", **held)
    assert "holding" not in (tmp_path / "workers.log").read_text(), "Redis is asked before ensembles are loaded"
    assert sentence.startswith(f"error: Redis at 127.0.0.1:{careless.port} does not accept the user and the password")


@pytest.mark.parametrize(
    ("lines", "sentinel", "sentence"),
    [
        (["cluster-enabled yes"], False, "smoothcert: Redis runs as a cluster, which is not supported"),
        ([], True, "smoothcert: the address is that of a Sentinel"),
        (["user default on nopass ~* &* +@all -eval"], False, "smoothcert: the user of Redis must not run scripts"),
    ],
)
def test_a_server_of_the_wrong_kind_is_one_sentence(
    tmp_path: Path, lines: list[str], sentinel: bool, sentence: str
) -> None:
    with ServerProcess(tmp_path / "server", *lines, sentinel=sentinel) as server:
        server.client()
        url = f"redis://127.0.0.1:{server.port}/0"
        assert refusal(tmp_path, "app", redis_url=url).startswith(sentence)
        with pytest.raises(UnusableServerError, match=sentence.removeprefix("smoothcert: ")):
            RedisConnection(url).require_usable(strict=False)


def test_a_server_that_hides_everything_is_unverified(tmp_path: Path) -> None:
    with ServerProcess(
        tmp_path / "server", *KEEPING, "user default on nopass ~* &* +@all -info -config -time"
    ) as server:
        server.client()
        url = f"redis://127.0.0.1:{server.port}/0"
        Player(url).announce()
        with Api(url, tmp_path, strict="true") as api:
            checks = {check["name"]: check["status"] for check in api.client.get("/readyz").json()["redis"]}
    assert checks.pop("scripts") == "ok"
    assert checks == dict.fromkeys(["role", "version", "append_only_file", "fsync", "eviction", "clock"], "unverified")


def test_the_api_leaves_a_server_that_became_a_replica_for_the_one_at_its_address(tmp_path: Path) -> None:
    sockets = [tmp_path / name for name in ("old.sock", "new.sock")]
    link = tmp_path / "link.sock"
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ServerProcess(tmp_path / path.stem, *KEEPING, f"unixsocket {path}")) for path in sockets
        ]
        old, new = (server.client() for server in servers)
        link.symlink_to(sockets[0])

        async def submitted() -> list[Record]:
            async with Queue(f"unix://{link}", MANY, result_ttl=60).listening() as queue:
                records = [stored.new(), stored.new()]
                assert (await queue.submissions.add(records[0], b"images")).outcome == "accepted"
                old.replicaof("127.0.0.1", 1)
                link.unlink()
                link.symlink_to(sockets[1])
                assert (await queue.submissions.add(records[1], b"images")).outcome == "accepted"
                return records

        first, second = asyncio.run(submitted())
        assert [old.exists(keys.record(each.id)) for each in (first, second)] == [1, 0]
        assert [new.exists(keys.record(each.id)) for each in (first, second)] == [0, 1]


# --- TLS


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The settings for a server that speaks only TLS and asks for a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    certificate, key = authority.sign("ours")
    with _tls_server(folder / "server", authority, f"requirepass {SECRET}") as server:
        settings = {
            "redis_url": f"rediss://:{SECRET}@127.0.0.1:{server.port}/0",
            "redis_ca_file": str(authority.file),
            "redis_certificate_file": str(certificate),
            "redis_key_file": str(key),
        }
        eventually(lambda: _answers(settings), "the server")
        yield settings


def _tls_server(folder: Path, authority: Authority, *lines: str, sentinel: bool = False) -> ServerProcess:
    certificate, key = authority.sign("server")
    files = (f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {authority.file}")
    return ServerProcess(folder, *files, "tls-replication yes", *lines, binary=BINARY, sentinel=sentinel, tls=True)


def _answers(settings: dict[str, str]) -> bool:
    try:
        return bool(RedisSettings(**settings).redis.client().ping())  # type: ignore[arg-type]
    except redis.ConnectionError:
        return False


@speaks_tls
def test_a_service_speaks_tls(encrypted: dict[str, str], tmp_path: Path) -> None:
    others = {name: value for name, value in encrypted.items() if name != "redis_url"}
    here: Any = SimpleNamespace(url="redis://")
    pool = Pool(here, make_zoo(tmp_path / "zoo"), "default", **encrypted)
    pool.redis = RedisSettings(**encrypted).redis.client()  # type: ignore[arg-type]
    try:
        pool.start()
        with Api(encrypted["redis_url"], tmp_path, **others) as api:
            image = text(picture(size=(8, 8)))
            body = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential", "images": [image]}
            answer = api.client.post(URL, json=body, headers={"Prefer": "wait=60"})
            assert answer.json()["status"] == "succeeded", answer.text
    finally:
        pool.end()


@speaks_tls
def test_a_certificate_of_another_authority_is_one_sentence(encrypted: dict[str, str], tmp_path: Path) -> None:
    port = encrypted["redis_url"].split(":")[-1].split("/")[0]
    for name in ("", "stranger"):
        stranger = {"redis_ca_file": str(Authority(tmp_path, name).file)} if name else {}
        settings = {**{key: value for key, value in encrypted.items() if key != "redis_ca_file"}, **stranger}
        sentence = refusal(tmp_path, "app", **settings)
        assert sentence.startswith(f"smoothcert: the certificate of Redis at 127.0.0.1:{port} is not accepted")
        with pytest.raises(UnusableServerError, match="SMOOTHCERT_REDIS_CA_FILE"):
            RedisConnection(RedisSettings(**settings).redis).require_usable(strict=False)  # type: ignore[arg-type]


def test_a_server_without_tls_at_a_url_of_tls_is_one_sentence(careless: ServerProcess, tmp_path: Path) -> None:
    """The server waits for the rest of the handshake as if it were a command, so a client sees only a timeout."""
    place = f"127.0.0.1:{careless.port}"
    sentence = f"Redis at {place} does not speak TLS: its URL must begin with redis, not rediss"
    url = f"rediss://:{SECRET}@{place}/0"
    assert refusal(tmp_path, "app", redis_url=url) == f"smoothcert: {sentence}"
    with pytest.raises(UnusableServerError, match=sentence):
        RedisConnection(url).refuse_unusable(strict=False)


def test_sentinels_without_tls_at_a_url_of_tls_are_one_sentence(careless: ServerProcess) -> None:
    address = RedisAddress.of(f"rediss+sentinel://127.0.0.1:{careless.port}/mine")
    sentence = f"Redis at mine of 127.0.0.1:{careless.port} does not speak TLS"
    with pytest.raises(UnusableServerError, match=sentence):
        RedisConnection(address).refuse_unusable(strict=False)
    with pytest.raises(UnusableServerError, match=sentence):
        asyncio.run(Inspector().require_usable(address, strict=False))


@speaks_tls
def test_a_server_that_speaks_tls_does_not_answer_in_plain_text(encrypted: dict[str, str]) -> None:
    assert not answers_plainly(RedisSettings(**encrypted).redis)  # type: ignore[arg-type]


@speaks_tls
def test_a_server_that_speaks_tls_alone_at_another_url_is_told_by_a_word_about_tls(
    encrypted: dict[str, str], tmp_path: Path
) -> None:
    url = encrypted["redis_url"].replace("rediss://", "redis://")
    hint = "a server that speaks TLS alone looks like this, and its URL is rediss://, not redis://"
    assert hint in refusal(tmp_path, "app", redis_url=url, strict="true")
    with pytest.raises(redis.ConnectionError, match=hint):
        RedisConnection(url)._inspect()


@speaks_tls
def test_sentinels_speak_tls_too(encrypted: dict[str, str], tmp_path: Path) -> None:
    port = encrypted["redis_url"].split(":")[-1].split("/")[0]
    authority = Authority(tmp_path, "authority")
    bundle = tmp_path / "both.crt"
    bundle.write_text(Path(encrypted["redis_ca_file"]).read_text() + authority.file.read_text())
    lines = (f"sentinel monitor mine 127.0.0.1 {port} 1", f"sentinel auth-pass mine {SECRET}", "tls-auth-clients no")
    with _tls_server(tmp_path / "sentinel", authority, *lines, sentinel=True) as sentinel:
        named = f"rediss+sentinel://:{SECRET}@127.0.0.1:{sentinel.port}/mine/0"
        settings: Any = {**encrypted, "redis_url": named, "redis_ca_file": str(bundle)}
        address = RedisSettings(**settings).redis
        eventually(lambda: _answers(settings), "the Sentinel")

        async def ping() -> bool:
            client = connected(address)
            try:
                return bool(await client.ping())
            finally:
                await client.aclose()

        assert asyncio.run(ping())
