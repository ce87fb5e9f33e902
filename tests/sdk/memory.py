"""The memory of a client that certifies 1,000 images: `python -m tests.sdk.memory`.

It starts a whole service with small networks; the client has its own process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

IMAGES = 1000


def images() -> Iterator[npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        yield rng.integers(0, 100, (3, 8, 8)).astype(np.uint8) + np.uint8(150 * (number % 2))


def peak() -> str:
    """The most memory that this process has held."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return f"peak {int(line.split()[1]) / 1024:.0f} MB"


def certify(url: str, out: Path) -> None:
    from smoothcert import Client

    with Client(url) as client:
        print(f"after the imports: {peak()}")
        for run in ("first", "resumed"):
            certificates = client.certify_many(
                images(), ensemble="trivial", radius=0.02, procedure="sequential", out=out
            )
            print(
                f"{run}: {sum(1 for _ in certificates)} certificates, {peak()}, file {out.stat().st_size / 1e6:.1f} MB"
            )


def serve() -> None:
    from tests.support.whole import whole_service
    from tests.support.zoo import make_zoo

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with whole_service(folder, make_zoo(folder / "zoo")) as api:
            url = f"http://127.0.0.1:{api.port}"
            command = [sys.executable, "-m", "tests.sdk.memory", url, str(folder / "out.jsonl")]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        certify(sys.argv[1], Path(sys.argv[2]))
    else:
        serve()
