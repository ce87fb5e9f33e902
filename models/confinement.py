"""A child process that reads and runs programs before the worker does.

Torch's readers are large and were not written for hostile files. Whatever a file makes them do, it first does it in a
process that cannot open a file or a socket (no descriptor is left), cannot write to one (a file size of zero), and has
little time and memory. A file that ends the child, by a crash or a limit, is refused, and the worker never reads it.
The child vets the file in the same way as the worker, so it adds to the vetting and does not replace it.

All programs of an ensemble share one child, because importing torch takes most of its time. The digests of files that
passed are kept in the store of smoothcert/cache.py. Somebody who can forge an entry
there already has the rights of the worker, and gains a file that skips this trial but not the vetting.
"""

from __future__ import annotations

import codecs
import hashlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from models.errors import ModelError, ProgramError
from models.programs import onnxruntime_version, read_program
from smoothcert import cache
from smoothcert.engine.errors import reason

SECONDS = 60
"""The seconds of processor time that the child may take for each program; a network of 2 GB takes a few."""
START_SECONDS = 240
"""The seconds on the clock that the child may take beside: importing torch on a busy machine takes most of them."""
MEMORY = 2 * 2**30
"""The bytes of memory that the child may take for the smallest program, beyond those of torch itself."""
COPIES = 8
"""The bytes of memory for each byte of a file: it is unpacked, written again, read, frozen and run."""
ROWS = 2
"""The number of images on which the child runs a network."""
_CHILD = ["-m", "models.confinement"]
_LAZY = (
    "torch._dynamo.precompile_context",
    "torch._export.db.logging",
    "torch._export.passes.add_runtime_assertions_for_constraints_pass",
    "torch._export.passes.collect_tracepoints_pass",
    "torch._export.serde.serialize",
    "torch._inductor.sizevars",
    "sympy.tensor.tensor",
    "torch.export._trace",
    "torch.export._unlift",
    "torch.export.pt2_archive._package",
    "torch.fx.experimental.validator",
    "torch.utils._sympy.reference",
    "torch.utils.serialization.config",
)
"""The modules that torch imports while it reads an exported program, when the child can no longer open files."""


@dataclass(frozen=True)
class Suspect:
    """A program that the child is to read and to run on images of this shape [C, H, W]."""

    kind: str
    data: bytes
    input_shape: tuple[int, int, int]

    @property
    def key(self) -> str:
        """The name under which the store keeps that it passed; another torch, shape or limit is another trial."""
        digest = hashlib.sha256(self.data).hexdigest()
        reader = f"onnxruntime {onnxruntime_version()}" if self.kind == "onnx" else f"torch {torch.__version__}"
        return f"trial 1 of {self.kind} {digest} on {self.input_shape} by {reader}"


def try_out(suspects: Sequence[Suspect]) -> list[ModelError | None]:
    """For each program, the error with which a confined child refused it, or None where it passed now or before."""
    untried = [suspect for suspect in suspects if not cache.load(suspect.key)]
    found = {id(suspect): error for suspect, error in zip(untried, _verdicts(untried), strict=True)}
    return [found.get(id(suspect)) for suspect in suspects]


def _verdicts(suspects: Sequence[Suspect]) -> list[ModelError | None]:
    """The verdicts of one child on all; where it ended on the way, of one child for each, which tells the culprit."""
    if not suspects:
        return []
    messages, end = _ask(suspects)
    if end is not None and len(suspects) > 1:
        return [verdict for suspect in suspects for verdict in _verdicts([suspect])]
    if end is not None:
        return [ProgramError(f"the program was tried in a confined process, which {end}")]
    for suspect, message in zip(suspects, messages, strict=True):
        if message is None:
            cache.save(suspect.key, True)
    return [None if message is None else ProgramError(message) for message in messages]


def _ask(suspects: Sequence[Suspect]) -> tuple[list[str | None], str | None]:
    """The messages of a child about these programs, or how it ended without them."""
    seconds = SECONDS * len(suspects)
    root = str(Path(__file__).parents[1])  # the folder from which the child can import models
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    header = [{"kind": each.kind, "bytes": len(each.data), "input_shape": each.input_shape} for each in suspects]
    lines = json.dumps(header).encode() + b"\n" + b"".join(suspect.data for suspect in suspects)
    # The child inherits no secret by its environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SMOOTHCERT_")}
    try:
        child = subprocess.run(  # noqa: S603  this module, by this interpreter
            [sys.executable, *_CHILD],
            env={**environment, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            input=lines,
            capture_output=True,
            timeout=START_SECONDS + seconds,
        )
    except subprocess.TimeoutExpired:
        return [], f"took more than {START_SECONDS + seconds} s"
    if child.returncode < 0:
        return [], f"was ended by {signal.Signals(-child.returncode).name}"
    if child.returncode:
        last = (child.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        return [], f"ended with exit code {child.returncode}: {last}"
    try:
        messages = json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        messages = None
    if not isinstance(messages, list) or len(messages) != len(suspects):
        return [], "ended without a verdict"
    return messages, None


def _serve() -> None:
    """The life of the child: read the files from the standard input, give up all rights, try each, tell."""
    header = json.loads(sys.stdin.buffer.readline())
    suspects = [
        Suspect(each["kind"], sys.stdin.buffer.read(each["bytes"]), tuple(each["input_shape"])) for each in header
    ]
    _prepare({suspect.kind for suspect in suspects})
    _confine(suspects)
    print(json.dumps([_tried(suspect) for suspect in suspects]))


def _prepare(kinds: set[str]) -> None:
    """Import and initialise what torch would look for in files later."""
    for module in _LAZY if "exported" in kinds else ():
        with suppress(ImportError):  # another version of torch needs others
            importlib.import_module(module)
    if "onnx" in kinds:
        _start_onnxruntime()
    codecs.lookup("cp437")  # the encoding of names in a zip
    torch.set_num_threads(1)
    torch.nn.Conv2d(1, 1, 1)(torch.zeros(1, 1, 1, 1))


def _start_onnxruntime() -> None:
    """Run a network of one layer, so that the library is loaded and has looked at the processor."""
    import onnx
    from onnx import helper

    from smoothcert.engine.onnx.network import OnnxNetwork

    sides = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 1, 1, 1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", sides[:1], sides[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    OnnxNetwork(model.SerializeToString())(torch.zeros(1, 1, 1, 1))


def _confine(suspects: Sequence[Suspect]) -> None:
    largest = max(len(suspect.data) for suspect in suspects)
    used = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0]) if _has_proc() else 2**31
    seconds = SECONDS * len(suspects) + int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    limits = {
        resource.RLIMIT_AS: used + MEMORY + COPIES * largest,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 0,
    }
    for limit, value in limits.items():
        with suppress(ValueError):  # the process has less already
            resource.setrlimit(limit, (value, value))


def _has_proc() -> bool:
    return Path("/proc/self/statm").exists()


def _tried(suspect: Suspect) -> str | None:
    """Why a program is refused, or None."""
    try:
        network = read_program(suspect.kind, suspect.data)
    except ModelError as error:
        return str(error)
    try:
        with torch.inference_mode():
            network(torch.zeros(ROWS, *suspect.input_shape))
    except Exception as error:  # whatever a foreign network raises
        return f"the program cannot take images of shape {(ROWS, *suspect.input_shape)}: {reason(error)}"
    return None


if __name__ == "__main__":
    _serve()
