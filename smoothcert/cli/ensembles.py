"""`smoothcert ensembles`."""

from __future__ import annotations

from smoothcert.cli.options import ApiKey, AsJson, Url, connected
from smoothcert.cli.screen import fitting, note, out, plain, table


def ensembles(url: Url = None, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """The ensembles that the service offers."""
    with connected(url, api_key, retries=1) as client:
        served = client.ensembles.list()
    if as_json:
        for each in served:
            print(each.model_dump_json())
        return
    if not served:
        note("no ensemble is served: no worker has announced one yet")
    shown = table("ensemble", "ready", numbers=("input", "noise", "members", "classes", "evaluations/s"), tight=True)
    shown.columns[0].no_wrap = True
    for each in served:
        rate = each.evaluations_per_second
        shown.add_row(
            plain(each.name),
            plain(f"yes, {each.workers} on {', '.join(each.devices)}" if each.ready else "no, requests wait"),
            " x ".join(map(str, each.input_shape)),
            "–" if each.noise is None else each.noise.label,
            f"{len(each.members)}",
            f"{len(each.classes):,}",
            "–" if rate is None else f"{rate:,.0f}",
        )
    out.print(fitting(shown))
