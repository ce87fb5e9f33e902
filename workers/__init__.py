"""Worker processes around `smoothcert.engine`: they take certifications from the queue and write certificates.

This package may use torch. It imports `smoothcert`, `models` and `store` from this project.
"""
