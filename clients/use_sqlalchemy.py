"""SQLAlchemy ORM over psycopg 3: tables, relations, identities, reflection."""

import datetime as dt
import decimal

import sqlalchemy as sa
from sqlalchemy import orm

from checks import check, expect, run, statement

engine = sa.create_engine("postgresql+psycopg://")


@sa.event.listens_for(engine, "before_cursor_execute")
def note(connection, cursor, text, values, context, executemany):
    statement(text)


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    born: orm.Mapped[dt.date | None]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "sa_book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("sa_author.id"), index=True)
    title: orm.Mapped[str] = orm.mapped_column(sa.Text)
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), default=0)
    sold: orm.Mapped[int] = orm.mapped_column(server_default="0")
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


def made():
    """The tables, without the check of the catalogs whether they are there."""
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS sa_book, sa_author"))
    Base.metadata.create_all(engine, checkfirst=False)


@check
def connects():
    with engine.connect() as connection:
        expect(connection.execute(sa.text("SELECT 1")).scalar(), 1)


@check
def objects():
    made()
    with orm.Session(engine) as session:
        ada = Author(name="Ada", born=dt.date(1815, 12, 10))
        ada.books = [Book(title=f"Notes {i}", price=decimal.Decimal("9.50")) for i in range(5)]
        session.add_all([ada, Author(name="Bob")])
        session.commit()
        found = session.scalars(sa.select(Author).where(Author.name == "Ada")).one()
        expect([book.title for book in sorted(found.books, key=lambda b: b.id)], [f"Notes {i}" for i in range(5)])
        found.books[0].sold += 3
        session.delete(found.books[1])
        session.commit()
        expect(session.scalar(sa.select(sa.func.count()).select_from(Book)), 4)
        expect(session.scalar(sa.select(sa.func.sum(Book.price))), decimal.Decimal("38.00"))


@check
def joins_and_groups():
    made()
    with orm.Session(engine) as session:
        session.add(Author(name="Ada", books=[Book(title=t, price=1) for t in "abc"]))
        session.commit()
        query = sa.select(Author.name, Book.title).join(Book.author).order_by(Book.title).limit(2)
        expect([tuple(row) for row in session.execute(query)], [("Ada", "a"), ("Ada", "b")])
        eager = sa.select(Author).options(orm.selectinload(Author.books))
        expect(len(session.scalars(eager).one().books), 3)
        joined = sa.select(Author).options(orm.joinedload(Author.books))
        expect(len(session.scalars(joined).unique().one().books), 3)
        grouped = sa.select(Author.name, sa.func.count(Book.id)).join(Author.books).group_by(Author.name)
        expect([tuple(row) for row in session.execute(grouped)], [("Ada", 3)])


@check
def nested_transactions():
    made()
    with orm.Session(engine) as session:
        session.add(Author(name="Ada"))
        session.flush()
        try:
            with session.begin_nested():
                session.add(Author(name="Ada"))
                session.flush()
        except sa.exc.IntegrityError:
            pass
        session.add(Author(name="Eve"))
        session.commit()
        expect(session.scalar(sa.select(sa.func.count()).select_from(Author)), 2)


@check
def upserts():
    made()
    from sqlalchemy.dialects.postgresql import insert

    with engine.begin() as connection:
        new = insert(Author).values(id=1, name="Ada")
        connection.execute(new)
        again = new.on_conflict_do_update(index_elements=["id"], set_={"name": "Ada L."}).returning(Author.name)
        expect(connection.execute(again).scalar(), "Ada L.")


@check
def creates_what_is_missing():
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)


@check
def arrays():
    table = sa.Table("sa_array", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    table.append_column(sa.Column("tags", sa.ARRAY(sa.Text)))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS sa_array"))
        table.create(connection, checkfirst=False)
        connection.execute(table.insert(), [{"id": 1, "tags": ["a", "b c"]}, {"id": 2, "tags": []}])
        having = sa.select(table.c.id).where(sa.literal("b c") == sa.any_(table.c.tags))
        expect(connection.scalars(having).all(), [1])
        expect(connection.execute(sa.select(table.c.tags).order_by(table.c.id)).scalars().all(), [["a", "b c"], []])
    found = sa.MetaData()
    found.reflect(engine, only=["sa_array"])
    expect(str(found.tables["sa_array"].c.tags.type), "ARRAY")


@check
def enumerations():
    mood = sa.Enum("sad", "ok", "happy", name="sa_mood")
    table = sa.Table("sa_feel", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    table.append_column(sa.Column("mood", mood, server_default="ok", nullable=False))
    table.append_column(sa.Column("all", sa.ARRAY(mood)))
    table.metadata.drop_all(engine)
    table.metadata.create_all(engine)
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"id": 1, "mood": "sad", "all": ["ok", "sad"]}, {"id": 2, "mood": "happy", "all": []}]
        connection.execute(table.insert(), rows)
        more = sa.select(table.c.id, table.c.mood).where(table.c.mood > "sad").order_by(table.c.mood)
        expect([tuple(row) for row in connection.execute(more)], [(2, "happy")])
        some = sa.select(table.c.id).where(table.c.mood.in_(["sad", "ok"]))
        expect(connection.scalars(some).all(), [1])
        expect(connection.scalar(sa.select(table.c.all).where(table.c.id == 1)), ["ok", "sad"])
        connection.execute(sa.text("ALTER TYPE sa_mood ADD VALUE IF NOT EXISTS 'so so' BEFORE 'ok'"))
    found = sa.MetaData()
    found.reflect(engine, only=["sa_feel"])
    column = found.tables["sa_feel"].c.mood
    expect((type(column.type).__name__, column.type.name), ("ENUM", "sa_mood"))
    expect(column.type.enums, ["sad", "so so", "ok", "happy"])
    expect("sa_mood" in [known["name"] for known in sa.inspect(engine).get_enums()], True)
    table.metadata.drop_all(engine)


@check
def documents():
    from sqlalchemy.dialects.postgresql import JSONB

    table = sa.Table("sa_doc", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    table.append_column(sa.Column("doc", JSONB))
    table.metadata.drop_all(engine)
    table.metadata.create_all(engine)
    doc = table.c.doc
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": 1, "doc": {"a": [1, {"b": 2}], "c": None}}, {"id": 2, "doc": [1]}])
        expect(connection.scalars(sa.select(table.c.id).where(doc.contains({"a": [1]}))).all(), [1])
        expect(connection.scalars(sa.select(table.c.id).where(doc.has_key("c"))).all(), [1])
        expect(connection.scalar(sa.select(doc[("a", 1, "b")].astext).where(table.c.id == 1)), "2")
        expect(connection.scalar(sa.select(doc.op("-")("c")).where(table.c.id == 1)), {"a": [1, {"b": 2}]})
        changed = sa.func.jsonb_set(doc, sa.cast(["x"], sa.ARRAY(sa.Text)), sa.cast(5, JSONB), type_=JSONB)
        expect(connection.scalar(sa.select(changed["x"]).where(table.c.id == 1)), 5)
    table.metadata.drop_all(engine)


@check
def reflects_tables():
    made()
    inspector = sa.inspect(engine)
    names = inspector.get_table_names()
    expect({"sa_author", "sa_book"} <= set(names), True)
    metadata = sa.MetaData()
    metadata.reflect(engine, only=["sa_book"])
    book = metadata.tables["sa_book"]
    expect([column.name for column in book.columns], ["id", "author_id", "title", "price", "sold"])
    expect(str(book.c.price.type), "NUMERIC(10, 2)")
    expect([key.column.table.name for key in book.foreign_keys], ["sa_author"])
    expect([index.name for index in book.indexes], ["ix_sa_book_author_id"])
    expect([c.name for c in book.primary_key], ["id"])


run()
