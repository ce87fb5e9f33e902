"""Exit codes.

0 means success: every image certified, every certificate consistent, the report written. 3 means that there was no
error, but the answer is not the one that was hoped for; a script can tell the two apart. 2 means a wrong command line:
typer gives it for options that it cannot read, and we for values that no option has (`OptionError`).
"""

from smoothcert.errors import DomainError

ERROR = 1
"""An error, or a certificate that is not consistent; a sentence on standard error says which."""
WRONG_USE = 2
"""A wrong command line, as typer has it."""
ABSTAINED = 3
"""`certify` and `watch` had no error, and at least one answer is an abstention."""
WORSE = 3
"""`compare` had no error, and the new certificates are worse than the old ones by more than the margin."""
UNREACHABLE = 3
"""`plan` had no error, and no procedure can prove the radius with these samples."""
SIGNALED = 128
"""The base for the number of the signal that stopped the command: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""


class OptionError(DomainError):
    """The value of an option that it cannot have, whatever the service says, or options that exclude each other."""

    ends_with = WRONG_USE
