"""`smoothcert plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.files import require_writable
from smoothcert.cli.options import AsJson
from smoothcert.cli.screen import note, out, table
from smoothcert.errors import DomainError

if TYPE_CHECKING:
    from smoothcert.plan import Plan
    from smoothcert.procedures import AnyProcedure


def plan(
    radius: Annotated[float, typer.Option(help="target radius (l2, pixels in [0, 1])")],
    sigma: Annotated[float, typer.Option(help="standard deviation of the noise")],
    alpha: Annotated[float, typer.Option(help="chance of a false certificate")] = 0.001,
    beta: Annotated[float, typer.Option(help="chance of abandoning what could be proved")] = 0.001,
    n: Annotated[int, typer.Option(help="samples of the fixed procedure")] = 100_000,
    stages: Annotated[str, typer.Option(help="stages of the adaptive procedure")] = "100,1000,10000,120000",
    max_samples: Annotated[int, typer.Option(help="budget of the sequential procedure")] = 131_100,
    p_a: Annotated[list[float] | None, typer.Option(help="expected samples at this p_A; repeatable")] = None,
    plot: Annotated[Path | None, typer.Option(help="write a picture (.png, .svg, .pdf)")] = None,
    as_json: AsJson = False,
) -> None:
    """What each procedure can prove and what it will cost, before any sample is drawn."""
    from smoothcert import plan as planning
    from smoothcert.noise import Gaussian
    from smoothcert.procedures import Adaptive, Fixed, Sequential

    if plot:
        require_writable(plot)
        if not plot.suffix:
            raise DomainError(f"--plot takes the name of a picture (.png, .svg, .pdf), got {str(plot)!r}")
    schedule = _whole_numbers(stages)
    procedures: dict[str, AnyProcedure] = {
        "fixed": Fixed(n=n),
        "adaptive": Adaptive(stages=schedule),
        "adaptive, kept": Adaptive(stages=schedule, keep_samples=True),
        "sequential, strict": Sequential(max_samples=max_samples, abandon="strict"),
        "sequential, lost-certificate": Sequential(max_samples=max_samples, abandon="lost-certificate"),
    }
    noise = Gaussian(sigma)
    plans = {name: planning.plan(each, noise, radius, alpha=alpha, beta=beta) for name, each in procedures.items()}
    p_as = p_a or _telling_p_as(noise.probability(radius))
    if as_json:
        print(json.dumps({name: _plan_as_json(each, p_as) for name, each in plans.items()}, indent=2))
    else:
        _print_plans(plans, p_as)
        out.print(f"Stages that lose no radius of fixed (Theorem 2(3)): {_recommendation(n, alpha)}")
    if plot:
        from smoothcert.plot import plot_plans

        plot_plans(plans, plot, alpha=alpha, beta=beta)
        note(f"picture: {plot}")


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
    proved = table(
        "procedure",
        "provable",
        numbers=("largest radius", "fewest", "most samples"),
        title="What can be proved, and with how many samples",
    )
    priced = table("procedure", numbers=tuple(f"{p:g}" for p in p_as), title="Expected samples by p_A")
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
    from smoothcert.plan import recommended_stages

    try:
        return " ".join(f"{stage:,}" for stage in recommended_stages(n, alpha=alpha))
    except DomainError as error:
        return str(error)
