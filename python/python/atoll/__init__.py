"""Atoll: an OLTP engine over islands of cores, inside this process.

>>> import atoll
>>> with atoll.open() as db:
...     _ = db.execute("CREATE TABLE t (id int8 PRIMARY KEY, name text)")
...     _ = db.execute("INSERT INTO t VALUES (?, ?)", [1, "one"])
...     db.sql("SELECT * FROM t").fetchall()
[(1, 'one')]

`open` embeds a database, `connect` is its DB-API 2.0 (PEP 249), `bench` runs experiments.
"""

from ._bench import BenchError, bench
from ._database import Database, Result, open
from ._dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Connection,
    Cursor,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    connect,
    paramstyle,
    threadsafety,
)
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
)

__all__ = [
    "BINARY", "BenchError", "Binary", "Connection", "Cursor", "DATETIME", "DataError", "Database",
    "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NUMBER", "NotSupportedError", "OperationalError", "ProgrammingError", "ROWID",
    "Result", "STRING", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning",
    "apilevel", "bench", "connect", "open", "paramstyle", "threadsafety",
]
