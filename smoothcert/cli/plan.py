from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.codes import UNREACHABLE, OptionError
from smoothcert.cli.files import require_writable
from smoothcert.cli.options import (
    ApiKey,
    AsJson,
    EnsembleName,
    Url,
    connected,
    named_noise,
    number,
    reading_options,
    whole_numbers,
)
from smoothcert.cli.screen import fitting, note, out, table
from smoothcert.errors import DomainError

if TYPE_CHECKING:
    from smoothcert.client import Client
    from smoothcert.noise import Noise
    from smoothcert.plan import Plan
    from smoothcert.procedures import Parameters

PICTURES = (".png", ".svg", ".pdf")
"""The endings of the pictures that --plot writes."""


def plan(
    radius: Annotated[float, number("The target radius, in the norm of the noise, for pixels in [0, 1].")],
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="NOISE",
            help="The noise, such as gaussian:sigma=0.25, or as a JSON object; that of the service's ensemble if left "
            "out.",
        ),
    ] = None,
    sigma: Annotated[float | None, number("Short for --noise gaussian:sigma=SIGMA.")] = None,
    alpha: Annotated[float, number("The chance of a false certificate.")] = 0.001,
    beta: Annotated[float, number("The chance of giving up on a radius that could be proved.")] = 0.001,
    n: Annotated[int | None, typer.Option(help="The samples of procedures that draw a fixed number.")] = None,
    stages: Annotated[
        str | None, typer.Option(help="The samples of each stage, of procedures with stages: 100,1000,10000,120000.")
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(help="The most samples of procedures that decide at every sample.")
    ] = None,
    p_a: Annotated[list[float] | None, number("Show expected samples at this p_A; repeatable.")] = None,
    plot: Annotated[Path | None, typer.Option(help=f"Write a picture ({', '.join(PICTURES)}).")] = None,
    ensemble: EnsembleName = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Show what each procedure can prove and what it will cost, before any sample is drawn.

    The exit code is 3 if no procedure can prove the radius.
    """
    from smoothcert import plan as planning
    from smoothcert.norms import measure

    if plot:
        require_writable(plot)
        if plot.suffix.lower() not in PICTURES:
            raise OptionError(f"--plot takes the name of a picture ({', '.join(PICTURES)}), got {str(plot)!r}")
    for p in p_a or ():
        if not 0 <= p <= 1:
            raise OptionError(f"--p-a must lie between 0 and 1, got {p!r}")
    chosen = _noise(noise, sigma, ensemble, partial(connected, url, api_key, retries=0))
    parameters = {"n": n, "stages": stages and whole_numbers(stages), "max_samples": max_samples}
    given = {name: value for name, value in parameters.items() if value is not None}
    with reading_options():
        plans = {
            each.label: planning.plan(each, chosen, radius, alpha=alpha, beta=beta)
            for each in _procedures(given, chosen)
        }
    reachable = any(each.feasible for each in plans.values())
    p_as = p_a or _telling_p_as(chosen.probability(radius))
    if as_json:
        print(json.dumps({name: _plan_as_json(each, p_as) for name, each in plans.items()}, indent=2))
    elif not reachable:
        out.print(_out_of_reach(plans), soft_wrap=True)
        out.print(_of_noise(chosen), soft_wrap=True)
    else:
        _print_plans(plans, p_as)
        out.print(f"Radii are {measure(chosen)}, for values in [0, 1]{_end(chosen)}.")
        out.print(_of_noise(chosen))
        out.print(f"Stages that lose no radius of fixed (Theorem 2(3)): {_recommendation(n, alpha)}")
    if plot:
        from smoothcert.plot import plot_plans

        plot_plans(plans, plot, alpha=alpha, beta=beta)
        note(f"picture: {plot}")
    if not reachable:
        raise typer.Exit(UNREACHABLE)


def _noise(text: str | None, sigma: float | None, ensemble: str | None, connect: Callable[[], Client]) -> Noise:
    """The noise that the options name, or that the ensemble of the service was trained for."""
    from smoothcert.noise import resolve

    with reading_options():
        noise = resolve(named_noise(text), sigma)
    if noise is not None and ensemble is not None:
        raise OptionError(f"--ensemble {ensemble} has a noise of its own: leave out --noise and --sigma, or --ensemble")
    return noise or _served_noise(ensemble, connect)


def _served_noise(ensemble: str | None, connect: Callable[[], Client]) -> Noise:
    from smoothcert.cli.ensembles import choose_ensemble
    from smoothcert.client.errors import NoAnswerError

    try:
        with connect() as client:
            served = choose_ensemble(client, ensemble)
    except NoAnswerError as error:
        raise DomainError(f"give --noise or --sigma, or the address of a service with an ensemble: {error}") from None
    if served.noise is None:
        raise DomainError(f"give --noise or --sigma: the noise that {served.name} was trained for is not known")
    note(f"noise: {served.noise.label}, that of {served.name}")
    return served.noise


def _of_noise(noise: Noise) -> str:
    """Which noise the plan is for, and which one 8-bit images get, if that is another."""
    exact = noise.on_bytes((1,))
    if exact == noise:
        return f"The noise is {noise.label}."
    numbers = {name: value for name, value in exact.parameters().items() if not isinstance(value, str)}
    parameters = ",".join(f"{name}={value:g}" for name, value in numbers.items())
    return (
        f"The noise is {noise.label}, as floating-point images get it. 8-bit images get {exact.name} noise, whose "
        f"figures differ a little: --noise {exact.name}:{parameters}."
    )


def _end(noise: Noise) -> str:
    """The end of the radii that a noise can prove at all, if it has one."""
    from smoothcert.figures import radius_text

    end = noise.supremum
    return "" if math.isinf(end) else f"; this noise proves none from {radius_text(end)} on"


def _procedures(parameters: dict[str, Any], noise: Noise) -> Iterator[Parameters]:
    """Every procedure that proves radii and goes with the noise, in each variant, with the parameters that it has."""
    from smoothcert.procedures import PROCEDURES

    for kind in PROCEDURES:
        known = {name: value for name, value in parameters.items() if name in kind.model_fields}
        if not (_incomplete(kind) or kind.predicts) and kind.exhaustive == noise.exhaustible:
            variants: Iterable[Mapping[str, Any]] = getattr(kind, "variants", ({},))
            for variant in variants:
                yield kind.model_validate({**variant, **known})


def _incomplete(kind: type[Parameters]) -> bool:
    """Whether a procedure has a parameter without a default, so that nothing can be planned for it here."""
    return any(field.is_required() for field in kind.model_fields.values())


def _telling_p_as(p0: float) -> list[float]:
    """Four values of p_A: a hopeless image, one on either side of the edge, and an easy one."""
    return [round(p0 + (1 - p0) * share, 6) for share in (-1.0, -0.1, 0.1, 0.5)]


def _plan_as_json(each: Plan, p_as: list[float]) -> dict[str, Any]:
    fields = {name: value for name, value in vars(each).items() if name not in ("procedure", "boundaries")}
    fields["procedure"] = each.procedure.model_dump()
    if each.boundaries is not None:
        fields["expected"] = [{"p_a": p, **vars(each.expected(p))} for p in p_as]
    return fields


def _out_of_reach(plans: Mapping[str, Plan]) -> str:
    """The sentence for a radius that no procedure can prove: what the one would take that reaches farthest."""
    name, best = max(plans.items(), key=lambda each: (each[1].largest_radius, -(each[1].samples_needed or math.inf)))
    return f"No procedure can prove this radius with these samples. {name} comes nearest: {best.reason}."


def _print_plans(plans: dict[str, Plan], p_as: list[float]) -> None:
    from smoothcert.figures import radius_text

    proved = table(
        "procedure",
        "provable",
        numbers=("largest radius", "fewest", "most samples"),
        title="What can be proved, and with how many samples",
    )
    proved.columns[1].no_wrap = True
    title = "Expected samples by p_A, whether the radius is proved or not"
    priced = table("procedure", numbers=tuple(f"{p:g}" for p in p_as), title=title)
    for name, each in plans.items():
        provable = "[green]yes[/]" if each.feasible else "[red]no[/]"
        fewest = f"{each.fewest_samples:,}" if each.fewest_samples else "–"
        proved.add_row(name, provable, radius_text(each.largest_radius), fewest, f"{each.most_samples:,}")
        if each.boundaries:
            priced.add_row(name, *(f"{each.expected(p).samples:,.0f}" for p in p_as))
    out.print(fitting(proved))
    for name, each in plans.items():
        if not each.feasible:
            out.print(f"{name}: {each.reason}")
    out.print(fitting(priced))


def _recommendation(n: int | None, alpha: float) -> str:
    from smoothcert.plan import recommended_stages

    try:
        stages = recommended_stages(alpha=alpha) if n is None else recommended_stages(n, alpha=alpha)
    except DomainError as error:
        return str(error)
    return " ".join(f"{stage:,}" for stage in stages)
