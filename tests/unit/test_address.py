"""The parts of Redis URLs, and that no message shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.sentinel import SentinelManagedSSLConnection as AsyncSentinelSSLConnection
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from smoothcert.errors import explain
from store.address import RedisAddress
from store.settings import RedisSettings

SECRET = "hush"


@pytest.mark.parametrize(
    ("url", "place", "kind", "options"),
    [
        ("redis://h:1/2", "h:1", Connection, {"host": "h", "port": 1, "db": 2}),
        ("redis://", "localhost:6379", Connection, {}),
        ("redis://me:a%2Fb@h", "h:6379", Connection, {"username": "me", "password": "a/b"}),
        ("redis://h?socket_timeout=3", "h:6379", Connection, {"socket_timeout": 3.0}),
        ("rediss://[::1]:7/1", "::1:7", SSLConnection, {"host": "::1", "port": 7, "db": 1}),
        ("unix://:p@/run/r%20s.sock?db=2", "/run/r s.sock", UnixDomainSocketConnection, {"password": "p", "db": 2}),
        ("redis+sentinel://a:1,b/s", "s of a:1, b:26379", SentinelManagedConnection, {}),
        (
            "rediss+sentinel://me:a%2Fb@a:1,[::1]:2/s/3?socket_timeout=4",
            "s of a:1, ::1:2",
            SentinelManagedSSLConnection,
            {"username": "me", "password": "a/b", "db": 3, "socket_timeout": 4.0},
        ),
    ],
)
def test_a_url_names_a_place_and_options(url: str, place: str, kind: type, options: dict[str, object]) -> None:
    address = RedisAddress.of(url)
    assert address.place == place
    pool = address.client().connection_pool
    assert pool.connection_class is kind
    assert options.items() <= pool.connection_kwargs.items()
    assert "a/b" not in repr(address)


@pytest.mark.parametrize(
    ("url", "kind"),
    [("rediss://h", AsyncSSLConnection), ("rediss+sentinel://h/s", AsyncSentinelSSLConnection)],
)
def test_an_event_loop_gets_the_same_and_waits_for_a_connection(url: str, kind: type) -> None:
    pool = RedisAddress.of(url).async_client(max_connections=3, timeout=0.5).connection_pool
    assert pool.connection_class is kind
    assert (pool.max_connections, pool.timeout) == (3, 0.5)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (f"http://:{SECRET}@h", "must begin with redis://, rediss://, unix://"),
        (f"redis+cluster://:{SECRET}@h", "got the scheme 'redis+cluster'"),
        (SECRET, "got no scheme"),
        (f":{SECRET}@redis://", "got no scheme"),
        (f"redis://:{SECRET}/@h:6379/0", "in a password are written as %2F"),
        (f"redis://:/{SECRET}@h:6379/0", "in a password are written as %2F"),
        (f"redis://:?{SECRET}@h/0", "in a password are written as %2F"),
        (f"redis://:#{SECRET}@h/0", "in a password are written as %2F"),
        (f"redis://:{SECRET}#x@h/0", "in a password are written as %2F"),
        (f"redis://:{SECRET}@h:port/0", "a port is a number up to 65535"),
        (f"redis://:{SECRET}@h:65536/0", "a port is a number up to 65535"),
        (f"redis://:{SECRET}@[::1", "cannot be read"),
        (f"redis://:{SECRET}@h/first", "must end with the number of a database"),
        (f"redis://:{SECRET}@h?retries=3", "must be those of redis-py, got 'retries'"),
        (f"redis://h?retries=3&password={SECRET}", "must be those of redis-py, got 'retries, password'"),
        (f"redis://:{SECRET}@h?db=first", "must be those of redis-py, got 'db'"),
        (f"rediss://:{SECRET}@h?ssl_cert_reqs=perhaps", "must be those of redis-py, got 'ssl_cert_reqs'"),
        (f"redis+sentinel://:{SECRET}@a:1,b:2", "must have their hosts and the name of the service"),
        (f"redis+sentinel://:{SECRET}@/s", "got 0 hosts and the name 's'"),
        (f"redis+sentinel://:{SECRET}@a:1,b:port/s", "must have host:port for each"),
        (f"redis+sentinel://:{SECRET}@a:1/s/first", "must end with the number of a database"),
        (f"redis+sentinel://:{SECRET}@a:1/s?db=first", "must be those of redis-py, got 'db'"),
    ],
)
def test_a_url_that_says_nothing_is_one_sentence_without_its_password(url: str, sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RedisSettings(redis_url=url)
    message = explain(refused.value, whole="")
    assert sentence in message
    assert message.startswith("redis_url: the ")
    assert "\n" not in message
    assert SECRET not in message
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"redis_url": f"redis://:{SECRET}@h", "redis_ca_file": "nowhere"},
            "need a URL of TLS, rediss://, got redis://",
        ),
        (
            {"redis_ca_file": "nowhere"},
            "the authority's certificate for Redis cannot be used: No such file or directory",
        ),
        ({"redis_ca_file": __file__}, "the authority's certificate for Redis cannot be used: NO_CERT"),
        ({"redis_certificate_file": "nowhere"}, "the certificate and its key for Redis cannot be used: No such file"),
        ({"redis_key_file": __file__}, f"got None and {__file__}"),
    ],
)
def test_files_of_certificates_are_read_when_a_process_starts(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RedisSettings(**{"redis_url": f"rediss://:{SECRET}@h", **fields})  # type: ignore[arg-type]
    message = explain(refused.value, whole="")
    assert sentence in message
    assert SECRET not in message


def test_the_sentinels_have_a_password_of_their_own(tmp_path: Path) -> None:
    for name in ("servers", "sentinels"):
        (tmp_path / name).write_text(f"{name}/secret\n")
    address = RedisSettings(
        redis_url="redis+sentinel://me@a:1/s/2",
        redis_password_file=tmp_path / "servers",
        redis_sentinel_password_file=tmp_path / "sentinels",
    ).redis
    assert address.options == {"username": "me", "password": "servers/secret", "db": 2}
    assert address.sentinel_options == {"password": "sentinels/secret"}
