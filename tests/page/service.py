"""The service that the tests of the page share: small networks that answer at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.http.authentication import digest
from models.registry import describe, rewrite
from smoothcert.noise import Gaussian, Noise, Replacement, Splitting, Uniform
from tests.support.api import Api
from tests.support.attested import keyring
from tests.support.visit import Visit
from tests.support.whole import whole_service
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA, add_small, make_zoo

KEY = "sk_of-the-tests"
URL = "/v1/certifications"
RING = keyring("the service of the page")
ENDLESS = {"ensemble": "moody", "procedure": "fixed", "samples": "1000000"}
"""A question that runs until it is canceled."""
OTHERS: dict[str, tuple[Noise, tuple[int, int, int]]] = {
    "with-uniform": (Uniform(0.5), SHAPE),
    "with-replacement": (Replacement(0.8, 256), SHAPE),
    "with-replacement-grey": (Replacement(0.8, 2), (1, *SHAPE[1:])),
    "with-splitting": (Splitting(0.5), SHAPE),
    "with-superclasses": (Gaussian(SIGMA), SHAPE),
}
"""Ensembles for noises of other norms. Their names come after those of the others, because the page begins with the
first."""
SUPERCLASS = "anyshadeofgreyfromdarktolightandallthatisbetween"
"""The superclass of `with-superclasses` that has both classes."""
Open = Callable[..., Visit]


class PageService:
    """The addresses of one service, without API keys and with them, and a client to the first."""

    def __init__(self, api: Api, locked: Api) -> None:
        self.client = api.client
        self.address, self.locked = (f"http://127.0.0.1:{each.port}/" for each in (api, locked))

    def get(self, certification: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{URL}/{certification}").json()
        return found


def _zoo(folder: Path) -> Path:
    make_zoo(folder)
    for name, (noise, shape) in OTHERS.items():
        add_small(folder, name, noise, shape=shape)
    declared = ({SUPERCLASS: ["dark", "light"]},)
    rewrite("with-superclasses", replace(describe("with-superclasses", zoo=folder), superclasses=declared), zoo=folder)
    return folder


@contextmanager
def page_service(folder: Path) -> Iterator[PageService]:
    """Run the service with its data in the folder."""
    RING.write(folder / "keyring")
    signing = {"keyring_file": str(folder / "keyring")}
    with (
        whole_service(folder, _zoo(folder / "zoo"), signing) as api,
        Api(api.redis_url, folder, api_keys=f"me:{digest(KEY)}", **signing) as locked,
    ):
        yield PageService(api, locked)
