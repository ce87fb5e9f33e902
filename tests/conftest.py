"""What every test shares: an empty store, and one thread each, since the tests themselves run side by side."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
_store = tempfile.TemporaryDirectory(prefix="smoothcert-tests-")
os.environ["SMOOTHCERT_CACHE"] = _store.name  # boundaries of an earlier version would hide a change
