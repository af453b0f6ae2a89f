"""Outages as dated data. DDL in include/sql/migrations/0002."""

from alembic import op

from kubetally.warehouse.connect import SQL_FOLDER, run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for path in sorted((SQL_FOLDER / "migrations" / "0002").glob("*.sql")):
        run_script(op.get_bind(), path)


def downgrade() -> None:
    op.execute("drop function core.outages(text, timestamptz, timestamptz, timestamptz)")
    op.execute("drop table core.outage")
