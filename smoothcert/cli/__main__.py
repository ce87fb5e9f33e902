"""`python -m smoothcert.cli` is `smoothcert`."""

from smoothcert.cli import main

main()
