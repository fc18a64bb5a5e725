"""The embedded database: statements, values, Arrow."""

import datetime as dt
import decimal
import threading
import uuid

import pytest

import atoll

DESIGNS = ["conventional", "logical", "plp-regular", "serial", "occ"]


@pytest.fixture
def db():
    with atoll.open() as opened:
        yield opened


@pytest.mark.parametrize("design", DESIGNS)
def test_rows_are_there_again_after_closing(tmp_path, design):
    path = tmp_path / "db"
    with atoll.open(path, design=design, islands=2, workers=2) as db:
        db.execute("CREATE TABLE t (id int8 PRIMARY KEY, name text)")
        for i in range(50):
            assert db.execute("INSERT INTO t VALUES (?, ?)", [i, f"row {i}"]) == 1
    with atoll.open(path, design=design, workers=2) as db:
        assert db.sql("SELECT id, name FROM t WHERE id >= ? ORDER BY id", [48]).fetchall() == [
            (48, "row 48"),
            (49, "row 49"),
        ]


VALUES = [
    ("bool", True),
    ("int2", -5),
    ("int8", 2**62),
    ("float8", 0.1),
    ("numeric(10,2)", decimal.Decimal("12.30")),
    ("numeric", decimal.Decimal("123456789012345678901234567890.5")),
    ("text", "grüezi 'quoted' ?"),
    ("bytea", b"\x00\xff"),
    ("date", dt.date(2026, 11, 26)),
    ("time", dt.time(12, 30, 1, 5)),
    ("timestamp", dt.datetime(1999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
]


@pytest.mark.parametrize("ty, value", VALUES)
def test_values_come_back_as_they_were_given(db, ty, value):
    db.execute(f"CREATE TABLE v (id int4 PRIMARY KEY, x {ty})")
    db.execute("INSERT INTO v VALUES (1, ?), (2, ?)", [value, None])
    assert db.sql("SELECT x FROM v ORDER BY id").fetchall() == [(value,), (None,)]


def test_arrow_results_go_to_pyarrow_pandas_and_polars(db):
    import pyarrow

    db.execute(
        "CREATE TABLE v (id int4 PRIMARY KEY, b bool, f float8, n numeric(10,2), t text, y bytea, d date, s timestamp, "
        "z timestamptz)"
    )
    values = [True, 0.5, decimal.Decimal("-0.05"), "x", b"y", dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)]
    db.execute(
        "INSERT INTO v VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
        [*values, dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)],
    )
    db.execute("INSERT INTO v (id) VALUES (2)")
    result = db.sql("SELECT * FROM v ORDER BY id")
    table = pyarrow.table(result)
    assert table.schema.types == [
        pyarrow.int32(), pyarrow.bool_(), pyarrow.float64(), pyarrow.decimal128(10, 2), pyarrow.string(),
        pyarrow.binary(), pyarrow.date32(), pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC"),
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == result.fetchall()
    assert list(result.df().columns) == result.columns
    assert result.df().id.tolist() == [1, 2]
    assert result.pl().shape == (2, 9)
    empty = db.sql("SELECT id FROM v WHERE id > 9")
    assert len(empty) == 0 and empty.arrow().num_rows == 0 and empty.arrow().num_columns == 1


def test_threads_have_sessions_of_their_own(db):
    db.execute("CREATE TABLE t (id int8 PRIMARY KEY)")

    def insert(first):
        for i in range(first, first + 20):
            db.execute("INSERT INTO t VALUES (?)", [i])

    threads = [threading.Thread(target=insert, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.sql("SELECT count(*) FROM t").scalar() == 60


def test_clients_of_postgresql_can_connect(db):
    import socket

    host, port = db.listen().rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        # SSLRequest
        client.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
        assert client.recv(1) == b"N"


def test_mistakes_say_what_was_expected(db, tmp_path):
    with pytest.raises(ValueError, match="expected"):
        atoll.open(design="fast")
    with pytest.raises(ValueError, match="expected 'sync' or 'async'"):
        atoll.open(tmp_path / "x", durability="never")
    with pytest.raises(atoll.OperationalError, match="expected"):
        atoll.open(islands=0)
    with pytest.raises(TypeError, match="expected None, a number"):
        db.execute("SELECT ?", [object()])
    with pytest.raises(atoll.ProgrammingError, match="0 parameters") as wrong:
        db.execute("SELECT 1", [1])
    assert wrong.value.sqlstate == "08P01"
    db.close()
    with pytest.raises(atoll.OperationalError, match="closed"):
        db.execute("SELECT 1")
