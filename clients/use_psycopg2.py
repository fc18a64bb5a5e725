"""psycopg 2: literals in simple queries, transactions, COPY, named cursors, batches."""

import datetime as dt
import decimal
import io

import psycopg2
import psycopg2.extras

from checks import check, expect, expect_error, run, statement


class Cursor(psycopg2.extensions.cursor):
    def execute(self, query, values=None):
        statement(query)
        return super().execute(query, values)

    def copy_expert(self, text, file):
        statement(text)
        return super().copy_expert(text, file)


def connect():
    return psycopg2.connect("", cursor_factory=Cursor)


def fresh(cursor, name, columns):
    cursor.execute(f"DROP TABLE IF EXISTS {name}")
    cursor.execute(f"CREATE TABLE {name} ({columns})")


@check
def literals():
    with connect() as connection, connection.cursor() as cursor:
        fresh(cursor, "l", "id int PRIMARY KEY, t text, n numeric(12,2), d timestamp, b bytea, f float8, o bool")
        row = (
            1,
            "it's \\ and \n",
            decimal.Decimal("-12.50"),
            dt.datetime(2024, 2, 29, 1, 2, 3, 4),
            psycopg2.Binary(b"\x00\xff"),
            1.25,
            True,
        )
        cursor.execute("INSERT INTO l VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
        cursor.execute("SELECT * FROM l WHERE id = %s", (1,))
        found = cursor.fetchone()
        expect(bytes(found[4]), b"\x00\xff")
        expect(found[:4] + found[5:], row[:4] + row[5:])


@check
def transactions():
    first, second = connect(), connect()
    cursor = first.cursor()
    fresh(cursor, "tr", "id int PRIMARY KEY")
    first.commit()
    cursor.execute("INSERT INTO tr VALUES (1)")
    other = second.cursor()
    first.rollback()
    other.execute("SELECT count(*) FROM tr")
    expect(other.fetchone(), (0,))
    expect_error("22012", cursor.execute, "SELECT 1/0")
    expect_error("25P02", cursor.execute, "SELECT 1")
    first.rollback()
    first.set_session(isolation_level="SERIALIZABLE", readonly=True)
    expect_error("25006", cursor.execute, "INSERT INTO tr VALUES (2)")
    first.rollback()
    first.close()
    second.close()


@check
def batches():
    with connect() as connection, connection.cursor() as cursor:
        fresh(cursor, "ba", "id serial PRIMARY KEY, v int")
        cursor.executemany("INSERT INTO ba (v) VALUES (%s)", [(i,) for i in range(10)])
        statement("execute_values")
        rows = psycopg2.extras.execute_values(
            cursor, "INSERT INTO ba (v) VALUES %s RETURNING id", [(i,) for i in range(5)], fetch=True
        )
        expect(rows, [(i,) for i in range(11, 16)])
        psycopg2.extras.execute_batch(cursor, "UPDATE ba SET v = v + %s WHERE id = %s", [(1, i) for i in range(1, 16)])
        cursor.execute("SELECT sum(v) FROM ba")
        expect(cursor.fetchone(), (70,))


@check
def copies():
    with connect() as connection, connection.cursor() as cursor:
        fresh(cursor, "co", "id int PRIMARY KEY, t text")
        cursor.copy_expert("COPY co FROM STDIN WITH (FORMAT csv)", io.StringIO('1,"a, b"\n2,\n'))
        statement("copy_from")
        cursor.copy_from(io.StringIO("3\tc\n4\t\\N\n"), "co")
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT * FROM co ORDER BY id) TO STDOUT", out)
        expect(out.getvalue(), "1\ta, b\n2\t\\N\n3\tc\n4\t\\N\n")


@check
def named_cursors():
    with connect() as connection:
        with connection.cursor() as cursor:
            fresh(cursor, "na", "id int PRIMARY KEY")
            cursor.execute("INSERT INTO na SELECT g FROM generate_series(1, 100) g")
        statement("DECLARE many CURSOR FOR SELECT id FROM na ORDER BY id")
        with connection.cursor("many") as cursor:
            cursor.itersize = 30
            cursor.execute("SELECT id FROM na ORDER BY id")
            expect([row[0] for row in cursor], list(range(1, 101)))


@check
def dictionaries():
    with connect() as connection, connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute(statement("SELECT 1 AS one, 'x' AS name"))
        expect(dict(cursor.fetchone()), {"one": 1, "name": "x"})


run()
