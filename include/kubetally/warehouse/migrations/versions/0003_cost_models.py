"""Cost models in full: bases, shared namespaces, sharing policies, outside drivers."""

from alembic import op

from kubetally.warehouse.connect import SQL_FOLDER, run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for path in sorted((SQL_FOLDER / "migrations" / "0003").glob("*.sql")):
        run_script(op.get_bind(), path)


def downgrade() -> None:
    raise NotImplementedError("Costs that were passed on have no place in 0001; restore a backup.")
