"""The all-in-one command says when it is ready, keeps its parts running, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import redis
from PIL import Image

from app.local.serve import LocalSettings, ServeError, Terminal, write_sample
from app.local.trial import shipped
from models.data import load_images
from store import keys
from store.settings import WRONG_SETTINGS
from tests.service import eventually, running_in
from tests.support.servers import ServerProcess
from tests.support.serving import FAILING, STUBBORN, Serving

ROOT = Path(__file__).parents[2]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    service = Serving(tmp_path)
    yield service
    if service.process.poll() is None:
        service.process.kill()
    service.process.wait()
    eventually(lambda: not running_in(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_a_signal_ends_it_in_good_order(service: Serving, number: signal.Signals) -> None:
    service.start().printed("Ctrl-C ends it.")
    address = f"http://127.0.0.1:{service.port}"
    output = service.output.read_text()
    assert f"ready at {address}\n" in output
    assert f" {address}/\n" in output
    assert f" {address}/docs\n" in output
    assert f" export SMOOTHCERT_URL={address}\n" in output, "the port is not the usual one"
    assert (
        f"curl -s {address}/v1/certifications -H 'Prefer: wait=30' "
        """-F 'request={"radius": 0.25, "procedure": "sequential"}' -F images=@.smoothcert/samples/ship.png\n"""
    ) in output
    assert (service.folder / ".smoothcert/samples/ship.png").is_file()
    eventually(service.workers)
    if number == signal.SIGINT:
        service.interrupt()
    else:
        service.process.terminate()
    assert service.exit_code() == 0
    assert not running_in(service.folder), "the worker's own child included"
    assert (service.folder / "drained").exists()
    assert not (service.folder / "interrupted").exists(), "Ctrl-C is for the command, not for its children"


def test_a_second_interrupt_ends_a_worker_that_does_not(service: Serving) -> None:
    service.start(worker=STUBBORN).printed("Ctrl-C ends it.")
    service.interrupt()
    service.printed("Ctrl-C again")
    notice = "finishes its certifications for up to 20 s (SMOOTHCERT_DRAIN_S); the rest goes on at the next start"
    assert notice in service.output.read_text()
    service.interrupt()  # otherwise the driver would wait for a million seconds
    assert service.exit_code() == 0
    assert "ending at once" in service.output.read_text()
    assert not running_in(service.folder)


def test_an_interrupt_while_it_starts_ends_it(service: Serving) -> None:
    (service.folder / "unready").touch()
    service.start().printed("waiting for")
    service.interrupt()
    assert service.exit_code() == 0
    assert not running_in(service.folder)


def test_sigkill_leaves_nothing_running(service: Serving) -> None:
    service.start().printed("Ctrl-C ends it.")
    eventually(service.workers)
    eventually(lambda: len(running_in(service.folder)) == 8)  # the command, three guards, Valkey, API, worker, sleep
    service.process.kill()
    service.process.wait()
    eventually(lambda: not running_in(service.folder))


def test_it_says_what_it_waits_for(service: Serving) -> None:
    (service.folder / "unready").touch()
    service.start().printed("waiting for a worker to be ready (/readyz says 503) ...")
    assert "ready at" not in service.output.read_text()
    (service.folder / "unready").unlink()
    service.printed("ready at")


def test_it_is_ready_when_its_own_worker_says_so_and_not_while_the_api_counts_one_that_was_killed(
    service: Serving,
) -> None:
    """The API responds with 200 all the time, as it does until the heartbeat of a worker is old."""
    (service.folder / "silent").touch()
    service.start().printed("waiting for the worker to load its ensembles ...")
    assert "ready at" not in service.output.read_text()
    (service.folder / "silent").unlink()
    service.printed("Ctrl-C ends it.")
    (service.folder / "silent").touch()
    (first,) = eventually(service.workers)
    os.kill(first, signal.SIGKILL)
    service.printed("waiting for the worker to load its ensembles ...", times=2)
    assert "ready again" not in service.output.read_text()
    (service.folder / "silent").unlink()
    service.printed("ready again")


def test_a_start_forgets_what_workers_of_an_earlier_one_offered(service: Serving) -> None:
    service.start().printed("Ctrl-C ends it.")
    eventually(service.workers)
    with redis.Redis.from_url((service.folder / "url").read_text()) as client:
        client.hset(keys.ENSEMBLES, "default/old", "{}")
        client.zadd(keys.WORKERS, {"old": 2e9})
        client.set("name", "value")
    service.interrupt()
    service.exit_code()
    service.start().printed("Ctrl-C ends it.", times=2)
    with redis.Redis.from_url((service.folder / "url").read_text()) as client:
        assert (client.exists(keys.ENSEMBLES, keys.WORKERS), client.get("name")) == (0, b"value")


def test_a_child_that_dies_is_started_again(service: Serving) -> None:
    service.start().printed("Ctrl-C ends it.")
    (first,) = eventually(service.workers)
    os.kill(first, signal.SIGKILL)
    service.printed("the worker ended with SIGKILL")
    service.printed("ready again")
    eventually(lambda: len(service.workers()) == 2)
    assert first not in running_in(service.folder)
    assert service.workers()[1] in running_in(service.folder)


def test_children_that_were_ready_may_die_any_number_of_times(service: Serving) -> None:
    service.start().printed("Ctrl-C ends it.")
    for deaths in range(1, 7):
        pids = eventually(lambda deaths=deaths: service.workers()[deaths - 1 :])
        os.kill(pids[-1], signal.SIGKILL)
        service.printed("ready again", times=deaths)


def test_the_embedded_server_is_started_again_on_its_file(service: Serving) -> None:
    service.start().printed("Ctrl-C ends it.")
    eventually(service.workers)
    with redis.Redis.from_url((service.folder / "url").read_text()) as client:
        client.set("name", "value")
        pid = client.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
        service.printed("the embedded Valkey ended with SIGKILL")
        service.printed("ready again")
        assert client.get("name") == b"value"
        assert client.info("server")["process_id"] != pid


def test_a_child_that_never_becomes_ready_ends_it_all(service: Serving) -> None:
    (service.folder / "unready").touch()
    service.start(worker=FAILING)
    assert service.exit_code() == 1
    output = service.output.read_text()
    assert output.count("the worker ended with exit code 3; it starts again") == 4
    assert "smoothcert: the worker ended 5 times without becoming ready, the last with exit code 3\n" in output
    assert not running_in(service.folder)


def test_a_child_that_cannot_work_with_its_settings_is_not_started_again(service: Serving) -> None:
    (service.folder / "unready").touch()
    service.start(worker=f"import sys; print('it says why', flush=True); sys.exit({WRONG_SETTINGS})")
    assert service.exit_code() == WRONG_SETTINGS
    output = service.output.read_text()
    assert output.count("it says why") == 1
    assert output.endswith("smoothcert: the worker cannot start with these settings; its reason stands further up\n")
    assert not running_in(service.folder)


def test_a_redis_that_refuses_the_password_is_one_sentence(service: Serving, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with ServerProcess(tmp_path / "server", "requirepass right") as server:
        server.client(password="right")
        for password in (":hush@", ""):
            place = f"127.0.0.1:{server.port}"
            service.output.unlink(missing_ok=True)
            assert service.start(SMOOTHCERT_REDIS_URL=f"redis://{password}{place}/0").exit_code() == WRONG_SETTINGS
            (sentence,) = service.output.read_text().splitlines()
            assert sentence.startswith(f"smoothcert: Redis at {place} does not accept the user and the password: ")
            assert "hush" not in sentence


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"SMOOTHCERT_REDIS_URL": "redis://:hu/sh@127.0.0.1:port/0"}, "the URL of Redis cannot be read"),
        ({"SMOOTHCERT_REDIS_URL": "hush"}, "the URL of Redis must begin with redis://"),
        (
            {"SMOOTHCERT_ENSEMBLE": "hush"},
            "there is no setting SMOOTHCERT_ENSEMBLE, did you mean SMOOTHCERT_ENSEMBLES?",
        ),
        ({"SMOOTHCERT_DRAIN_S": "soon"}, "SMOOTHCERT_DRAIN_S must be a number of seconds, got 'soon'"),
    ],
)
def test_wrong_settings_are_one_sentence_before_anything_starts(
    service: Serving, settings: dict[str, str], message: str
) -> None:
    assert service.start(**settings).exit_code() == WRONG_SETTINGS
    (sentence,) = service.output.read_text().splitlines()
    assert message in sentence
    assert "hush" not in sentence
    assert sorted(path.name for path in service.folder.iterdir()) == ["output"]


def test_a_port_that_is_taken_is_an_error_before_anything_starts(service: Serving) -> None:
    with socket.create_server(("127.0.0.1", service.port)):
        assert service.start().exit_code() == 1
    output = service.output.read_text()
    assert f"cannot listen on port {service.port} of 127.0.0.1: Address already in use" in output
    assert "Traceback" not in output
    assert sorted(path.name for path in service.folder.iterdir()) == ["output"]


def test_two_services_on_one_folder_are_an_error(service: Serving, tmp_path: Path) -> None:
    service.start().printed("Ctrl-C ends it.")
    other = Serving(tmp_path)
    other.output = tmp_path / "other"
    assert other.start().exit_code() == 1
    assert re.fullmatch(r"smoothcert: .*/valkey is in use by another running service: .*\n", other.output.read_text())


def test_with_a_redis_of_ones_own_none_is_embedded(service: Serving) -> None:
    service.start(SMOOTHCERT_REDIS_URL="redis://example.invalid/7", SMOOTHCERT_DATA="elsewhere").printed(
        "Ctrl-C ends it."
    )
    eventually(service.workers)
    assert (service.folder / "url").read_text() == "redis://example.invalid/7"
    assert sorted(path.name for path in (service.folder / "elsewhere").iterdir()) == [
        "keyring",
        "samples",
        "seed_secret",
    ]
    assert not [line for line in running_in(service.folder).values() if "valkey" in line]


def test_the_sample_is_the_shipped_image_of_its_class(tmp_path: Path) -> None:
    path = write_sample(tmp_path / "samples", shipped())
    images = load_images(ROOT / "models/zoo/cifar10-test-100.json")
    with Image.open(path) as image:
        pixels = np.asarray(image).transpose(2, 0, 1)
    (places,) = np.nonzero((images.pixels == pixels).all(axis=(1, 2, 3)))
    assert [images.classes[images.labels[place]] for place in places] == [path.stem]
    assert write_sample(tmp_path / "samples", shipped()) == path


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"SMOOTHCERT_PORT": "", "SMOOTHCERT_HOST": ""}, "http://127.0.0.1:8000"),
        ({"SMOOTHCERT_PORT": "81", "SMOOTHCERT_HOST": "0.0.0.0"}, "http://127.0.0.1:81"),
        ({"SMOOTHCERT_HOST": "::"}, "http://[::1]:8000"),
    ],
)
def test_the_address_is_one_that_this_machine_can_open(environment: Mapping[str, str], address: str) -> None:
    assert LocalSettings.read(environment).address == address


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "8000.0", "٣"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(ServeError, match=re.escape(repr(port))):
        LocalSettings.read({"SMOOTHCERT_PORT": port})


@pytest.mark.parametrize(("drain_s", "patience"), [("", 30.0), ("5", 30.0), ("600", 610.0), ("29.5", 39.5)])
def test_a_worker_is_given_its_own_time_to_drain(drain_s: str, patience: float) -> None:
    assert LocalSettings.read({"SMOOTHCERT_DRAIN_S": drain_s}).patience == patience


@pytest.mark.parametrize("drain_s", ["long", "-1", "nan", "1e9"])
def test_a_time_to_drain_that_is_none_is_named(drain_s: str) -> None:
    with pytest.raises(ServeError, match=re.escape(repr(drain_s))):
        LocalSettings.read({"SMOOTHCERT_DRAIN_S": drain_s})


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [
        (Screen(), "\r\x1b[Kwaiting for a ...\r\x1b[Kwaiting for b ...\r\x1b[Kready\nlater\n"),
        (io.StringIO(), "waiting for a ...\nwaiting for b ...\nready\nlater\n"),
    ],
)
def test_waiting_takes_one_line_of_a_terminal(stream: io.StringIO, shown: str) -> None:
    terminal = Terminal(stream)
    for what in "aab":
        terminal.wait_for(what)
    terminal.say("ready")
    terminal.say("later")
    assert stream.getvalue() == shown
