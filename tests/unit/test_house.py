"""The packages keep their shape: their imports, the contents of the wheel, and the purpose of each extra."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smoothcert.kinds import Kinds
from smoothcert.noise import NOISES
from smoothcert.procedures import PROCEDURES, Adaptive
from tests.support.blocks import blocks
from tests.support.certificates import certificate_of
from tests.support.clean import CleanEnvironment

ROOT = Path(__file__).parents[2]
OURS = {"smoothcert", "models", "store", "workers", "app", "benchmarks"}

# The packages of ours that each package may import, and the outside packages that it must not import.
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
EXTRAS = {
    "torch": ("smoothcert/engine",),
    "httpx": (),
    "httpx2": ("smoothcert/client",),
    "typer": ("smoothcert/cli",),
    "rich": ("smoothcert/cli", "smoothcert/client", "smoothcert/engine"),
    "matplotlib": ("smoothcert/plot.py",),
    "pandas": ("smoothcert/report.py",),
    "huggingface_hub": ("smoothcert/engine/hub",),
    "safetensors": ("smoothcert/engine/hub",),
    "timm": ("smoothcert/engine/hub",),
    "transformers": ("smoothcert/engine/hub",),
    "onnx": ("smoothcert/engine/onnx",),
    "onnxruntime": ("smoothcert/engine/onnx",),
    "cryptography": ("smoothcert/attestation",),
    "securesystemslib": ("smoothcert/attestation",),
}
"""The folders of smoothcert in which each optional package may be imported."""


def imports(path: Path) -> set[str]:
    """The modules that a file imports when it runs, anywhere in it; those for type checkers alone do not count."""
    tree = ast.parse(path.read_text(), str(path))
    for_types = {id(node) for block in ast.walk(tree) if _is_for_types(block) for node in ast.walk(block)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            found.add(node.module or "")
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def files(package: str) -> Iterator[tuple[str, set[str]]]:
    """The files of a package relative to the root, each with the modules that it imports."""
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), imports(path)


def test_the_arrows_point_one_way() -> None:
    checked = 0
    for package, allowed in MAY_IMPORT.items():
        for name, modules in files(package):
            seen = packages(modules)
            never = NEVER.get(package, set()) - ({"torch"} if name.startswith("smoothcert/engine/") else set())
            assert seen & OURS <= allowed | {package}, f"{name} imports {sorted(seen & OURS - allowed - {package})}"
            assert not seen & never, f"{name} imports {sorted(seen & never)}"
            checked += 1
    assert checked > 20


def test_nothing_outside_the_engine_imports_it() -> None:
    """Otherwise `import smoothcert.x` would need an extra that no message names."""
    for name, modules in files("smoothcert"):
        inside = name.startswith("smoothcert/engine/")
        reached = {module for module in modules if module.startswith("smoothcert.engine")}
        assert inside or not reached, f"{name} imports {sorted(reached)}"
    for name, modules in files("app"):
        reached = {module for module in modules if module.startswith(("smoothcert.engine", "models", "workers"))}
        assert not reached, f"{name} imports {sorted(reached)}"


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_an_optional_package_is_imported_where_its_extra_is_needed(package: str) -> None:
    for name, modules in files("smoothcert"):
        if package in packages(modules):
            assert name.startswith(EXTRAS[package]), f"{name} imports {package}"


def test_no_class_name_is_defined_twice() -> None:
    names = Counter(
        name
        for package in OURS
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []


README_SECTIONS = [
    "Certify a model in three lines",
    "Serve it",
    "What the guarantee means",
    "Procedures",
    "Read on",
]


def test_the_readme_leads_in_few_lines_and_leaves_the_settings_to_the_operator() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 130
    assert re.findall("^## (.*)$", text, re.MULTILINE) == README_SECTIONS
    tables = [
        page for page in (ROOT / "docs").glob("*.md") if re.search(r"^\| `SMOOTHCERT_", page.read_text(), re.MULTILINE)
    ]
    assert [page.name for page in tables] == ["operation.md"]
    assert "SMOOTHCERT_" not in text


NAMELESS = {"asked", "said", "told"}
"""Names that say who spoke. A variable is named by what it holds, such as detail, payload, fields, question."""


def test_variables_are_named_by_what_they_hold() -> None:
    for package in OURS | {"tests"}:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                        assert name not in NAMELESS, f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


# --- a noise is one file

TELL_NOISES_APART = {
    "smoothcert/__init__.py": "has the public names",
    "smoothcert/engine/diffusion.py": "a diffusion model denoises Gaussian noise by definition",
    "smoothcert/engine/study/paper.py": "has the paper's figures, each with the noise that it was measured with",
    "models/training/method.py": "some training methods are defined for Gaussian noise alone",
    "models/training/consistency.py": "is such a method",
    "models/training/macer.py": "is such a method",
    "models/training/smoothadv.py": "is such a method",
}
"""The files outside `smoothcert/noise` that may tell one noise from another, and why."""
CARRY_THE_SHORTHAND = {
    "smoothcert/request.py",
    "smoothcert/question.py",
    "smoothcert/wrapper.py",
    "app/requests/admission.py",
    "models/addition.py",
}
"""The files that read the shorthand `sigma` of a request or a command, and hand it to `noise.resolve`."""


def tells_apart(text: str, family: Kinds[Any], *others: str) -> bool:
    """Whether a file names the class of a kind or one of the other names, or compares something with a kind's name."""
    special = {kind.__name__ for kind in family} | {*others}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) | ast.alias(name=name) if name in special:
                return True
            case ast.Compare() | ast.MatchValue():
                values = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                if values & set(family.names):
                    return True
    return False


def tells_noises_apart(text: str) -> bool:
    """Whether a file tells one noise from another, or reads a `sigma`."""
    return tells_apart(text, NOISES, "sigma")


def test_no_file_assumes_a_gaussian_outside_its_own() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in OURS - {"benchmarks"}  # benchmarks choose the noise that they measure
        for path in (ROOT / package).rglob("*.py")
        if tells_noises_apart(path.read_text())
    }
    outside = {name for name in found if not name.startswith("smoothcert/noise/")}
    assert outside == TELL_NOISES_APART.keys() | CARRY_THE_SHORTHAND
    assert [path.name for path in (ROOT / "app/page").glob("*.js") if "gaussian" in path.read_text().lower()] == []


def test_the_reader_of_assumptions_sees_them_all() -> None:
    for text in (
        "from smoothcert.noise import Gaussian",
        "noise.GaussianLinf",
        "noise.sigma",
        "noise.name == 'gaussian'",
        "noise.name in ('uniform', 'gaussian')",
        "match noise.name:\n    case 'gaussian':\n        pass",
    ):
        assert tells_noises_apart(text), text
    assert not tells_noises_apart("noise.radius(0.9)\nresolve(sigma=sigma)\nnoise.norm == 'l2'")


TELL_PROCEDURES_APART = {
    "app/docs/examples.py": "has an example of some",
    "app/requests/admission.py": "a request for a prediction names no procedure: it is `predict`",
    "workers/replay.py": "a transfer is replayed with two ensembles",
}
"""The files of the service that may tell one procedure from another, and why."""


def test_the_service_and_its_page_ask_a_procedure_instead_of_knowing_it() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("app", "store", "workers")
        for path in (ROOT / package).rglob("*.py")
        if tells_apart(path.read_text(), PROCEDURES)
    }
    assert found == TELL_PROCEDURES_APART.keys()
    named = re.compile(rf"[\"'`]({'|'.join(PROCEDURES.names)})[\"'`]")
    pages = {path.name: named.findall(path.read_text()) for path in (ROOT / "app/page").glob("*.js")}
    assert {name: names for name, names in pages.items() if names} == {}
    assert tells_apart("procedure.name == 'largest'", PROCEDURES)
    assert not tells_apart("procedure.targeted", PROCEDURES)


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "import torch.nn as nn\ndef f():\n    from rq.job import Job\n    import app\n"
        "if TYPE_CHECKING:\n    import redis\n"
    )
    assert imports(file) == {"torch.nn", "rq.job", "app"}
    assert packages(imports(file)) == {"torch", "rq", "app"}


def test_importing_smoothcert_brings_in_nothing_heavy() -> None:
    script = (
        "import sys, time\n"
        "before = time.process_time()\n"
        "import smoothcert\n"
        "seconds = time.process_time() - before\n"
        "import smoothcert.cli, smoothcert.certificate\n"
        "heavy = {'torch', 'torchvision', 'fastapi', 'rq', 'redis', 'matplotlib', 'pandas', 'scipy.stats', 'PIL'}\n"
        "heavy |= {'cryptography', 'securesystemslib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "print(seconds)"
    )
    command = [sys.executable, "-c", script]
    seconds = [float(subprocess.run(command, check=True, cwd=ROOT, capture_output=True).stdout) for _ in range(3)]
    assert min(seconds) < 0.1


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder))
    command = [sys.executable, "-I", "-m", "pip", "wheel", *options, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


MOST_WHEEL_BYTES = 600_000
"""The most bytes of the wheel, which is source code alone: 415 kB in version 0.2.0, and half as much again."""


def test_the_wheel_holds_smoothcert_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"smoothcert"}
    assert {"smoothcert/cli/app.py", "smoothcert/procedures/adaptive.py", "smoothcert/py.typed"} <= set(names)
    assert {"smoothcert/engine/smoothed.py", "smoothcert/noise/gaussian.py"} <= set(names)
    code = {name for name in names if name.startswith("smoothcert/")}
    assert {Path(name).suffix for name in code} == {".py", ".typed"}
    assert wheel.stat().st_size < MOST_WHEEL_BYTES


def test_the_wheel_names_its_dependencies_and_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = archive.read(name).decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(needed) == ["numpy", "pydantic", "scipy"]
    assert set(re.findall(r"^Provides-Extra: (\w+)$", metadata, re.MULTILINE)) == {
        "torch",
        "client",
        "cli",
        "plot",
        "openvino",
        "attest",
        "hub",
        "onnx",
    }


REFUSED = """
import smoothcert
for name in ("Smoothed", "Client", "AsyncClient"):
    try:
        getattr(smoothcert, name)
    except smoothcert.MissingExtraError as error:
        print(error)
"""


BASE = ("numpy", "pydantic", "scipy")
"""The packages that the wheel needs without any extra."""


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs without any extra first, and then with those of the command."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    clean = CleanEnvironment(tmp_path)
    clean.provide(*BASE)
    clean.install(str(wheel))
    (tmp_path / "certificate.json").write_text(certificate_of(Adaptive(), 0.9).to_json())
    script = (
        "import importlib.util as u, pathlib, smoothcert.plan\n"
        "from smoothcert import Certificate, Gaussian, verify\n"
        "text = pathlib.Path('certificate.json').read_text()\n"
        "names = 'torch', 'httpx', 'httpx2', 'typer', 'rich', 'fastapi', 'rq', 'redis', 'models', 'app'\n"
        "print(bool(verify(Certificate.from_json(text))), [n for n in names if u.find_spec(n)])"
    )
    assert clean.ran(script) == "True []\n"
    needs = clean.ran(REFUSED).splitlines()
    assert needs[0] == "smoothcert.Smoothed needs torch: pip install '.[torch]' in a clone of smoothcert"
    assert len(needs) == 3
    sentence = r"smoothcert\.\w+ needs \w+: pip install '\.\[client\]' in a clone of smoothcert"
    assert all(re.fullmatch(sentence, each) for each in needs[1:])
    command = ("plan", "--radius", "0.25", "--sigma", "0.25")
    done = clean.command(*command)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"pip install '\.\[\S*cli\]' in a clone of smoothcert\n$", done.stderr), done.stderr

    clean.provide("httpx2", "rich", "typer")
    clean.install(f"{wheel}[cli,client]")
    done = clean.command(*command)
    assert "0.952864" in done.stdout, done.stderr
    done = clean.command("replay", "certificate.json", "x.png")
    assert done.returncode == 1
    assert done.stderr == "error: replay needs torch: pip install '.[torch]' in a clone of smoothcert\n"
    done = clean.command(*command, "--plot", "x.png")
    assert done.returncode == 1
    assert "pip install '.[plot]' in a clone of smoothcert" in done.stderr


README_COMMAND = "pip install '.[torch]'"
"""The README's command. The test installs the wheel of the same tree instead, with the pinned packages."""
UNWANTED = """
import sys
print(sorted({"httpx2", "typer", "rich", "matplotlib", "torchvision", "pandas"} & set(sys.modules)))
"""


def test_the_extra_torch_certifies_a_model_in_a_clean_environment(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command, lines, output, *_ = blocks(ROOT / "README.md", ROOT)
    assert command.commands == [README_COMMAND]
    clean = CleanEnvironment(tmp_path)
    clean.provide(*BASE, "torch")
    clean.install(f"{wheel}[torch]")
    assert clean.ran(lines.text + UNWANTED) == output.text + "[]\n"


def test_a_package_that_was_not_provided_is_not_installed(wheel: Path, tmp_path: Path) -> None:
    """Otherwise the tests above would not notice that the wheel needs more than it says."""
    clean = CleanEnvironment(tmp_path)
    clean.provide("numpy", "scipy")
    with pytest.raises(AssertionError, match=r"smoothcert.*conflicting dependencies|No matching .* for pydantic"):
        clean.install(str(wheel))
