"""Signed messages to the receivers that requests name."""
