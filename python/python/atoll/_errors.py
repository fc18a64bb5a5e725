"""The errors of PEP 249, with the SQLSTATE of each."""

from contextlib import contextmanager

from ._atoll import Failure


class Warning(Exception):
    """Not raised."""


class Error(Exception):
    """The base of all errors. `sqlstate` is None if the error is not one of SQL."""

    def __init__(self, message, sqlstate=None, detail=None, hint=None):
        lines = [message] + [f"{name}: {text}" for name, text in (("DETAIL", detail), ("HINT", hint)) if text]
        super().__init__("\n".join(lines))
        self.sqlstate, self.detail, self.hint = sqlstate, detail, hint

    @property
    def is_transient(self):
        """Whether the same transaction may succeed if it is run again: it had no effect."""
        return self.sqlstate in ("40001", "40P01")


class InterfaceError(Error):
    """The interface was used in a wrong way: a closed cursor, no result to fetch."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value that does not fit its type (class 22)."""


class OperationalError(DatabaseError):
    """The engine could not do it now: conflicts, a closed database, no space."""


class IntegrityError(DatabaseError):
    """A constraint is violated (class 23)."""


class InternalError(DatabaseError):
    """A state in which nothing is possible: a failed transaction, damaged data."""


class ProgrammingError(DatabaseError):
    """A statement that is wrong (class 42)."""


class NotSupportedError(DatabaseError):
    """SQL that Atoll does not have (0A000)."""


_CLASSES = {
    "0A": NotSupportedError,
    "08": OperationalError,
    "22": DataError,
    "23": IntegrityError,
    "25": InternalError,
    "40": OperationalError,
    "42": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def of_failure(failure):
    message, state, detail, hint = failure.args
    if state is None:
        return OperationalError(message)
    # The number of parameters is a mistake of the caller.
    kind = ProgrammingError if state == "08P01" else _CLASSES.get(state[:2], DatabaseError)
    return kind(message, state, detail, hint)


@contextmanager
def translated():
    """Raises the library's failures as errors of PEP 249."""
    try:
        yield
    except Failure as failure:
        raise of_failure(failure) from None
