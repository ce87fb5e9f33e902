"""A clone as a reader has it: the tree, the environment, and a service that was started with `make serve`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from tests.service import free_port
from tests.support.nursery import Door

ROOT = Path(__file__).parents[2]
SERVE = "make serve"
"""The command of the service that every page expects."""
READY_S = 120
"""The seconds within which a service must be ready, on a busy machine."""
RUN_S = 300
"""The seconds within which a command of the documentation must end, on a busy machine."""


COMMANDS = ("models.commands.add", "smoothcert.engine.smoothed", "workers.replay")
"""The modules that `python` finds imported already, because fifty commands would spend two seconds each on them."""


class Clone:
    """A folder in which commands of the documentation run; `close` ends what it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "smoothcert"
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, files.split("\0")):
            if (ROOT / name).exists():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        (self.folder / ".venv").symlink_to(ROOT / ".venv")
        for command in ("init -q", "config core.excludesFile /dev/null", "add -A -- :!.venv"):
            subprocess.run(["git", *command.split()], cwd=self.folder, check=True)
        self.port = free_port()
        path = f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        url = f"http://127.0.0.1:{self.port}"
        config = {"PATH": path, "SMOOTHCERT_PORT": str(self.port), "SMOOTHCERT_URL": url, "COLUMNS": "80"}
        config |= {"PYTHONPATH": str(self.folder)}  # this tree, not the one that the environment was installed from
        self.environment = {**os.environ, **config}
        self._door = Door(folder / "door", self.folder, COMMANDS, self.environment)
        self.environment["PATH"] = f"{self._door.bin}:{path}"
        self._log = folder / "serve.log"
        self._serving: subprocess.Popen[bytes] | None = None
        self._command = ""

    def open_page(self) -> None:
        """Begin a page: a service runs as every page expects it, whatever the page before did."""
        self.serve(SERVE)

    def run(self, command: str) -> str:
        """What a command prints; AssertionError if it fails. `make serve` runs on in the background."""
        command = command.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        if SERVE in command:
            self.serve(command)
            return ""
        return self._finished(["bash", "-euo", "pipefail", "-c", command])

    def python(self, code: str) -> str:
        """What a program prints."""
        return self._finished(["python", "-c", code.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")])

    def serve(self, command: str) -> None:
        """Run a command that serves, as if in another terminal; return when the service is ready.

        A service that runs already is stopped first, unless the same command started it: a start takes ten seconds.
        """
        command = command.partition("#")[0].strip()
        if command == self._command and self._serving is not None and self._serving.poll() is None:
            return
        self._stop()
        with self._log.open("wb") as log:
            self._serving = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, stdout=log, stderr=log, process_group=0
            )
        self._command = command
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._serving.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"`{command}` was not ready: {self._log.read_text()}")

    def untracked(self) -> list[str]:
        """The files that commands have left in the clone and that git does not ignore."""
        listed = self._finished(["git", "ls-files", "--others", "--exclude-standard", "--", ":!.venv"])
        return listed.splitlines()

    def close(self) -> None:
        self._stop()
        self._door.close()

    def _stop(self) -> None:
        """Stop the service, as Ctrl-C does."""
        if self._serving is not None and self._serving.poll() is None:
            os.killpg(self._serving.pid, signal.SIGINT)
            self._serving.wait(60)
        self._serving = None

    def _finished(self, arguments: list[str]) -> str:
        done = subprocess.run(
            arguments, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=RUN_S
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
