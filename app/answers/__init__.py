"""Certifications as clients receive them: as JSON, or as server-sent events."""
