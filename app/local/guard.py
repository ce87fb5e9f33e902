"""Child processes that end with their parent, however it ends: an exit, an exception, SIGKILL.

    this process --- lifeline ---> guard ---> the command, in a process group of its own

The lifeline is a pipe of which only this process holds the writing end, so the system closes it when the process ends.
The guard notices that, kills the group and ends. If the guard is killed, the system kills the command (on Linux).

The guard is this file run as a script. It is a process with a single thread because PR_SET_PDEATHSIG fires when the
*thread* that forked ends: a command forked by a pool thread of ours would die with that thread.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

PR_SET_PDEATHSIG = 1
"""The option of Linux' prctl(2) that sets the signal which a process receives when its parent ends."""


class Guarded:
    """A running command that does not outlive this process. `kill` must be called at the end, even if it ended itself.

    The command runs in a session of its own, so Ctrl-C in the terminal reaches this process alone.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        output: int | None = None,
        keep: Sequence[int] = (),
    ) -> None:
        """Start the command; `output` receives stdout and stderr, `keep` are descriptors that it holds open."""
        life, self._life = os.pipe()
        try:
            self._guard = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", __file__, str(life), *command],
                env=environment,
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=(life, *keep),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(life)

    @property
    def ended(self) -> str | None:
        """How the command ended, for example `exit code 1` or `SIGKILL`; None while it runs."""
        code = self._guard.poll()
        if code is None:
            return None
        number = -code if code < 0 else code - 128  # the guard's own end, or the command's as the guard reports it
        with suppress(ValueError):
            return signal.Signals(number).name
        return f"exit code {code}"

    @property
    def ready(self) -> bool:
        """True: such a command does not say when it is ready, unlike `notice.Telling`."""
        return True

    def terminate(self) -> None:
        """Send SIGTERM to the command."""
        self._guard.terminate()

    def wait(self, seconds: float) -> bool:
        """Whether the command ended within this time."""
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(seconds)
        return self._guard.returncode is not None

    def kill(self) -> None:
        """End the command and its process group by SIGKILL, and wait until they are gone; harmless after their end."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        self._guard.wait()


def guard(life: int, command: Sequence[str]) -> int:
    """Run the command until it ends or the lifeline is cut; returns its exit code, 128 + n for signal n."""
    bell, ringer = os.pipe()
    os.set_blocking(ringer, False)
    signal.set_wakeup_fd(ringer)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the signal writes to the wakeup descriptor
    os.set_inheritable(life, False)
    child = subprocess.Popen(  # noqa: S603
        command, close_fds=False, process_group=0, preexec_fn=_end_with(os.getpid())
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: child.send_signal(number))
    while child.poll() is None and life not in select.select([life, bell], [], [])[0]:
        os.read(bell, 4096)
    with suppress(ProcessLookupError, PermissionError):  # no process, or (on macOS) none alive, is left in the group
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _end_with(parent: int) -> Callable[[], None] | None:
    """A function that a child calls before it becomes the command, so that it ends with its parent."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            os._exit(1)

    return end_with_parent


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), sys.argv[2:]))
