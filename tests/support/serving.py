"""`make serve` as a separate process, with the real API and worker or with stand-ins for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.service import eventually, free_port

ROOT = Path(__file__).parents[2]

# Stand-ins for the API and the worker. They write what the tests ask for into the working directory.
API = """
import os, pathlib
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        ready = self.path == "/readyz" and not pathlib.Path("unready").exists()
        self.send_response(200 if ready else 503)
        self.end_headers()
    def log_message(self, *_):
        pass
HTTPServer(("127.0.0.1", int(os.environ["SMOOTHCERT_PORT"])), Handler).serve_forever()
"""
READY = """
import os, pathlib, socket, time
while pathlib.Path("silent").exists():
    time.sleep(0.01)
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
"""
WORKER = f"""
import os, pathlib, signal, subprocess, sys, time
def drain(*_):
    time.sleep(0.2)
    pathlib.Path("drained").touch()
    sys.exit()
signal.signal(signal.SIGTERM, drain)
signal.signal(signal.SIGINT, lambda *_: pathlib.Path("interrupted").touch())
subprocess.Popen(["sleep", "3600"])
pathlib.Path("url").write_text(os.environ["SMOOTHCERT_REDIS_URL"])
pathlib.Path("pids").open("a").write(f"{{os.getpid()}}\\n")
{READY}
while True:
    time.sleep(3600)
"""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}time.sleep(3600)"
FAILING = "import sys; sys.exit(3)"

DRIVER = """
import json, sys
from app.local import embedded, serve
serve.PAUSES, serve.DRAIN_SECONDS, serve.LOOK_SECONDS, embedded.LOCK_SECONDS = (0.01,) * 4, 1e6, 0.05, 0.1
sys.exit(serve.main({name: [sys.executable, "-c", script] for name, script in json.loads(sys.argv[1]).items()}))
"""


class Serving:
    """`python -m app.local` in its own folder and terminal session."""

    def __init__(self, folder: Path, python: str | Path = sys.executable) -> None:
        self.folder, self.python = folder, python
        self.port = free_port()
        self.output = folder / "output"
        self.process: subprocess.Popen[bytes]

    def start(self, *, worker: str = WORKER, **environment: str) -> Serving:
        """Start it with stand-ins, and without the pauses of a real service."""
        return self._launch(["-c", DRIVER, json.dumps({"API": API, "worker": worker})], environment)

    def start_for_real(self, **environment: str) -> Serving:
        """Start it with the real API and a real worker."""
        return self._launch(["-m", "app.local"], environment)

    def _launch(self, arguments: list[str], environment: Mapping[str, str]) -> Serving:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SMOOTHCERT_")}
        settings = {"PYTHONPATH": str(ROOT), "SMOOTHCERT_PORT": str(self.port), **environment}
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [self.python, *arguments],
                cwd=self.folder,
                env=inherited | settings,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self

    def interrupt(self) -> None:
        """Press Ctrl-C in its terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def printed(self, text: str, *, times: int = 1) -> None:
        """Wait until it has printed a text this many times."""
        eventually(lambda: self.output.read_text().count(text) >= times or self.process.poll() is not None)
        assert self.output.read_text().count(text) >= times, self.output.read_text()

    def exit_code(self) -> int:
        return self.process.wait(120)

    def workers(self) -> list[int]:
        pids = self.folder / "pids"
        return [int(line) for line in pids.read_text().split()] if pids.exists() else []
