"""The health check of a worker's container, and a password in a file."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.local.embedded import EmbeddedServer
from store import keys
from store.settings import RedisSettings
from tests.service import eventually
from tests.support.pool import ROOT, Pool
from tests.support.zoo import make_zoo


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool of workers that know the address of Redis and read its password from a file."""
    password = tmp_path / "password"
    with EmbeddedServer(tmp_path / "data") as server:
        parts = urlsplit(server.url)
        password.write_text(f"{parts.password}\n")
        bare = server.url.replace(f":{parts.password}@", "")
        found = {"redis_url": bare, "redis_password_file": password}
        made = Pool(server, make_zoo(tmp_path / "zoo"), "health", dead_after_s=2, **found)
        yield made
        made.end()


def health(pool: Pool, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = pool.environment() | {f"SMOOTHCERT_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "workers", "health"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_host_is_healthy_from_the_first_heartbeat_of_its_worker_until_the_last_one_expires(pool: Pool) -> None:
    before = health(pool)
    assert before.returncode == 1
    assert f"no worker on {socket.gethostname()!r}" in before.stderr
    worker = pool.start()
    assert health(pool).returncode == 0
    worker.kill()
    eventually(lambda: health(pool).returncode == 1, "the death to be noticed")


def test_workers_on_other_hosts_say_nothing_of_this_one(pool: Pool) -> None:
    host = socket.gethostname()
    pool.redis.zadd(keys.WORKERS, {f"{name}-0123456789ab": time.time() + 60 for name in ("other", f"{host}-2")})
    assert health(pool).returncode == 1
    pool.redis.zadd(keys.WORKERS, {f"{host}-0123456789ab": time.time() + 60})
    assert health(pool).returncode == 0


def test_what_is_wrong_is_one_sentence(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for settings, sentence in (
        ({"redis_password_file": str(tmp_path / "nowhere")}, "No such file"),
        ({"redis_password_file": str(tmp_path / "empty")}, "is empty; it must hold the password"),
        ({"redis_url": "redis://127.0.0.1:1/0"}, "Redis does not say"),
        ({"redis_url": "http://127.0.0.1"}, "SMOOTHCERT_REDIS_URL: the URL of Redis must begin with redis://"),
    ):
        done = health(pool, **settings)
        assert done.returncode == 1
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://redis:6379/0", "redis://:a%2Fb%40c@redis:6379/0"),
        ("rediss://name:old@redis/1?socket_timeout=3", "rediss://name:a%2Fb%40c@redis/1?socket_timeout=3"),
        ("unix:///run/redis.sock?db=2", "unix://:a%2Fb%40c@/run/redis.sock?db=2"),
    ],
)
def test_the_password_of_the_file_is_put_into_the_address(url: str, address: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("a/b@c\n")
    assert RedisSettings(redis_url=url, redis_password_file=tmp_path / "password").redis_address == address
    assert RedisSettings(redis_url=url).redis_address == url
