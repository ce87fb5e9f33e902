"""The secrets that sign webhooks. Each owner has its own, which is made from one secret of the service."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

from standardwebhooks import Webhook

from store.deliveries import Delivery


def owner_secret(secret: bytes, owner: str) -> str:
    """The secret of an owner in the form of Standard Webhooks; it tells nothing about those of others."""
    made = hmac.new(secret, b"smoothcert/webhook/" + owner.encode(), hashlib.sha256).digest()
    return f"whsec_{base64.b64encode(made).decode()}"


def signed(secret: bytes, delivery: Delivery, now: datetime | None = None) -> dict[str, str]:
    """The headers of Standard Webhooks for an attempt at this time."""
    now = now or datetime.now(UTC)
    return {
        "webhook-id": delivery.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(owner_secret(secret, delivery.owner)).sign(delivery.id, now, delivery.body),
    }
