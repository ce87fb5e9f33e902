"""The page, its sample images and the documentation, which load nothing from other hosts."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.docs import openapi
from app.http.errors import ProblemError
from app.samples import listed, png, sheets
from smoothcert.errors import shown

PAGE = Path(__file__).parents[1] / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)
_files = {path.name: path for path in PAGE.iterdir() if path.suffix in KINDS}


@router.get("/")
async def index(request: Request) -> Response:
    return _file("index.html", request)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The OpenAPI document as a page."""
    return _file("docs.html", request)


@router.get("/page/{name}")
async def part(name: str, request: Request) -> Response:
    """A script, style or picture of the pages."""
    return _file(name, request)


@router.get("/samples")
async def sample_list() -> Response:
    """The sheets of sample images: their shapes and classes, and the label of each image."""
    return Response(listed(), media_type="application/json")


@router.get("/samples/{sheet}/{name}")
async def sample(sheet: str, name: str) -> Response:
    """A sample image."""
    match = re.fullmatch(r"([0-9]{1,6})\.png", name)
    if match is None or sheet not in sheets() or int(match[1]) >= len(sheets()[sheet].labels):
        raise ProblemError("not_found", f"there is no sample image {shown(f'{sheet}/{name}')}")
    return Response(png(sheet, int(match[1])), media_type="image/png")


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    return Response(openapi.text(request.app), media_type="application/json")


def _file(name: str, request: Request) -> Response:
    if name not in _files:
        raise ProblemError("not_found", f"there is no file {shown(name)}")
    path, headers = _files[name], {"Vary": "Accept-Encoding"}
    content = path.read_bytes()
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = gzip.compress(content, mtime=0), "gzip"
    return Response(content, media_type=KINDS[path.suffix], headers=headers)
