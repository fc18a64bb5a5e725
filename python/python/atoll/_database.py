"""An open database, and results."""

import threading

from . import _atoll
from ._errors import InterfaceError, translated
from ._marks import numbered
from ._values import convert, plain, readers


def open(path=None, *, design=None, islands=None, workers=None, durability=None, memory=None):
    """Opens the database in the directory `path`, or creates it there; without a path, one in memory.

    design      conventional (the default), logical, plp-regular, plp-partition, plp-leaf, serial, occ
    islands     the number of instances; by default 1, or as many as the database has
    workers     the number of worker threads; by default one for each CPU
    durability  'sync' (the default: a commit is on the device) or 'async' (it survives a killed process)
    memory      bytes for pages; by default 256 MiB
    """
    path = None if path is None else str(path)
    with translated():
        return Database(_atoll.open(path, design, islands, workers, durability, memory))


class Database:
    """An open database. Threads may share it: each has a session of its own in it."""

    def __init__(self, inner):
        self._inner = inner
        self._sessions = threading.local()

    def _session(self):
        session = getattr(self._sessions, "session", None)
        if session is None:
            session = self._sessions.session = self._inner.connect()
        return session

    def sql(self, text, params=()):
        """Runs one statement as a transaction of its own; returns its result. Parameters are `?`, or
        `$1`, `$2`, ..."""
        with translated():
            return Result(self._session().run(numbered(text), [plain(value) for value in params]))

    def execute(self, text, params=()):
        """As `sql`; returns the number of rows that were selected or changed."""
        return self.sql(text, params).rowcount

    def script(self, text):
        """Runs several statements without parameters, as one transaction unless they say otherwise."""
        with translated():
            self._session().batch(text)

    def connect(self):
        """A DB-API connection to this database."""
        from ._dbapi import Connection

        with translated():
            return Connection(self._inner.connect())

    def listen(self, address="127.0.0.1:0"):
        """Serves clients of PostgreSQL's protocol at HOST:PORT; returns the address."""
        with translated():
            return self._inner.listen(address)

    def close(self):
        """Closes the database in order. Without it, the end of the process leaves a database that
        opens again with all that was committed."""
        self._sessions = threading.local()
        with translated():
            self._inner.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Result:
    """The rows of a statement. It can be read again and again."""

    def __init__(self, answer):
        self._answer = answer
        self._readers = readers([ty for _, ty in answer.columns])

    @property
    def columns(self):
        """Names of the columns."""
        return [name for name, _ in self._answer.columns]

    @property
    def types(self):
        """Names of the columns' SQL types."""
        return [ty for _, ty in self._answer.columns]

    @property
    def rowcount(self):
        return self._answer.count

    def __len__(self):
        return len(self._answer)

    def fetchall(self):
        """All rows, as tuples."""
        return self._rows(0, len(self))

    def fetchone(self):
        """The first row, or None."""
        rows = self._rows(0, 1)
        return rows[0] if rows else None

    def scalar(self):
        """The first column of the only row."""
        if len(self) != 1:
            raise InterfaceError(f"the result has {len(self)} rows, expected one")
        return self.fetchone()[0]

    def _rows(self, first, end):
        return convert(self._answer.rows(first, end), self._readers)

    def __iter__(self):
        return iter(self.fetchall())

    def __arrow_c_stream__(self, requested_schema=None):
        """The Arrow PyCapsule interface."""
        return self._answer.arrow_stream()

    def arrow(self):
        """As a pyarrow.Table."""
        import pyarrow

        return pyarrow.table(self)

    def df(self):
        """As a pandas.DataFrame."""
        return self.arrow().to_pandas()

    def pl(self):
        """As a polars.DataFrame."""
        import polars

        return polars.DataFrame(self)
