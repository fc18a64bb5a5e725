"""DB-API 2.0 (PEP 249)."""

import datetime as dt

from ._database import Database, Result, open
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    translated,
)
from ._marks import numbered
from ._values import plain

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks):
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks):
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks):
    return dt.datetime.fromtimestamp(ticks)


class _Types:
    """Compares equal with the type codes of a kind."""

    def __init__(self, *names):
        self._names = frozenset(names)

    def __eq__(self, other):
        return other in self._names if isinstance(other, str) else self is other

    __hash__ = None


STRING = _Types("text", "varchar", "char", "name", "json", "jsonb", "uuid", "interval")
BINARY = _Types("bytea")
NUMBER = _Types("int2", "int4", "int8", "float4", "float8", "numeric", "bool")
DATETIME = _Types("date", "time", "timestamp", "timestamptz")
ROWID = _Types("oid")


def connect(path=None, **options):
    """Opens a database (see `atoll.open`) and connects to it; `close` closes both. For several
    connections to one database: `atoll.open(path).connect()`."""
    database = path if isinstance(path, Database) else open(path, **options)
    connection = database.connect()
    if database is not path:
        connection._database = database
    return connection


class Connection:
    """A session. A transaction begins with its first statement; `commit` or `rollback` ends it. With
    `autocommit` each statement is a transaction of its own."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, inner):
        self._inner = inner
        self._database = None
        self.autocommit = False

    def _open(self):
        if self._inner is None:
            raise InterfaceError("the connection is closed")
        return self._inner

    def _run(self, text, params):
        inner = self._open()
        params = [plain(value) for value in params]
        with translated():
            if not self.autocommit and not inner.is_in_transaction():
                inner.batch("BEGIN")
            return Result(inner.run(numbered(text), params))

    def cursor(self):
        self._open()
        return Cursor(self)

    def execute(self, text, params=()):
        """A new cursor that has run the statement."""
        return self.cursor().execute(text, params)

    def commit(self):
        self._end("COMMIT")

    def rollback(self):
        self._end("ROLLBACK")

    def _end(self, how):
        inner = self._open()
        with translated():
            if inner.is_in_transaction():
                inner.batch(how)

    def close(self):
        """Ends the connection; a transaction under way is rolled back."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()
        if self._database is not None:
            self._database.close()
            self._database = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Commits, or rolls back after an exception."""
        if kind is None:
            self.commit()
        elif self._inner is not None:
            self.rollback()


class Cursor:
    """Runs statements and fetches their rows."""

    def __init__(self, connection):
        self.connection = connection
        self.arraysize = 1
        self._closed = False
        self._clear()

    def _clear(self):
        self._result, self._at, self.rowcount = None, 0, -1

    def _check(self):
        if self._closed:
            raise InterfaceError("the cursor is closed")

    @property
    def description(self):
        """(name, type, None, None, None, None, None) of each column; None if there are no rows."""
        if self._result is None or not self._result.columns:
            return None
        pairs = zip(self._result.columns, self._result.types)
        return [(name, ty, None, None, None, None, None) for name, ty in pairs]

    def execute(self, text, params=()):
        self._check()
        self._clear()
        self._result = self.connection._run(text, params)
        self.rowcount = self._result.rowcount
        return self

    def executemany(self, text, seq_of_params):
        self._check()
        count = 0
        for params in seq_of_params:
            count += self.execute(text, params).rowcount
        self._clear()
        self.rowcount = count
        return self

    def _rows(self, count):
        self._check()
        if self._result is None or not self._result.columns:
            raise InterfaceError("there are no rows to fetch: the last statement has none")
        rows = self._result._rows(self._at, self._at + count)
        self._at += len(rows)
        return rows

    def fetchone(self):
        rows = self._rows(1)
        return rows[0] if rows else None

    def fetchmany(self, size=None):
        return self._rows(self.arraysize if size is None else size)

    def fetchall(self):
        return self._rows(2**62)

    def __iter__(self):
        return iter(self.fetchone, None)

    def setinputsizes(self, sizes):
        """Has no effect."""

    def setoutputsize(self, size, column=None):
        """Has no effect."""

    def close(self):
        self._closed = True
        self._clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
