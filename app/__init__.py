"""The front of the service: HTTP in, records out; and the command that runs it all. Never imports torch."""
