"""asyncpg: named statements, binary values, COPY in binary, cursors, pools, cancel."""

import asyncio
import datetime as dt
import decimal
import uuid

import asyncpg

from checks import check, expect, run, statement




def asynchronous(body):
    """A check whose body is asynchronous and takes a connection."""

    async def whole():
        connection = await asyncpg.connect()
        try:
            await body(connection)
        finally:
            await connection.close(timeout=5)

    def synchronous():
        asyncio.run(whole())

    synchronous.__name__ = body.__name__
    return check(synchronous)


async def fails(state, awaited):
    try:
        await awaited
    except asyncpg.PostgresError as error:
        return expect(error.sqlstate, state)
    raise AssertionError(f"no error, expected SQLSTATE {state}")


async def fresh(connection, name, columns):
    await connection.execute(statement(f"DROP TABLE IF EXISTS {name}"))
    await connection.execute(statement(f"CREATE TABLE {name} ({columns})"))


@asynchronous
async def enumerations(connection):
    await connection.execute(statement("DROP TABLE IF EXISTS en"))
    await connection.execute(statement("DROP TYPE IF EXISTS en_mood"))
    await connection.execute(statement("CREATE TYPE en_mood AS ENUM ('sad', 'ok', 'happy')"))
    await fresh(connection, "en", "id int PRIMARY KEY, m en_mood, a en_mood[]")
    await connection.execute("INSERT INTO en VALUES ($1, $2, $3)", 1, "ok", ["sad", None])
    await connection.executemany("INSERT INTO en VALUES ($1, $2)", [(2, "happy"), (3, "sad")])
    rows = await connection.fetch(statement("SELECT m, a FROM en WHERE m >= $1 ORDER BY m"), "ok")
    expect([tuple(row) for row in rows], [("ok", ["sad", None]), ("happy", None)])
    rows = await connection.fetch("SELECT id FROM en WHERE m = ANY ($1) ORDER BY id", ["sad", "happy"])
    expect([row["id"] for row in rows], [2, 3])
    await fails("22P02", connection.execute("INSERT INTO en VALUES ($1, $2)", 4, "glad"))
    await connection.execute("DROP TABLE en")
    await connection.execute("DROP TYPE en_mood")


@asynchronous
async def types(connection):
    columns = "id int PRIMARY KEY, t text, n numeric(12,2), ts timestamp, tz timestamptz, d date, b bytea, f float8, "
    await fresh(connection, "ty", columns + "g float4, o bool, u uuid, i interval, c char(5), j jsonb, s int2, l int8")
    row = (
        1,
        "ü",
        decimal.Decimal("-1.50"),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        dt.datetime(2024, 2, 29, tzinfo=dt.timezone.utc),
        dt.date(2000, 1, 1),
        b"\x00\xff",
        1.25,
        0.5,
        True,
        uuid.UUID(int=7),
        dt.timedelta(days=1, seconds=2),
        "abc  ",
        '{"a": 1}',
        -5,
        2**62,
    )
    places = ", ".join(f"${i + 1}" for i in range(len(row)))
    await connection.execute(statement(f"INSERT INTO ty VALUES ({places})"), *row)
    found = await connection.fetchrow(statement("SELECT * FROM ty WHERE id = $1"), 1)
    expect(tuple(found), row)


@asynchronous
async def prepared(connection):
    await fresh(connection, "pr", "id int PRIMARY KEY, v int")
    insert = await connection.prepare(statement("INSERT INTO pr VALUES ($1, $2) RETURNING v"))
    expect([p.name for p in insert.get_parameters()], ["int4", "int4"])
    for i in range(10):
        expect(await insert.fetchval(i, i * i), i * i)
    await connection.executemany(statement("UPDATE pr SET v = $2 WHERE id = $1"), [(i, 1) for i in range(10)])
    expect(await connection.fetchval(statement("SELECT sum(v) FROM pr")), 10)
    statement("a failed executemany has no effect")
    await fails("23505", connection.executemany("INSERT INTO pr VALUES ($1, $2)", [(100, 1), (1, 1)]))
    expect(await connection.fetchval("SELECT count(*) FROM pr"), 10)


@asynchronous
async def arrays(connection):
    await fresh(connection, "ar", "id int PRIMARY KEY, tags text[], n bigint[]")
    statement("the types of arrays are looked up by WITH RECURSIVE over pg_type")
    await connection.execute("INSERT INTO ar VALUES ($1, $2, $3)", 1, ["a", "b c", None], [1, 2**40])
    await connection.execute("INSERT INTO ar VALUES ($1, $2, $3)", 2, [], None)
    found = await connection.fetch(statement("SELECT tags, n FROM ar ORDER BY id"))
    expect([tuple(row) for row in found], [(["a", "b c", None], [1, 2**40]), ([], None)])
    find = statement("SELECT id FROM ar WHERE id = ANY($1::int[]) ORDER BY id")
    expect([row["id"] for row in await connection.fetch(find, [2, 1, 9])], [1, 2])
    within = statement("SELECT id FROM ar WHERE tags @> $1")
    expect(await connection.fetchval(within, ["a"]), 1)
    add = statement("UPDATE ar SET tags = tags || $1::text[] WHERE id = 2 RETURNING tags")
    expect(await connection.fetchval(add, ["new"]), ["new"])
    rows = statement("SELECT ar.id, t FROM ar, unnest(ar.tags) AS t ORDER BY 1, 2")
    expect([tuple(row) for row in await connection.fetch(rows)], [(1, "a"), (1, "b c"), (1, None), (2, "new")])
    insert = statement("INSERT INTO ar (id, tags) SELECT u.id, ARRAY[u.t] FROM unnest($1::int[], $2::text[]) AS u (id, t)")
    await connection.execute(insert, [5, 6], ["x", None])
    expect(await connection.fetchval("SELECT count(*) FROM ar WHERE cardinality(tags) = 1"), 3)


@asynchronous
async def after_a_definition(connection):
    await fresh(connection, "ad", "id int PRIMARY KEY")
    await connection.execute("INSERT INTO ad VALUES (1)")
    expect(await connection.fetchval("SELECT id FROM ad WHERE id = $1", 1), 1)
    await connection.execute(statement("ALTER TABLE ad ADD COLUMN v int DEFAULT 5"))
    expect(await connection.fetchval("SELECT id FROM ad WHERE id = $1", 1), 1)
    expect(tuple(await connection.fetchrow(statement("SELECT * FROM ad"))), (1, 5))
    await connection.execute(statement("ALTER TABLE ad DROP COLUMN v"))
    expect(tuple(await connection.fetchrow(statement("SELECT * FROM ad"))), (1,))


@asynchronous
async def transactions(connection):
    await fresh(connection, "tx", "id int PRIMARY KEY")
    try:
        async with connection.transaction(isolation="serializable"):
            await connection.execute("INSERT INTO tx VALUES (1)")
            async with connection.transaction():
                await connection.execute("INSERT INTO tx VALUES (2)")
            raise ValueError
    except ValueError:
        pass
    expect(await connection.fetchval("SELECT count(*) FROM tx"), 0)


@asynchronous
async def cursors(connection):
    await fresh(connection, "cu", "id int PRIMARY KEY")
    await connection.execute("INSERT INTO cu SELECT g FROM generate_series(1, 250) g")
    async with connection.transaction():
        statement("a portal with a limit of rows")
        found = [row[0] async for row in connection.cursor("SELECT id FROM cu ORDER BY id", prefetch=40)]
        expect(found, list(range(1, 251)))


@asynchronous
async def copies(connection):
    await fresh(connection, "cp", "id int PRIMARY KEY, t text, f float8")
    rows = [(i, f"t{i}", i / 2) for i in range(1000)]
    statement("copy_records_to_table")
    expect(await connection.copy_records_to_table("cp", records=rows), "COPY 1000")
    got = bytearray()

    async def take(data):
        got.extend(data)

    statement("copy_from_query")
    await connection.copy_from_query("SELECT id, t FROM cp WHERE id < 3 ORDER BY id", output=take)
    expect(bytes(got), b"0\tt0\n1\tt1\n2\tt2\n")


@asynchronous
async def cancelled(connection):
    await fresh(connection, "ca", "id int PRIMARY KEY, v int")
    await connection.execute("INSERT INTO ca VALUES (1, 0)")
    holder = await asyncpg.connect()
    try:
        await holder.execute("BEGIN; UPDATE ca SET v = 1 WHERE id = 1")
        statement("UPDATE ca SET v = 2 WHERE id = 1")
        try:
            await connection.execute("UPDATE ca SET v = 2 WHERE id = 1", timeout=0.3)
            raise AssertionError("no time-out")
        except asyncio.TimeoutError:
            # The client waits for the end of its cancel request first.
            expect(await connection.fetchval("SELECT 1"), 1)
    finally:
        await holder.close()
    expect(await connection.fetchval("SELECT v FROM ca"), 0)


@check
def pools():
    async def work():
        async with asyncpg.create_pool(min_size=2, max_size=8) as pool:
            statement("the reset query of a pool")
            found = await asyncio.gather(*(pool.fetchval("SELECT $1::int * 2", i) for i in range(40)))
            expect(found, [i * 2 for i in range(40)])

    asyncio.run(work())


run()
