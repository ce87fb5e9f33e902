"""Exit codes.

0 means success: every image certified, every certificate consistent, the report written. 3 means that there was no
error, but the answer is not the one that was hoped for; a script can tell the two apart. typer gives 2 for a wrong
command line.
"""

ERROR = 1
"""An error, or a certificate that is not consistent; a sentence on standard error says which."""
ABSTAINED = 3
"""`certify` and `watch` had no error, and at least one answer is an abstention."""
WORSE = 3
"""`compare` had no error, and the new certificates are worse than the old ones by more than the margin."""
UNREACHABLE = 3
"""`plan` had no error, and no procedure can prove the radius with these samples."""
SIGNALED = 128
"""The base for the number of the signal that stopped the command: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
