"""Parameters: `?` in a statement becomes `$1`, `$2`, ..."""

import re
from functools import lru_cache

# What may hold a question mark that is no parameter: strings, names, comments, dollar quotes.
_PARTS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$ | (\?)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def numbered(text):
    """The statement with numbered parameters. One that has `$1` and the like already stays as it is
    if it has no `?` outside of strings."""
    count = 0

    def mark(found):
        nonlocal count
        if found.group(2) is None:
            return found.group(0)
        count += 1
        return f"${count}"

    return _PARTS.sub(mark, text)
