"""Runs the checks of a client, one after the other, and says at which statement each failed.

A program names its checks by `@check`, notes each statement by `statement(text)`, and ends with
`run()`. The server is that of libpq's environment: PGHOST, PGPORT, PGUSER, PGDATABASE. The output
has a line for each check, `ok NAME` or `FAILED NAME: ERROR; at: STATEMENT`, and `unsupported`
instead of `FAILED` where the statement reads the system catalogs or the server says that it does not support it. The exit code is 1 if any failed.
"""

import os
import re
import sys
import traceback

UNSUPPORTED = re.compile(r"\b(pg_[a-z]+|information_schema)\b|is not supported")

_checks = []
_last = ""


def check(function):
    """Declares a check: a function without arguments."""
    _checks.append(function)
    return function


def statement(text):
    """Notes the statement that runs next."""
    global _last
    _last = text if isinstance(text, str) else bytes(text).decode(errors="replace")
    return text


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"found {found!r}, expected {wanted!r}")


def expect_error(state, call, *args):
    """The call must fail with this SQLSTATE. Returns the exception."""
    try:
        call(*args)
    except Exception as error:  # Each driver has its own class.
        found = sqlstate(error)
        if found != state:
            raise AssertionError(f"found SQLSTATE {found} ({error}), expected {state}") from error
        return error
    raise AssertionError(f"no error, expected SQLSTATE {state}")


def sqlstate(error):
    for name in ("sqlstate", "pgcode"):
        if getattr(error, name, None):
            return getattr(error, name)
    inner = getattr(error, "orig", None) or error.__cause__
    return sqlstate(inner) if inner else None


def line(text):
    return " ".join(str(text).split())[:300]


def run():
    only = sys.argv[1:]
    failed = 0
    for function in _checks:
        name = function.__name__
        if only and name not in only:
            continue
        statement("")
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            text = line(_last)
            word = "unsupported" if UNSUPPORTED.search(text + str(error)) else "FAILED"
            print(f"{word} {name}: {line(error) or type(error).__name__}; at: {text}", flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()
    sys.exit(1 if failed else 0)
