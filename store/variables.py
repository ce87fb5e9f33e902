"""The names of all environment variables of the project, so that a misspelt one is not passed over in silence.

The API, the workers and the clients read different ones, but often share an environment: each process has to know them
all. A test compares the names with the fields of the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from smoothcert.errors import suggestion

PREFIX = "SMOOTHCERT_"
NAMES = re.findall(
    r"\w+",
    """
    ACTIVE_CERTIFICATIONS ACTIVE_MB ACTIVE_SAMPLES ALLOWED_HOSTS ALLOWED_IMPORTS API_KEY API_KEYS
    ARCHIVE ARCHIVE_CREDENTIALS_FILE ARCHIVE_ENDPOINT ARCHIVE_REGION BATCH BODIES_MB CACHE
    CHECKPOINT_S CONNECTIONS CORS_ORIGINS DATA DEADLINE_S DEAD_AFTER_S DEFAULT_ENSEMBLE DEVICES DRAIN_S ENSEMBLES EXTRAS
    HEAD_SECONDS HEARTBEAT_S HOST IMAGE_PIXELS KEYRING_FILE OPEN OTLP_ENDPOINT OWNER_SLOTS POOL PORT PRECISION
    PROGRESS_S PROXIES PUBLISH QUEUE_LENGTH RATE REDIS_CA_FILE REDIS_CERTIFICATE_FILE REDIS_KEY_FILE
    REDIS_PASSWORD_FILE REDIS_SENTINEL_PASSWORD_FILE REDIS_URL REMOTE_CONNECTIONS REMOTE_HOSTS REMOTE_PATIENCE_S
    REMOTE_TIMEOUT_S REQUEST_BYTES REQUEST_IMAGES REQUEST_PIXELS
    REQUEST_SECONDS RESULT_TTL RUNTIME SAMPLES SEED_SECRET_FILE SEQUENTIAL_SAMPLES SLOTS STRICT THREADS URL WAITING_MB
    WAIT_REPLICAS WATCHDOG_S WEBHOOK_HOSTS WEBHOOK_NETWORKS WEBHOOK_RETRY_S WEBHOOK_SECRET_FILE WORKER_CPUS WORK_MB ZOO
    """,
)
"""The names of the variables without the prefix."""
KUBERNETES = re.compile(r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_\w+)?)?)")
"""The variables that Kubernetes sets by itself in each container beside a service that is called smoothcert."""


def unknown(environment: Iterable[str]) -> str:
    """A sentence about variables that no process reads, each with the nearest known name; empty if there are none."""
    wrong = sorted(
        name
        for name in environment
        if name.startswith(PREFIX)
        and name[len(PREFIX) :] not in NAMES
        and not KUBERNETES.fullmatch(name[len(PREFIX) :])
    )
    return "; ".join(f"there is no setting {name}{_remedy(name)}" for name in wrong)


def _remedy(name: str) -> str:
    return suggestion(name.removeprefix(PREFIX), NAMES, prefix=PREFIX) or "; docs/operation.md lists them"
