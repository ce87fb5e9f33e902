"""Exit codes.

0 is for all is well: every image certified, every certificate consistent, the report written; 2, which typer gives, for
a command line that is wrong itself.
"""

ERROR = 1
"""An error, or a certificate that does not hold; a sentence on standard error says which."""
ABSTAINED = 3
"""`certify` and `watch`: all went well, and at least one image was abstained from."""
INTERRUPTED = 130
"""Ctrl-C."""
