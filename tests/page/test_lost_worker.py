"""What the page says while no worker has a certification, and after a start with another zoo."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.local.embedded import EmbeddedServer
from smoothcert.noise import Gaussian
from tests.page.service import ENDLESS, Open
from tests.service import eventually
from tests.support.api import Api
from tests.support.pool import Pool
from tests.support.visit import CLOSE, LIGHT, Visit
from tests.support.zoo import SIGMA, add_small, make_zoo
from workers.settings import WorkerSettings

AS_SHIPPED = {
    name: WorkerSettings.model_fields[name].default
    for name in ("heartbeat_s", "dead_after_s", "checkpoint_s", "progress_s")
}
"""The timing settings that a worker has by default; other tests use shorter ones."""


class Staffed:
    """A service whose workers a test starts and kills."""

    def __init__(self, server: EmbeddedServer, folder: Path, client: httpx2.Client) -> None:
        self.address, self.folder = str(client.base_url), folder
        self.pool = Pool(server, make_zoo(folder / "zoo"), "default", **AS_SHIPPED)
        self.client = client

    def end(self) -> None:
        """End the workers, and wait until the service knows it."""
        for process in self.pool.processes:
            process.terminate()
        for process in self.pool.processes:
            process.wait()
        self.pool.processes.clear()
        eventually(lambda: self.client.get("/readyz").status_code == 503, "a service without workers")


@pytest.fixture(scope="module")
def staffed(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staffed]:
    folder = tmp_path_factory.mktemp("lost")
    with EmbeddedServer(folder / "valkey") as server, Api(server.url, folder) as api:
        running = Staffed(server, folder, api.client)
        running.pool.start()
        try:
            yield running
        finally:
            running.pool.end()


def opened_with(visit: Open, staffed: Staffed, **question: str) -> Visit:
    opened = visit(staffed.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(**question)
    return opened


def worker_of(staffed: Staffed, opened: Visit) -> str:
    """The worker that has the certification shown on the page."""
    return staffed.pool.record(opened.certification).worker


def test_a_lost_worker_is_told_and_when_the_work_goes_on(visit: Open, staffed: Staffed) -> None:
    opened = opened_with(visit, staffed, **ENDLESS)
    opened.choose(CLOSE)
    opened.certify()
    opened.page.wait_for_selector("#answer path.count")
    assert opened.page.locator(".stall").count() == 0
    first = worker_of(staffed, opened)
    staffed.pool.end()
    lost = time.monotonic()
    opened.page.wait_for_selector(".stall")
    print(f"told after {time.monotonic() - lost:.1f} s")
    assert "The worker has given no sign of life for" in opened.text(".stall")
    assert "the work goes on from the last checkpoint as soon as a worker starts" in opened.text(".stall")
    assert "no sign of life" in opened.text("#announcement")
    staffed.pool.processes.clear()
    staffed.pool.start()
    opened.page.wait_for_selector(".stall:has-text('another worker goes on from the last checkpoint')")
    opened.page.wait_for_selector(".stall", state="detached")
    opened.page.wait_for_selector(".status.running")
    assert worker_of(staffed, opened) != first, "the other worker goes on"
    opened.page.click("text=Cancel")
    opened.page.wait_for_selector(".status.canceled")


def test_while_no_worker_lives_requests_wait_and_the_page_says_so(visit: Open, staffed: Staffed) -> None:
    staffed.end()
    opened = visit(staffed.address)
    opened.page.wait_for_selector("[name=ensemble] option:has-text('not ready: requests wait')", state="attached")
    opened.ask(ensemble="trivial", radius="0.02")
    opened.choose(LIGHT)
    opened.certify()
    opened.page.wait_for_selector(
        ".stall:has-text('No worker with this ensemble is alive. The work goes on as soon as one starts')"
    )
    staffed.pool.start()
    assert "‘light’" in opened.text(".claim"), "they really wait"


def test_after_a_start_with_another_zoo_an_ensemble_that_is_ready_is_chosen(visit: Open, staffed: Staffed) -> None:
    open_before = opened_with(visit, staffed, ensemble="trivial", radius="0.02")
    open_before.choose(LIGHT)
    open_before.page.wait_for_selector("#plan :text('Can be proved')")
    staffed.end()
    other = staffed.folder / "other"
    add_small(other, "zebra", Gaussian(SIGMA))
    add_small(other, "damaged", Gaussian(SIGMA))
    file = next((other / "damaged").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    early = visit(staffed.address)
    early.page.wait_for_selector("[name=ensemble] option:has-text('not ready')", state="attached")
    staffed.pool.zoo = other
    staffed.pool.start()
    early.page.wait_for_selector("[name=ensemble] option:has-text('zebra')", state="attached")
    assert early.page.locator("[name=ensemble]").input_value() == "zebra"
    assert early.page.locator("[name=ensemble] option").all_inner_texts() == ["zebra"], "the others are forgotten"
    early.page.click("#failed-ensembles summary:text('1 ensemble could not be loaded')")
    assert f"damaged: {file}: sha256 is" in early.text("#failed-ensembles li")
    early.ask(radius="0.02")
    early.choose(LIGHT)
    early.certify()
    assert "‘light’" in early.text(".claim")
    open_before.page.click("#certify")
    assert "there is no ensemble 'trivial'; there are: zebra" in open_before.text("#refused .problem")
    open_before.page.wait_for_selector("[name=ensemble] option:has-text('zebra')", state="attached")
    assert open_before.page.locator("[name=ensemble]").input_value() == "zebra", "the next click is about what there is"
    open_before.ask(radius="0.02")
    open_before.certify()
    assert "‘light’" in open_before.text(".claim")
