"""The house keeps its shape: who may import whom, and what the wheel holds."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"smoothcert", "models", "store", "workers", "app", "benchmarks"}

# who may import whom, of ours; and which outside packages are kept out of each
MAY_IMPORT = {
    "smoothcert": set(),
    "models": {"smoothcert"},
    "store": {"smoothcert"},
    "workers": {"smoothcert", "models", "store"},
    "app": {"smoothcert", "store"},
    "benchmarks": {"smoothcert", "models", "store", "workers", "app"},
}
NEVER = {
    "smoothcert": {"torch", "torchvision", "fastapi", "starlette", "uvicorn", "rq", "redis", "PIL"},
    "store": {"torch", "torchvision", "fastapi", "starlette", "PIL"},
    "app": {"torch", "torchvision"},
    "workers": {"fastapi", "starlette", "uvicorn"},
    "models": {"fastapi", "rq", "redis"},
}


def imports(path: Path) -> set[str]:
    """The top-level names that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            found.add((node.module or "").partition(".")[0])
    return found


def test_the_arrows_point_one_way() -> None:
    checked = 0
    for package, allowed in MAY_IMPORT.items():
        for path in (ROOT / package).rglob("*.py"):
            seen = imports(path)
            assert seen & OURS <= allowed | {package}, f"{path} imports {sorted(seen & OURS - allowed - {package})}"
            assert not seen & NEVER.get(package, set()), f"{path} imports {sorted(seen & NEVER[package])}"
            checked += 1
    assert checked > 20


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import torch.nn as nn\ndef f():\n    from rq.job import Job\n    import app\n")
    assert imports(file) == {"torch", "rq", "app"}


def test_importing_smoothcert_brings_in_nothing_heavy() -> None:
    script = (
        "import sys, smoothcert, smoothcert.cli, smoothcert.certificate\n"
        "heavy = {'torch', 'torchvision', 'fastapi', 'rq', 'redis', 'matplotlib', 'scipy.stats', 'PIL'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (path,) = folder.glob("*.whl")
    return path


def pip(python: str | Path, *arguments: str) -> None:
    done = subprocess.run([python, "-I", "-m", "pip", *arguments, "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_smoothcert_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"smoothcert"}
    assert {"smoothcert/cli/app.py", "smoothcert/procedures/adaptive.py", "smoothcert/py.typed"} <= set(names)
    assert wheel.stat().st_size < 200_000


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip(python, "install", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    script = (
        "import importlib.util as u, smoothcert.certificate, smoothcert.plan\n"
        "present = [n for n in ('torch', 'fastapi', 'rq', 'redis', 'models', 'app') if u.find_spec(n)]\n"
        "assert not present, present"
    )
    subprocess.run([python, "-I", "-c", script], check=True, cwd=tmp_path)
    command = [python.with_name("smoothcert"), "plan", "--radius", "0.25", "--sigma", "0.25"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "0.952864" in done.stdout, done.stderr
    command = [*command, "--plot", "x.png"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'smoothcert[plot]'" in done.stderr
