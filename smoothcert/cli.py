"""The command `smoothcert`.

Exit codes: 0 all is well; 1 an error, or a certificate that does not hold; 2 the command line itself is wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.table import Table

from smoothcert import __version__
from smoothcert.certificate import Certificate, verify
from smoothcert.errors import DomainError, SmoothcertError, explain
from smoothcert.noise import Gaussian
from smoothcert.plan import Plan, plan, recommended_stages
from smoothcert.plot import plot_plans
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Sequential

cli = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command; an error is one sentence, unless --debug asks for the traceback."""
    try:
        cli()
    except (SmoothcertError, ValidationError) as error:
        if "--debug" in sys.argv:
            raise
        said = explain(error) if isinstance(error, ValidationError) else str(error)
        err.print("[bold red]error:[/]", end=" ")
        err.print(said, markup=False)
        raise SystemExit(1) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"smoothcert {__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Certified robustness by randomized smoothing."""


@cli.command("plan")
def plan_command(
    radius: Annotated[float, typer.Option(help="target radius (l2, pixels in [0, 1])")],
    sigma: Annotated[float, typer.Option(help="standard deviation of the noise")],
    alpha: Annotated[float, typer.Option(help="chance of a false certificate")] = 0.001,
    beta: Annotated[float, typer.Option(help="chance of abandoning what could be proved")] = 0.001,
    n: Annotated[int, typer.Option(help="samples of the fixed procedure")] = 100_000,
    stages: Annotated[str, typer.Option(help="stages of the adaptive procedure")] = "100,1000,10000,120000",
    max_samples: Annotated[int, typer.Option(help="budget of the sequential procedure")] = 131_100,
    p_a: Annotated[list[float] | None, typer.Option(help="expected samples at this p_A; repeatable")] = None,
    plot: Annotated[Path | None, typer.Option(help="write a picture (.png, .svg, .pdf)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """What each procedure can prove and what it will cost, before any sample is drawn."""
    schedule = _whole_numbers(stages)
    procedures: dict[str, AnyProcedure] = {
        "fixed": Fixed(n=n),
        "adaptive": Adaptive(stages=schedule),
        "adaptive, kept": Adaptive(stages=schedule, keep_samples=True),
        "sequential, strict": Sequential(max_samples=max_samples, abandon="strict"),
        "sequential, lost-certificate": Sequential(max_samples=max_samples, abandon="lost-certificate"),
    }
    noise = Gaussian(sigma)
    plans = {name: plan(each, noise, radius, alpha=alpha, beta=beta) for name, each in procedures.items()}
    p_as = p_a or _telling_p_as(noise.probability(radius))
    if as_json:
        print(json.dumps({name: _plan_as_json(each, p_as) for name, each in plans.items()}, indent=2))
    else:
        _print_plans(plans, p_as)
        out.print(f"Stages that lose no radius of fixed (Theorem 2(3)): {_recommendation(n, alpha)}")
    if plot:
        plot_plans(plans, plot, alpha=alpha, beta=beta)
        err.print(f"picture: {plot}")


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise DomainError(f"--stages takes whole numbers with commas between, got {text!r}") from None


def _telling_p_as(p0: float) -> list[float]:
    """A hopeless image, two on either side of the edge, and an easy one."""
    return [round(p0 + (1 - p0) * share, 6) for share in (-1.0, -0.1, 0.1, 0.5)]


def _plan_as_json(each: Plan, p_as: list[float]) -> dict[str, Any]:
    said = {name: value for name, value in vars(each).items() if name not in ("procedure", "boundaries")}
    said["procedure"] = each.procedure.model_dump()
    if each.boundaries is not None:
        said["expected"] = [{"p_a": p, **vars(each.expected(p))} for p in p_as]
    return said


def _print_plans(plans: dict[str, Plan], p_as: list[float]) -> None:
    proved = Table(
        "procedure",
        "provable",
        box=box.SIMPLE,
        title="What can be proved, and with how many samples",
        title_justify="left",
    )
    priced = Table("procedure", box=box.SIMPLE, title="Expected samples by p_A", title_justify="left")
    for heading in ("largest radius", "fewest", "most samples"):
        proved.add_column(heading, justify="right")
    for p in p_as:
        priced.add_column(f"{p:g}", justify="right")
    for name, each in plans.items():
        provable = "[green]yes[/]" if each.feasible else "[red]no[/]"
        fewest = f"{each.fewest_samples:,}" if each.fewest_samples else "–"
        proved.add_row(name, provable, f"{each.largest_radius:.6f}", fewest, f"{each.most_samples:,}")
        if each.boundaries:
            priced.add_row(name, *(f"{each.expected(p).samples:,.0f}" for p in p_as))
    out.print(proved)
    for name, each in plans.items():
        if not each.feasible:
            out.print(f"{name}: {each.reason}")
    out.print(priced)


def _recommendation(n: int, alpha: float) -> str:
    try:
        return " ".join(f"{stage:,}" for stage in recommended_stages(n, alpha=alpha))
    except DomainError as error:
        return str(error)


@cli.command("verify")
def verify_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="certificates as JSON; - for standard input")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Recompute everything that follows from a certificate's counts; exit 1 if anything is wrong."""
    wrong = 0
    for file in files:
        problems = _problems_in(file)
        wrong += bool(problems)
        if as_json:
            print(json.dumps({"file": str(file), "consistent": not problems, "problems": problems}))
            continue
        out.print("[bold red]wrong[/]" if problems else "[bold green]consistent[/]", end="  ")
        out.print(file, markup=False, soft_wrap=True)
        for problem in problems:
            out.print(f"  {problem}", markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


def _problems_in(file: Path) -> list[str]:
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return [str(problem) for problem in verify(Certificate.from_json(text)).problems]
    except (OSError, SmoothcertError) as error:
        return [str(error)]


if __name__ == "__main__":
    main()
