"""`python -m app.local`: the whole service in one terminal; see `serve.py`."""

from __future__ import annotations

import sys

from smoothcert.imports import ended_by_ctrl_c

with ended_by_ctrl_c():
    from app.local.serve import main

sys.exit(main())
