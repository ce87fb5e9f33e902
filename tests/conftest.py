"""What every test shares: an empty store, and one thread each, since the tests themselves run side by side."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("house", deadline=None, derandomize=True)  # no timed tests, and no weather
settings.load_profile("house")
_store = tempfile.TemporaryDirectory(prefix="smoothcert-tests-")
os.environ["SMOOTHCERT_CACHE"] = _store.name  # boundaries of an earlier version would hide a change
