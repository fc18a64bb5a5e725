"""DB-API 2.0."""

import pytest

import atoll


@pytest.fixture
def connection():
    opened = atoll.connect()
    yield opened
    opened.close()


@pytest.fixture
def cursor(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id int8 PRIMARY KEY, name text NOT NULL)")
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"n{i}") for i in range(5)])
    assert cursor.rowcount == 5
    connection.commit()
    return cursor


def test_the_module_says_what_it_is():
    assert (atoll.apilevel, atoll.threadsafety, atoll.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(atoll.IntegrityError, atoll.DatabaseError) and issubclass(atoll.DatabaseError, atoll.Error)


def test_rows_are_fetched_one_by_one_in_pieces_and_all(cursor):
    cursor.execute("SELECT id, name FROM t ORDER BY id")
    assert [column[:2] for column in cursor.description] == [("id", "int8"), ("name", "text")]
    assert cursor.description[0][1] == atoll.NUMBER and cursor.description[1][1] == atoll.STRING
    assert cursor.description[0][1] != atoll.STRING
    assert cursor.fetchone() == (0, "n0")
    assert cursor.fetchmany(2) == [(1, "n1"), (2, "n2")]
    assert cursor.fetchmany() == [(3, "n3")]
    assert cursor.fetchall() == [(4, "n4")]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    assert [row[0] for row in cursor.execute("SELECT id FROM t ORDER BY id DESC")] == [4, 3, 2, 1, 0]


def test_transactions_end_by_commit_or_rollback(connection, cursor):
    cursor.execute("DELETE FROM t")
    assert cursor.rowcount == 5
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (5,)
    connection.commit()
    with pytest.raises(ZeroDivisionError):
        with connection:
            cursor.execute("DELETE FROM t")
            1 / 0
    with connection:
        cursor.execute("DELETE FROM t WHERE id = ?", [0])
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (4,)


def test_autocommit_makes_each_statement_a_transaction(connection, cursor):
    connection.commit()
    connection.autocommit = True
    cursor.execute("DELETE FROM t WHERE id = 1")
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (4,)


def test_errors_are_those_of_pep_249(connection, cursor):
    def state(kind, text, params=()):
        with pytest.raises(kind) as raised:
            cursor.execute(text, params)
        connection.rollback()
        return raised.value.sqlstate

    assert state(atoll.IntegrityError, "INSERT INTO t VALUES (1, 'x')") == "23505"
    assert state(atoll.IntegrityError, "INSERT INTO t VALUES (9, NULL)") == "23502"
    assert state(atoll.ProgrammingError, "SELECT * FROM missing") == "42P01"
    assert state(atoll.ProgrammingError, "SELEKT") == "42601"
    assert state(atoll.DataError, "SELECT 1 / 0") == "22012"
    assert state(atoll.NotSupportedError, "COPY t TO STDOUT") == "0A000"
    cursor.execute("INSERT INTO t VALUES (9, 'x')")
    with pytest.raises(atoll.InterfaceError):
        cursor.fetchone()
    cursor.close()
    with pytest.raises(atoll.InterfaceError):
        cursor.execute("SELECT 1")
    connection.close()
    with pytest.raises(atoll.InterfaceError):
        connection.cursor()


def test_question_marks_in_strings_and_comments_are_no_parameters(cursor):
    cursor.execute("SELECT '?''?', ? /* ? */ AS \"?\" -- ?\n", ["x"])
    assert cursor.fetchone() == ("?'?", "x")
    assert cursor.execute("SELECT id FROM t WHERE id = $1", [3]).fetchone() == (3,)


def test_two_connections_see_what_the_other_has_committed():
    with atoll.open() as db:
        one, two = db.connect(), db.connect()
        one.execute("CREATE TABLE t (id int8 PRIMARY KEY)")
        one.commit()
        one.execute("INSERT INTO t VALUES (1)")
        one.commit()
        assert two.execute("SELECT id FROM t").fetchall() == [(1,)]
        one.close()
        two.close()
