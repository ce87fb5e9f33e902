"""Exit codes.

0 is for all is well: every image certified, every certificate consistent, the report written; 2, which typer gives, for
a command line that is wrong itself.
"""

ERROR = 1
"""An error, or a certificate that does not hold; a sentence on standard error says which."""
ABSTAINED = 3
"""`certify` and `watch`: all went well, and at least one image was abstained from."""
SIGNALED = 128
"""And the number of the signal that stopped it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
