"""The first line of a script says what happens where the server's memory is full.

Without that line, Redis refuses the first write of a script that needs memory, but lets every write pass once the
script has deleted something: the limit would not bind. With it, a script is refused before its first command or not at
all.
"""

from __future__ import annotations

WITH_ROOM = "#!lua\n"
"""The first line of a script for new work, which the server refuses as a whole where its memory is full."""
ALWAYS = "#!lua flags=allow-oom\n"
"""The first line of a script for work that was accepted: it must end, because only then its memory becomes free."""
READING = "#!lua flags=no-writes\n"
"""The first line of a script that writes nothing."""
