"""Alembic: two migrations up and down, and one that it finds by comparing."""

import pathlib
import tempfile

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from checks import check, expect, run, statement

ENV = """
from alembic import context
import sqlalchemy as sa
import shared
with shared.engine.connect() as connection:
    context.configure(connection=connection, target_metadata=shared.metadata, transaction_per_migration=True, include_name=shared.is_own)
    with context.begin_transaction():
        context.run_migrations()
"""
TEMPLATE = """
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None
from alembic import op
import sqlalchemy as sa
def upgrade():
    ${upgrades if upgrades else "pass"}
def downgrade():
    ${downgrades if downgrades else "pass"}
"""
FIRST = """
revision, down_revision = "a1", None
from alembic import op
import sqlalchemy as sa
def upgrade():
    op.create_table("al_item", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(20), nullable=False))
    op.create_index("al_item_name", "al_item", ["name"], unique=True)
def downgrade():
    op.drop_index("al_item_name", "al_item")
    op.drop_table("al_item")
"""
SECOND = """
revision, down_revision = "a2", "a1"
from alembic import op
import sqlalchemy as sa
def upgrade():
    op.add_column("al_item", sa.Column("price", sa.Numeric(10, 2), server_default="0", nullable=False))
    op.execute("UPDATE al_item SET price = 1")
    op.alter_column("al_item", "name", new_column_name="title")
def downgrade():
    op.alter_column("al_item", "title", new_column_name="name")
    op.drop_column("al_item", "price")
"""


class Shared:
    engine = sa.create_engine("postgresql+psycopg://")
    metadata = sa.MetaData()

    @staticmethod
    def is_own(name, kind, parents):
        return kind != "table" or name == "al_item"


@sa.event.listens_for(Shared.engine, "before_cursor_execute")
def note(connection, cursor, text, values, context, executemany):
    statement(text)


def project(folder):
    """A project with the two migrations."""
    import sys

    sys.modules["shared"] = Shared
    place = pathlib.Path(folder)
    (place / "versions").mkdir()
    (place / "env.py").write_text(ENV)
    (place / "script.py.mako").write_text(TEMPLATE)
    (place / "versions" / "a1.py").write_text(FIRST)
    (place / "versions" / "a2.py").write_text(SECOND)
    config = Config()
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    return config


def emptied():
    with Shared.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS alembic_version, al_item"))


@check
def up_and_down():
    emptied()
    with tempfile.TemporaryDirectory() as folder:
        config = project(folder)
        command.upgrade(config, "a1")
        with Shared.engine.begin() as connection:
            connection.execute(sa.text("INSERT INTO al_item (name) VALUES ('x')"))
        command.upgrade(config, "head")
        with Shared.engine.begin() as connection:
            row = connection.execute(sa.text("SELECT title, price FROM al_item")).one()
            expect((row.title, int(row.price)), ("x", 1))
        command.downgrade(config, "base")
        with Shared.engine.begin() as connection:
            expect(connection.execute(sa.text("SELECT count(*) FROM alembic_version")).scalar(), 0)


@check
def finds_differences():
    emptied()
    Shared.metadata = sa.MetaData()
    sa.Table("al_item", Shared.metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("more", sa.Text))
    with tempfile.TemporaryDirectory() as folder:
        config = project(folder)
        command.upgrade(config, "head")
        made = command.revision(config, message="found", autogenerate=True)
        text = pathlib.Path(made.path).read_text()
        expect("more" in text and "drop_column" in text, True)
        command.upgrade(config, "head")


run()
