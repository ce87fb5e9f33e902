"""`smoothcert ensembles`, and the choice of an ensemble for other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcert.cli.options import ApiKey, AsJson, Url, connected
from smoothcert.cli.screen import fitting, note, out, plain, table
from smoothcert.errors import SmoothcertError

if TYPE_CHECKING:
    from smoothcert.client import Client
    from smoothcert.published import ServedEnsemble


def ensembles(url: Url = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """List the ensembles that the service offers."""
    with connected(url, api_key, retries=1) as client:
        found = client.ensembles.overview()
    served, failed = found.data, found.failed
    if as_json:
        for each in served:
            print(each.model_dump_json())
    for bad in failed:
        note(f"{bad.name} cannot be loaded: {bad.reason}")
    if as_json:
        return
    if not (served or failed):
        note("no ensemble is served: no worker has announced one yet")
    shown = table("ensemble", "ready", "noise", numbers=("input", "members", "classes", "evaluations/s"), tight=True)
    shown.columns[0].no_wrap = True
    for each in served:
        rate = each.evaluations_per_second
        shown.add_row(
            plain(each.name),
            plain(f"yes, {each.workers} on {', '.join(each.devices)}" if each.ready else "no, requests wait"),
            "–" if each.noise is None else plain(each.noise.label),
            " x ".join(map(str, each.input_shape)),
            f"{len(each.members)}",
            f"{len(each.classes):,}",
            "–" if rate is None else f"{rate:,.0f}",
        )
    out.print(fitting(shown))


def choose_ensemble(client: Client, name: str | None) -> ServedEnsemble:
    """The ensemble of this name, or the only one that is served, or the default one."""
    if name is not None:
        return client.ensembles.get(name)
    from smoothcert.published import without_a_name

    served = without_a_name(client.ensembles.list())
    if len(served) != 1:
        names = ", ".join(each.name for each in served) or "none"
        raise SmoothcertError(f"--ensemble is needed: the service offers {names}")
    return served[0]
