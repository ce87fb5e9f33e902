"""`smoothcert list` and `smoothcert cancel`: the certifications that the service keeps."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, get_args

import typer

from smoothcert.cli.codes import OptionError
from smoothcert.cli.options import ApiKey, AsJson, Url, connected
from smoothcert.cli.screen import fitting, note, out, plain, table


def list_(
    status: Annotated[
        str | None,
        typer.Option(
            help="Only certifications with this status: queued, running, succeeded, failed, canceling, canceled or "
            "expired."
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="The most certifications to list.")] = 20,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """List the certifications of this key, the newest first."""
    from smoothcert.certification import Status
    from smoothcert.errors import suggestion

    if status is not None and status not in (known := get_args(Status)):
        raise OptionError(f"--status must be one of {', '.join(known)}, got {status!r}{suggestion(status, known)}")
    with connected(url, api_key) as client:
        found = [*islice(client.certifications.list(status=status), most)]  # type: ignore[arg-type]
    if as_json:
        for each in found:
            print(each.model_dump_json())
        return
    if not found:
        note("there are no such certifications: none was submitted, or all have been forgotten")
        return
    shown = table("certification", "status", "ensemble", "submitted", numbers=("images", "certified"), tight=True)
    for column in shown.columns[:3]:  # what is copied or compared is never broken
        column.no_wrap = True
    for each in found:
        progress = each.progress
        shown.add_row(
            plain(each.id),
            each.status,
            plain(each.ensemble),
            each.created_at.astimezone().strftime("%Y-%m-%d %H:%M"),
            f"{progress.images_done:,} of {progress.images_total:,}",
            f"{progress.certified:,}" + (" predicted" if each.request.procedure.predicts else ""),
        )
    out.print(fitting(shown))


def cancel(
    certifications: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of certifications: cert_...")],
    url: Url = None,
    api_key: ApiKey = None,
) -> None:
    """Cancel certifications; what they have finished so far is kept."""
    with connected(url, api_key) as client:
        for each in certifications:
            out.print(plain(f"{each}: {client.certifications.cancel(each).status}"))
