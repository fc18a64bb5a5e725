"""psycopg 3: parameters in both formats, errors, pipelines, COPY, cancel, server-side cursors."""

import datetime as dt
import decimal
import threading
import time
import uuid
import zoneinfo

import psycopg
from psycopg.types.json import Json

from checks import check, expect, expect_error, run, statement


class Cursor(psycopg.Cursor):
    def execute(self, query, *args, **kwargs):
        statement(str(query))
        return super().execute(query, *args, **kwargs)


def connect(**options):
    return psycopg.connect(cursor_factory=Cursor, **options)


def fresh(connection, name, columns):
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({columns})")


VALUES = {
    "bool": [True, False],
    "int2": [0, -32768, 32767],
    "int4": [0, -(2**31), 2**31 - 1],
    "int8": [0, -(2**63), 2**63 - 1],
    "float4": [0.0, 1.5, -0.25],
    "float8": [0.0, 3.141592653589793, -1e300, float("inf")],
    "numeric(20,5)": [decimal.Decimal("0.00000"), decimal.Decimal("-123456789012345.67891")],
    "text": ["", "plain", "Grüße, 世界 🌍", "quote ' backslash \\ newline \n tab \t"],
    "varchar(10)": ["short"],
    "bytea": [b"", b"\x00\x01\xff'\\"],
    "date": [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(2024, 2, 29, 23, 59, 59, 123456), dt.datetime(1970, 1, 1)],
    "timestamptz": [dt.datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=dt.timezone.utc)],
    "interval": [dt.timedelta(days=3, seconds=4, microseconds=5), dt.timedelta(days=-1)],
    "uuid": [uuid.UUID("12345678-1234-5678-1234-567812345678")],
}


def same(found, wanted):
    if isinstance(wanted, dt.datetime) and wanted.tzinfo:
        return found == wanted and found.tzinfo is not None
    return found == wanted and type(found) is type(wanted)


@check
def types_in_text_and_binary():
    with connect() as connection:
        for number, (name, values) in enumerate(VALUES.items()):
            table = f"v{number}"
            fresh(connection, table, f"id int PRIMARY KEY, x {name}")
            for way in ("%b", "%t", "%s"):
                for binary in (True, False):
                    cursor = connection.cursor(binary=binary)
                    for value in [*values, None]:
                        cursor.execute(f"DELETE FROM {table}")
                        cursor.execute(f"INSERT INTO {table} VALUES (1, {way})", (value,))
                        found = cursor.execute(f"SELECT x FROM {table} WHERE id = 1").fetchone()[0]
                        if not same(found, value):
                            raise AssertionError(f"{name} {way} binary={binary}: {found!r} for {value!r}")


@check
def documents():
    with connect() as connection:
        fresh(connection, "d", "id int PRIMARY KEY, j json, b jsonb")
        document = {"a": [1, 2, {"b": None}], "ü": "x"}
        connection.execute("INSERT INTO d VALUES (1, %s, %s)", (Json(document), Json(document)))
        for binary in (True, False):
            row = connection.cursor(binary=binary).execute("SELECT j, b FROM d").fetchone()
            expect(row, (document, document))
        expect(connection.execute("SELECT b->'a'->>0, j->>'ü' FROM d").fetchone(), ("1", "x"))


@check
def errors_have_states():
    with connect(autocommit=True) as connection:
        fresh(connection, "child", "id int")
        fresh(connection, "e", "id int PRIMARY KEY, n int NOT NULL, c int CHECK (c > 0)")
        connection.execute("DROP TABLE child")
        connection.execute("CREATE TABLE child (id int PRIMARY KEY, e int REFERENCES e)")
        connection.execute("INSERT INTO e VALUES (1, 1, 1)")
        for state, text in [
            ("23505", "INSERT INTO e VALUES (1, 1, 1)"),
            ("23502", "INSERT INTO e VALUES (2, NULL, 1)"),
            ("23514", "INSERT INTO e VALUES (2, 1, 0)"),
            ("23503", "INSERT INTO child VALUES (1, 77)"),
            ("22012", "SELECT 1 / 0"),
            ("22012", "SELECT n / (n - 1) FROM e"),
            ("22003", "SELECT 2147483647 + 1"),
            ("22P02", "SELECT 'x'::int"),
            ("42601", "SELEC 1"),
            ("42P01", "SELECT * FROM nowhere"),
            ("42703", "SELECT nothing FROM e"),
            ("42P07", "CREATE TABLE e (id int)"),
            ("42883", "SELECT no_such_function(1)"),
        ]:
            expect_error(state, connection.execute, text)
        failed = expect_error("23505", connection.execute, "INSERT INTO e VALUES (1, 1, 1)")
        expect((failed.diag.table_name, failed.diag.constraint_name), ("e", "e_pkey"))
        with connection.transaction():
            with connection.transaction() as inner:
                expect_error("22012", connection.execute, "SELECT 1 / 0")
                expect_error("25P02", connection.execute, "SELECT 1")
                raise psycopg.Rollback(inner)
            expect(connection.execute("SELECT 1").fetchone(), (1,))


@check
def deadlocks_are_told():
    with connect() as first, connect() as second:
        fresh(first, "dl", "id int PRIMARY KEY, v int")
        first.execute("INSERT INTO dl VALUES (1, 0), (2, 0)")
        first.commit()
        first.execute("UPDATE dl SET v = 1 WHERE id = 1")
        second.execute("UPDATE dl SET v = 2 WHERE id = 2")
        outcomes = []

        def cross(connection, key):
            try:
                connection.execute(f"UPDATE dl SET v = v + 10 WHERE id = {key}")
                connection.commit()
                outcomes.append("committed")
            except psycopg.Error as error:
                connection.rollback()
                outcomes.append(error.sqlstate)

        both = [threading.Thread(target=cross, args=(first, 2)), threading.Thread(target=cross, args=(second, 1))]
        [thread.start() for thread in both]
        [thread.join() for thread in both]
        if sorted(outcomes) not in (["40P01", "committed"], ["40001", "committed"]):
            raise AssertionError(f"{outcomes}")


@check
def pipelines():
    with connect(autocommit=True) as connection:
        fresh(connection, "p", "id int PRIMARY KEY, v text")
        with connection.pipeline() as pipeline:
            for i in range(50):
                connection.execute("INSERT INTO p VALUES (%s, %s)", (i, f"v{i}"))
            cursor = connection.execute("SELECT count(*) FROM p")
            expect(cursor.fetchone(), (50,))
            pipeline.sync()
            connection.execute("INSERT INTO p VALUES (100, 'lost')")
            connection.execute("INSERT INTO p VALUES (1, 'twice')")
            connection.execute("INSERT INTO p VALUES (101, 'skipped')")
            expect_error("23505", pipeline.sync)
            expect(connection.execute("SELECT count(*) FROM p").fetchone(), (50,))
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO p VALUES (%s, %s) RETURNING id", [(i, "x") for i in range(200, 220)], returning=True
            )
            expect(cursor.fetchone(), (200,))


@check
def copy_in_and_out():
    rows = [(i, f"name\t{i}\\ü", None if i % 3 else i * 1.5) for i in range(3000)]
    with connect() as connection:
        for form in ("", " (FORMAT binary)"):
            fresh(connection, "c", "id int PRIMARY KEY, name text, f float8")
            cursor = connection.cursor()
            with cursor.copy(statement(f"COPY c FROM STDIN{form}")) as copy:
                copy.set_types(["int4", "text", "float8"])
                for row in rows:
                    copy.write_row(row)
            expect(cursor.rowcount, 3000)
            with cursor.copy(statement(f"COPY c (id, name, f) TO STDOUT{form}")) as copy:
                copy.set_types(["int4", "text", "float8"])
                found = sorted(copy.rows())
            expect(found, rows)
        with cursor.copy(statement("COPY c TO STDOUT (FORMAT csv, HEADER)")) as copy:
            text = b"".join(copy).decode()
        expect(text.splitlines()[0], "id,name,f")
        connection.commit()
        # A failed COPY leaves nothing, and the session goes on.
        try:
            with cursor.copy(statement("COPY c FROM STDIN")) as copy:
                copy.write("5000\tx\t1\nno number\ty\t2\n")
        except psycopg.Error as error:
            expect(error.sqlstate, "22P02")
        connection.rollback()
        expect(connection.execute("SELECT count(*) FROM c").fetchone(), (3000,))


@check
def a_waiting_statement_is_cancelled():
    with connect() as holder, connect() as waiter:
        fresh(holder, "w", "id int PRIMARY KEY, v int")
        holder.execute("INSERT INTO w VALUES (1, 0)")
        holder.commit()
        holder.execute("UPDATE w SET v = 1 WHERE id = 1")
        ends = threading.Event()

        def cancel():
            while not ends.wait(0.1):
                waiter.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            expect_error("57014", waiter.execute, "UPDATE w SET v = 2 WHERE id = 1")
        finally:
            ends.set()
            thread.join()
        waiter.rollback()
        waiter.execute("SET statement_timeout = '50ms'")
        waiter.commit()
        expect_error("57014", waiter.execute, "UPDATE w SET v = 2 WHERE id = 1")
        waiter.rollback()
        holder.rollback()
        waiter.execute("SET statement_timeout = 0")
        expect(waiter.execute("UPDATE w SET v = 2 WHERE id = 1").rowcount, 1)


@check
def prepared_statements_across_definitions():
    with connect(autocommit=True) as connection:
        fresh(connection, "s", "id int PRIMARY KEY, v int")
        connection.execute("INSERT INTO s VALUES (1, 10)")
        for _ in range(3):
            expect(connection.execute("SELECT id, v FROM s WHERE id = %s", (1,), prepare=True).fetchone(), (1, 10))
        connection.execute("ALTER TABLE s ADD COLUMN w text DEFAULT 'new'")
        expect(connection.execute("SELECT id, v FROM s WHERE id = %s", (1,), prepare=True).fetchone(), (1, 10))
        for text in ("SELECT * FROM s", "SELECT * FROM s WHERE id = 1"):
            connection.execute(text, prepare=True)
        connection.execute("ALTER TABLE s DROP COLUMN v")
        expect_error("42703", lambda: connection.execute("SELECT id, v FROM s WHERE id = %s", (1,), prepare=True))
        expect(connection.execute("SELECT id, w FROM s").fetchone(), (1, "new"))


@check
def server_side_cursors():
    with connect() as connection:
        fresh(connection, "k", "id int PRIMARY KEY")
        connection.execute("INSERT INTO k SELECT g FROM generate_series(1, 500) g")
        statement("DECLARE many CURSOR FOR SELECT id FROM k ORDER BY id")
        with connection.cursor(name="many") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT id FROM k ORDER BY id")
            expect([row[0] for row in cursor], list(range(1, 501)))


@check
def streams_row_by_row():
    with connect() as connection:
        fresh(connection, "r", "id int PRIMARY KEY")
        connection.execute("INSERT INTO r SELECT g FROM generate_series(1, 1000) g")
        found = [row[0] for row in connection.cursor().stream(statement("SELECT id FROM r ORDER BY id"))]
        expect(found, list(range(1, 1001)))


@check
def notices_and_status():
    with connect(autocommit=True) as connection:
        told = []
        connection.add_notice_handler(lambda diag: told.append(diag.message_primary))
        connection.execute("DROP TABLE IF EXISTS never_there")
        expect(told, ['table "never_there" does not exist, skipping'])
        expect(connection.info.parameter_status("server_encoding"), "UTF8")
        connection.execute("SET application_name = 'checks'")
        expect(connection.info.parameter_status("application_name"), "checks")
        expect(connection.info.transaction_status.name, "IDLE")


@check
def encrypted():
    with connect(sslmode="require") as connection:
        expect(connection.execute("SELECT 1").fetchone(), (1,))
        expect(connection.pgconn.ssl_in_use, True)


@check
def many_at_once():
    with connect(autocommit=True) as connection:
        fresh(connection, "m", "id int PRIMARY KEY, v int")
        connection.execute("INSERT INTO m SELECT g, 0 FROM generate_series(0, 9) g")

    def work(seed):
        with connect(autocommit=True) as own:
            for i in range(20):
                key = (seed * 7 + i) % 10
                while True:
                    try:
                        with own.transaction():
                            own.execute("UPDATE m SET v = v + 1 WHERE id = %s", (key,))
                        break
                    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                        time.sleep(0.005)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with connect() as connection:
        expect(connection.execute("SELECT sum(v) FROM m").fetchone(), (160,))


@check
def arrays():
    with connect() as connection:
        fresh(connection, "arr", "id int PRIMARY KEY, n int[], t text[] DEFAULT '{}'")
        for binary in (True, False):
            cursor = connection.cursor(binary=binary)
            for way in ("%b", "%t"):
                cursor.execute("DELETE FROM arr")
                cursor.execute(f"INSERT INTO arr VALUES (1, {way}, {way})", ([1, -2, None], ["a b", '"', "", None]))
                row = cursor.execute("SELECT n, t FROM arr").fetchone()
                expect(row, ([1, -2, None], ["a b", '"', "", None]))
        connection.execute("INSERT INTO arr (id) VALUES (2)")
        expect(connection.execute("SELECT array_agg(id ORDER BY id) FROM arr").fetchone()[0], [1, 2])
        expect(connection.execute("SELECT id FROM arr WHERE %s = ANY (t)", ("a b",)).fetchall(), [(1,)])
        expect(connection.execute("SELECT ARRAY[id, id + 1] FROM arr WHERE id = 2").fetchone()[0], [2, 3])


@check
def time_zones():
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    with connect(options="-c TimeZone=Europe/Berlin") as connection:
        expect(connection.info.timezone, berlin)
        fresh(connection, "tz", "id int PRIMARY KEY, at timestamptz")
        noon = dt.datetime(2024, 7, 1, 12, tzinfo=berlin)
        connection.execute("INSERT INTO tz VALUES (1, %s), (2, '2024-10-27 02:30')", (noon,))
        for binary in (True, False):
            found = connection.cursor(binary=binary).execute("SELECT at FROM tz ORDER BY id").fetchall()
            expect([at.isoformat() for (at,) in found], ["2024-07-01T12:00:00+02:00", "2024-10-27T02:30:00+01:00"])
        shown = connection.execute("SELECT at::text, at AT TIME ZONE 'UTC' FROM tz WHERE id = 1").fetchone()
        expect(shown, ("2024-07-01 12:00:00+02", dt.datetime(2024, 7, 1, 10)))
        connection.execute("SET TIME ZONE 'America/New_York'")
        expect(connection.execute("SELECT at::text FROM tz WHERE id = 1").fetchone()[0], "2024-07-01 06:00:00-04")


run()
