"""The first warehouse: schemas raw, core, mart, bi and ops. DDL in include/sql/migrations/0001."""

from alembic import op

from kubetally.warehouse.connect import SQL_FOLDER, run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for path in sorted((SQL_FOLDER / "migrations" / "0001").glob("*.sql")):
        run_script(op.get_bind(), path)


def downgrade() -> None:
    for schema in ("bi", "mart", "core", "raw", "ops"):
        op.execute(f"drop schema {schema} cascade")
