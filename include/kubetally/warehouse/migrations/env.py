"""Alembic environment: runs on the connection that kubetally.warehouse.migrate hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table_schema="public")
with context.begin_transaction():
    context.run_migrations()
