"""The archive: certifications that have ended, kept beyond the day for which Redis has them."""
