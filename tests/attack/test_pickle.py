"""No pickle is ever executed, from a request or from the queue, and no function that a foreign job names is called."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rq import Queue
from rq.job import Job

from store import bookkeeping, keys
from tests.service import eventually
from tests.support.api import ROOT, problem, text
from tests.support.attacked import QUESTION, URL, Whole
from tests.support.pool import flat
from tests.support.programs import poison

PACKAGES = ("smoothcert", "models", "store", "workers", "app", "benchmarks")
NEVER_IMPORTED = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
NEVER_CALLED = {"eval", "exec", "__import__", "compile"}
ONLY_WITH = {"load": {"np": ("allow_pickle", False), "numpy": ("allow_pickle", False), "torch": ("weights_only", True)}}


def executing(tree: ast.AST) -> Iterator[str]:
    """Everything in a file that could execute data as code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for name in [module or "", *(alias.name for alias in node.names if module is None)]:
                if name.partition(".")[0] in NEVER_IMPORTED:
                    yield f"line {node.lineno}: imports {name}"
        elif isinstance(node, ast.Call):
            yield from _calling(node)


def _calling(node: ast.Call) -> Iterator[str]:
    match node.func:
        case ast.Name(id=name) if name in NEVER_CALLED:
            yield f"line {node.lineno}: calls {name}"
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in ONLY_WITH.get(name, {}):
            keyword, value = ONLY_WITH[name][module]
            if not any(each.arg == keyword and ast.unparse(each.value) == str(value) for each in node.keywords):
                yield f"line {node.lineno}: {module}.{name} without {keyword}={value}"


def test_nothing_here_makes_code_of_data() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): list(executing(ast.parse(path.read_text()))) for path in files}
    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "def f():\n    from dill import loads",
        "import marshal as m",
        "eval('1')",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path, weights_only=False)",
    ],
)
def test_the_reader_sees_what_makes_code_of_data(code: str) -> None:
    assert list(executing(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["np.load(path, allow_pickle=False)", "torch.load(p, weights_only=True)", "json.load(f)"]
)
def test_the_reader_sees_what_does_not(code: str) -> None:
    assert not list(executing(ast.parse(code)))


def in_npy(pickled: bytes) -> bytes:
    """The pickle as a .npy file that claims to be an array of objects."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (1, 3, 8, 8)})
    return file.getvalue() + pickled


def test_a_pickle_in_a_request_is_not_executed(whole: Whole, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    sent, request = poison(mark), json.dumps(QUESTION)
    tensor = {"dtype": "uint8", "shape": [3, 8, 8], "data": text(sent)}
    for image in (text(sent), tensor):
        problem(whole.client.post(URL, json={**QUESTION, "images": [image]}), "invalid_image")
    form = {"request": (None, request), "images": sent}
    problem(whole.client.post(URL, files=form), "invalid_image")
    npy = {"Content-Type": "application/x-npy"}
    for body in (sent, in_npy(sent)):
        problem(whole.client.post(URL, params={"request": request}, content=body, headers=npy), "malformed_npy")
    for kind in ("application/json", "application/octet-stream", "application/x-pickle"):
        assert whole.client.post(URL, content=sent, headers={"Content-Type": kind}).status_code in (400, 415)
    assert not mark.exists()
    assert whole.certifies()


def test_a_pickle_in_the_queue_is_not_executed(whole: Whole, tmp_path: Path) -> None:
    mark, name = tmp_path / "executed", bookkeeping.queue_name("default")
    redis = whole.pool.redis
    foreign = Queue(name, connection=redis).enqueue(Path.touch, mark)  # RQ's own serializer pickles
    eventually(lambda: not Job.exists(foreign.id, connection=redis), "the refusal")
    certification = whole.pool.submit(flat(0.9))
    whole.pool.ended(certification)
    redis.hset(keys.record(certification), mapping={"status": "queued", "execution": ""})
    redis.hset(bookkeeping.job_key(certification), "data", poison(mark))
    redis.rpush(bookkeeping.waiting_key(name), certification)
    eventually(lambda: not redis.exists(bookkeeping.job_key(certification)), "the refusal")
    assert not mark.exists()
    assert whole.certifies()


def test_a_pickle_for_images_is_not_executed(whole: Whole, tmp_path: Path) -> None:
    mark = tmp_path / "executed"

    class Poison:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (mark,)

    images = np.empty(1, object)
    images[0] = Poison()
    record = whole.pool.ended(whole.pool.submit(images))  # numpy pickles an array of objects
    assert record.status == "failed"
    assert not mark.exists()
    assert whole.certifies()


def test_a_job_of_another_function_is_refused_and_logged(whole: Whole) -> None:
    certification = whole.pool.submit(flat(0.9))
    whole.pool.ended(certification)
    redis, name = whole.pool.redis, bookkeeping.queue_name("default")
    redis.hset(keys.record(certification), mapping={"status": "queued", "execution": ""})
    foreign = Job.create(
        "subprocess.getoutput",
        args=("id\n{}",),
        id=certification,
        connection=redis,
        serializer=bookkeeping.JSONSerializer,
    )
    Queue(name, connection=redis, serializer=bookkeeping.JSONSerializer).enqueue_job(foreign)
    eventually(lambda: not Job.exists(certification, connection=redis), "the refusal")
    (line,) = [
        line
        for line in whole.worker_lines()
        if line.get("certification_id") == certification and line["level"] == "error"
    ]
    assert "'subprocess.getoutput'" in line["message"]
    assert whole.certifies()
