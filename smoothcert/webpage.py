"""A report as one HTML file: no script, no link, nothing from elsewhere, readable in light and dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from smoothcert.chapter import Chapter

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load: inline images and styles. A name in a certificate can then do nothing, escaped or not."""
STYLE = """
:root { color-scheme: light dark; --line: #d1d5db; --soft: #6b7280; --back: #ffffff; --ink: #111827; --mark: #b91c1c; }
@media (prefers-color-scheme: dark) {
  :root { --line: #374151; --soft: #9ca3af; --back: #111827; --ink: #e5e7eb; --mark: #f87171; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin-bottom: .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); }
p { max-width: 46rem; margin: .5rem 0; overflow-wrap: anywhere; }
.lead { color: var(--soft); }
.wrong { color: var(--mark); font-weight: 600; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: .5rem 0; flex: 1 1 24rem; max-width: 34rem; }
figure svg { width: 100%; height: auto; }
figcaption, summary { color: var(--soft); font-size: .875rem; }
details { margin: .8rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .15rem .9rem .15rem 0; overflow-wrap: anywhere; }
th { font-weight: 600; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td { border-bottom: 1px solid color-mix(in srgb, var(--line) 50%, transparent); }
td.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
td img { width: 3rem !important; }
@media print {
  :root { color-scheme: light; --line: #d1d5db; --soft: #4b5563; --back: #ffffff; --ink: #000000; --mark: #b91c1c; }
  body { font-size: 10pt; margin: 0; max-width: none; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  thead { display: table-header-group; }
  figure { flex-basis: 14rem; }
}
"""


def webpage(title: str, lead: str, chapters: Sequence[Chapter], *, warning: str = "") -> str:
    """The page; `lead` stands below the title, and `warning` says what a reader must know first."""
    body = "\n".join(chapter.html() for chapter in chapters)
    warned = f"<p class=wrong>{escape(warning)}</p>" if warning else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1><p class=lead>{escape(lead)}</p>{warned}\n{body}\n</body></html>\n"
    )
