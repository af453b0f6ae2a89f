"""The Postgres warehouse: how it is opened, migrated, landed into and published in."""
