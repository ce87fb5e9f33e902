"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from smoothcert.procedures import Adaptive
from tests.support.certificates import altered, certificate_of
from tests.support.command import smoothcert, smoothcert_process

PNG = b"\x89PNG\r\n"


COMMAND = (sys.executable, "-m", "smoothcert.cli")
COMMANDS = (
    *("certify", "predict", "evaluate", "report", "compare", "diagnose", "watch", "cancel", "ensembles"),
    *("plan", "verify", "replay", "list"),
)
PLAN = ("plan", "--radius", "0.25", "--sigma", "0.25")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "noise", [("--sigma", 0.25), ("--noise", "gaussian:sigma=0.25"), ("--noise", '{"name": "gaussian", "sigma": 0.25}')]
)
def test_plan_prints_a_table(noise: tuple[object, ...]) -> None:
    done = smoothcert("plan", "--radius", 0.25, *noise)
    assert done.returncode == 0, done.stderr
    for expected in ("0.952864", "sequential, strict", "100 1,000 10,000 120,069"):
        assert expected in done.stdout


@pytest.mark.parametrize(
    ("radius", "noise", "row", "words"),
    [
        (2, "replacement:keep=0.8,levels=2", "9", "Radii are numbers of changed values (l0), for values in [0, 1]."),
        (0.5, "uniform:reach=1", "0.999861", "sums of absolute changes (l1), for values in [0, 1]; this noise proves"),
        (0.01, "gaussian-linf:sigma=0.25,dimension=3072", "0.017191", "changes most (l-infinity), for values in"),
    ],
)
def test_plan_speaks_of_radii_as_their_norm_does(radius: float, noise: str, row: str, words: str) -> None:
    done = smoothcert("plan", "--radius", radius, "--noise", noise)
    assert done.returncode == 0
    assert re.search(rf"^ *fixed +yes +{row} ", done.stdout, re.MULTILINE)
    assert words in done.stdout


def test_plan_says_what_a_radius_out_of_reach_would_take() -> None:
    done = smoothcert("plan", "--radius", 1, "--sigma", 0.25)
    assert "218,105 samples" in " ".join(done.stdout.split())


def test_plan_says_which_noise_it_is_for_and_what_8_bit_images_get() -> None:
    """`certify` of a PNG file states other samples than this plan, unless the plan is for the noise of 8-bit images."""
    words = ("plan", "--radius", 1.2, "--noise")
    floats, eight_bit = (
        " ".join(smoothcert(*words, f"{kind}:sigma=0.25").stdout.split()) for kind in ("gaussian", "rounded-gaussian")
    )
    assert "it would take 8,707,308 samples" in floats
    assert "8-bit images get rounded-gaussian" in floats
    assert floats.endswith("--noise rounded-gaussian:sigma=0.25.")
    assert "it would take 8,709,865 samples" in eight_bit
    assert eight_bit.endswith("The noise is rounded-gaussian, sigma 0.25.")


def test_plan_does_not_say_of_a_radius_beyond_double_precision_that_nothing_would_prove_it() -> None:
    printed = " ".join(smoothcert("plan", "--radius", 5, "--sigma", 0.25).stdout.split())
    assert "no number of samples" not in printed
    assert "so close to 1 that it is beyond what can be computed" in printed


@pytest.mark.parametrize("radius", [1, 2])
def test_the_plan_for_a_radius_out_of_reach_names_the_procedure_that_reaches_farthest(radius: float) -> None:
    words = ("plan", "--radius", radius, "--sigma", 0.25)
    reached = {name: each["largest_radius"] for name, each in json.loads(smoothcert(*words, "--json").stdout).items()}
    farthest = max(reached.values())
    found = re.search(
        r"samples\. (.+) comes nearest: .* provable one, (\S+);", " ".join(smoothcert(*words).stdout.split())
    )
    assert found is not None
    assert (reached[found[1]], float(found[2])) == (farthest, farthest)


def test_plan_understands_decimal_commas() -> None:
    options = {"--radius": "0.25", "--sigma": "0.25", "--alpha": "0.01", "--beta": "0.02", "--p-a": "0.99"}
    points, commas = (
        smoothcert("plan", *(word.replace(".", sign) for pair in options.items() for word in pair), "--json")
        for sign in (".", ",")
    )
    assert commas.returncode == 0, commas.stderr
    assert commas.stdout == points.stdout


def test_plan_as_json_is_one_object() -> None:
    plans = json.loads(smoothcert("plan", "--radius", 0.25, "--sigma", 0.25, "--p-a", 0.9, "--json").stdout)
    assert plans["fixed"]["largest_radius"] == 0.952864
    assert plans["sequential, strict"]["expected"][0]["samples"] < 1000


def test_plan_lists_every_procedure_that_there_is() -> None:
    script = (
        "import sys; from typing import Literal; from smoothcert.cli import main\n"
        "from smoothcert.procedures import PROCEDURES, Fixed\n"
        "class Tiny(Fixed):\n"
        "    name: Literal['tiny'] = 'tiny'\n"
        "    label = property(lambda self: 'tiny, of a test')\n"
        "PROCEDURES.add(Tiny)\n"
        "sys.argv[1:] = ['plan', '--radius', '0.25', '--sigma', '0.25', '--n', '50', '--json']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    plans = json.loads(done.stdout)
    assert {"fixed", "adaptive", "sequential, strict", "tiny, of a test"} <= plans.keys()
    assert [plans[label]["most_samples"] for label in ("fixed", "tiny, of a test")] == [150, 150]


def test_plan_needs_a_noise_or_a_service() -> None:
    done = smoothcert("plan", "--radius", 1, "--url", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "give --noise or --sigma, or the address of a service with an ensemble: " in done.stderr
    done = smoothcert("plan", "--radius", 1, "--sigma", 1, "--ensemble", "mine")
    assert done.returncode == 2
    assert "--ensemble mine has a noise of its own" in done.stderr


def test_plan_draws_a_picture(tmp_path: Path) -> None:
    done = smoothcert("plan", "--radius", 0.25, "--sigma", 0.25, "--plot", tmp_path / "plan.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["--radius", "-1", "--sigma", "0.25"], "-1.0"),
        (["--radius", "1", "--sigma", "0"], "0.0"),
        (["--radius", "nan", "--sigma", "1"], "nan"),
        (["--radius", "1", "--noise", "pink"], "got 'pink'"),
        (["--radius", "1", "--noise", "gaussian:sigma=-1"], "got -1"),
        (["--radius", "1", "--noise", "gaussian:sigma=1", "--sigma", "2"], "leave one out"),
        (["--radius", "1", "--sigma", "1", "--alpha", "2"], "2.0"),
        (["--radius", "1", "--sigma", "1", "--n", "0"], "got 0"),
        (["--radius", "1", "--sigma", "1", "--stages", "10,10"], "[10, 10]"),
        (["--radius", "1", "--sigma", "1", "--stages", "ten"], "'ten'"),
        (["--radius", "1", "--sigma", "1", "--p-a", "7"], "7.0"),
        (["--radius", "1", "--sigma", "1", "--plot", "/nowhere/plan.png"], "/nowhere/plan.png"),
        (
            ["--radius", "1", "--sigma", "1", "--plot", "plan.xyz"],
            "--plot takes the name of a picture (.png, .svg, .pdf), got",
        ),
        (["--radius", "1", "--sigma", "1", "--plot", "/tmp"], "cannot write /tmp: it is a folder"),
        (["--radius", "1", "--sigma", "1", "--plot", "plan"], "--plot takes the name of a picture (.png, .svg, .pdf)"),
    ],
)
def test_bad_input_is_one_sentence_that_names_it(arguments: list[str], seen: str) -> None:
    done = smoothcert("plan", *arguments)
    assert done.returncode == (1 if seen.startswith(("/", "cannot write")) else 2), "only the disk is not to blame"
    assert seen in done.stderr
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_debug_shows_the_traceback_wherever_it_stands(place: int) -> None:
    arguments = ["plan", "--radius", "-1", "--sigma", "1"]
    assert "Traceback" in smoothcert_process(*arguments[:place], "--debug", *arguments[place:]).stderr


def test_a_file_may_be_called_debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--debug").write_text(certificate_of(Adaptive(), 0.9).to_json())
    assert smoothcert("verify", "--", "--debug").stdout == "consistent  --debug\n"


def test_verify_accepts_a_certificate_and_names_what_was_altered(tmp_path: Path) -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(certificate.to_json())
    bad.write_text(altered(certificate, ["samples"], 7, signed=True).to_json())
    assert smoothcert("verify", good).returncode == 0
    done = smoothcert("verify", good, bad)
    assert done.returncode == 1
    assert f"consistent  {good}" in done.stdout
    assert f"samples: is 7, the counts give {certificate.samples}" in done.stdout
    records = [json.loads(line) for line in smoothcert("verify", "--json", good, bad).stdout.splitlines()]
    assert [each["consistent"] for each in records] == [True, False]


def test_verify_reads_standard_input() -> None:
    assert smoothcert("verify", "-", given=certificate_of(Adaptive(), 0.9).to_json()).returncode == 0


@pytest.mark.parametrize("contents", [b"", b"not json", b"\xff\xfe", b"{}"])
def test_verify_refuses_what_is_no_certificate(tmp_path: Path, contents: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(contents)
    done = smoothcert("verify", file)
    assert done.returncode == 1
    assert "not a certificate" in done.stdout
    assert "Traceback" not in done.stderr


def test_verify_names_a_file_that_is_not_there() -> None:
    done = smoothcert_process("verify", "nowhere.json")
    assert done.returncode == 1
    assert done.stdout == "wrong  nowhere.json\n  cannot be read: No such file or directory\n"


def test_the_version_is_told() -> None:
    assert smoothcert_process("--version").stdout.startswith("smoothcert 0.")


# --- verify: whatever holds certificates

GOOD, SECOND, THIRD = (certificate_of(Adaptive(), 0.9, seed).model_dump(mode="json") for seed in range(3))
BAD = altered(certificate_of(Adaptive(), 0.9), ["samples"], 7, signed=True).model_dump(mode="json")


def as_lines(*records: Any) -> str:
    return "".join(json.dumps(each) + "\n" for each in records)


def as_ledger(*certificates: Any) -> str:
    return as_lines(
        {"run": {"radius": 0.25}, "once": {}}, *({"image": "x", "certificate": each} for each in certificates)
    )


@pytest.mark.parametrize(
    ("written", "place"),
    [
        (lambda *each: json.dumps({"id": "cert_1", "status": "succeeded", "certificates": each}), "certificates[1]"),
        (lambda *each: json.dumps(each, indent=2), "certificates[1]"),
        (as_lines, "line 2"),
        (as_ledger, "line 3"),
    ],
    ids=["certification", "list", "lines", "ledger"],
)
def test_verify_checks_every_certificate_in_a_file(written: Callable[..., str], place: str) -> None:
    done = smoothcert("verify", "-", given=written(GOOD, SECOND, THIRD))
    assert (done.returncode, done.stdout) == (0, "consistent  - (3 certificates)\n")
    done = smoothcert("verify", "-", given=written(SECOND, BAD, THIRD))
    assert done.returncode == 1
    assert done.stdout.startswith("wrong  - (3 certificates)\n")
    assert f"\n  {place}: samples: is 7, the counts give {GOOD['samples']}" in done.stdout
    record = json.loads(smoothcert("verify", "--json", "-", given=written(SECOND, BAD, THIRD)).stdout)
    assert (record["certificates"], record["consistent"]) == (3, False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[]", "there is no certificate in it"),
        ('{"certificates": []}', "there is no certificate in it"),
        (as_lines({"run": {}}, {"run": {}}), "there is no certificate in it"),
        (as_lines(GOOD) + '{"form', "line 2: not a certificate"),
        (json.dumps([GOOD, 7]), "certificates[1]: not a certificate"),
        (as_lines(GOOD, {"image": "x"}), "line 2: not a certificate"),
        ('{"certificates": [], "certificates": [7]}', "the key 'certificates' comes twice"),
        (json.dumps({**GOOD, "radius": 9.9, "certificates": [GOOD]}), "certificates: there is no such field"),
        (as_lines({**GOOD, "radius": 9.9, "certificate": GOOD}, GOOD), "certificate: there is no such field"),
        (as_lines({**GOOD, "radius": 9.9, "run": {}}, GOOD), "run: there is no such field"),
        (json.dumps([GOOD]).replace('"radius"', '"radius": 9, "radius"', 1), "the key 'radius' comes twice"),
        ("[" * 100_000, "not a certificate"),
    ],
)
def test_verify_says_what_is_wrong_with_a_file(given: str, message: str) -> None:
    done = smoothcert("verify", "-", given=given)
    assert done.returncode == 1
    assert message in done.stdout
    assert "Traceback" not in done.stderr


# --- the process


def test_the_exit_codes_are_in_the_help() -> None:
    shown = re.sub(r" *\n *", " ", smoothcert("--help").stdout)
    for words in (
        "0  success",
        "1  an error",
        "2  a wrong command line",
        "3  certify, predict and watch",
        "plan: no procedure can prove the radius",
        "130  stopped by Ctrl-C",
    ):
        assert words in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_is_shown_without_a_type(command: str) -> None:
    shown = smoothcert(command, "--help").stdout
    assert re.search(r"--help +Show this message", shown)
    assert "bool" not in shown


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [80, 100])
def test_the_help_breaks_lines_only_at_the_edge(command: str, columns: int) -> None:
    shown = smoothcert(command, "--help", env={"COLUMNS": str(columns)}).stdout
    description = [line.strip() for line in shown.partition("╭")[0].splitlines()]
    for line, following in pairwise(description):
        if line and following:
            first, *_ = following.split()
            assert len(f" {line} {first}") >= columns, (line, following)


@pytest.mark.parametrize("arguments", [["nix"], ["plan"], ["plan", "--radius", "x", "--sigma", "1"], ["certify"], []])
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str]) -> None:
    assert smoothcert(*arguments).returncode == 2


def test_the_help_imports_nothing_slow() -> None:
    script = (
        "import sys, smoothcert.cli.app\n"
        "slow = {'numpy', 'scipy', 'pydantic', 'httpx2', 'matplotlib', 'torch'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.parametrize("arguments", [PLAN, (*PLAN, "--json"), ("--help",)])
def test_a_reader_who_leaves_is_no_error_to_speak_of(arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("arguments", [PLAN, (*PLAN, "--json")])
def test_a_full_disk_is_told(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device\n")


def test_output_that_is_closed_is_written_nowhere() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join([*COMMAND, *PLAN])} >&-"], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_letters_that_the_output_does_not_have_are_replaced() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*COMMAND, "plan", "--radius", ".25", "--sigma", ".25"], capture_output=True, env=env, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_is_no_traceback() -> None:
    read, write = os.pipe()  # nothing is ever written into it
    process = subprocess.Popen(
        [*COMMAND, "verify", "--json", "/dev/null", "-"],
        stdin=read,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the tests may run in the background
    )
    assert process.stdout is not None
    assert "/dev/null" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(read)
    os.close(write)
    assert (process.returncode, err) == (130, "stopped\n")


# --- extras


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_is_one_sentence(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from smoothcert.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    sentence = "smoothcert: the command needs the extra cli: pip install '.[client,cli]' in a clone of smoothcert\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


@pytest.mark.parametrize("name", ["Client", "AsyncClient"])
def test_without_the_extra_a_client_is_one_sentence_and_its_errors_are_there(name: str) -> None:
    script = (
        "import sys, smoothcert; sys.modules['httpx2'] = None\n"
        "smoothcert.NoAnswerError, smoothcert.ImageError\n"
        f"try: smoothcert.{name}\n"
        "except smoothcert.MissingExtraError as error: print(error, isinstance(error, smoothcert.SmoothcertError))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == f"smoothcert.{name} needs httpx2: pip install '.[client]' in a clone of smoothcert True\n"


def test_a_command_that_needs_the_client_names_its_extra() -> None:
    script = (
        "import sys; sys.modules['httpx2'] = None; sys.argv[1:] = ['ensembles']\n"
        "from smoothcert.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    sentence = "error: smoothcert.Client needs httpx2: pip install '.[client]' in a clone of smoothcert\n"
    assert (done.returncode, done.stderr) == (1, sentence)


# --- completion

SMOOTHCERT = Path(sys.executable).with_name("smoothcert")


def bash(script: str, home: Path) -> str:
    shell = shutil.which("bash")
    if shell is None or not SMOOTHCERT.exists():
        pytest.skip("completion is tried in bash with smoothcert installed")
    env = {**os.environ, "HOME": str(home), "PATH": f"{SMOOTHCERT.parent}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "--norc", "-c", script], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(*words: str) -> str:
    """A script that prints what bash would offer in place of the last word."""
    listed = " ".join(map(shlex.quote, words))
    return (
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _smoothcert_completion smoothcert; echo ${{COMPREPLY[*]}}"
    )


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    show = 'eval "$(smoothcert --show-completion)"'
    lines = [show, completed("smoothcert", "e"), completed("smoothcert", "certify", "--fam")]
    assert bash("\n".join(lines), tmp_path).split("\n")[:2] == ["evaluate ensembles", "--family-wise"]


def test_completion_is_installed_for_good(tmp_path: Path) -> None:
    bash("smoothcert --install-completion; true", tmp_path)
    script = f"source {tmp_path}/.bashrc\n{completed('smoothcert', 'wat')}"
    assert bash(script, tmp_path) == "watch\n"
