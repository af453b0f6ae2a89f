"""`python -m kubetally.local.team`: what the init service of docker-compose.yaml does once.

Migrates the warehouse with the administrator's login, giving each role the password that its
connection holds, and writes the password file of Airflow's simple auth manager.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from kubetally.connections import get_connection
from kubetally.errors import ConfigError, KubetallyError
from kubetally.local.files import write_private
from kubetally.local.settings import ROLES

ADMIN_URL = "KUBETALLY_WAREHOUSE_ADMIN_URL"
ADMIN_PASSWORD = "KUBETALLY_ADMIN_PASSWORD"  # the name of a variable, not a password
PASSWORD_FILE = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"


def prepare(env: Mapping[str, str]) -> None:
    """Safe to repeat. Raises ConfigError that names the missing variable or connection."""
    from kubetally.warehouse.migrate import migrate

    for name in (ADMIN_URL, ADMIN_PASSWORD, PASSWORD_FILE):
        if not env.get(name):
            raise ConfigError(f"{name} is not set.", remedy="See .env.example.")
    passwords, databases = {}, set()
    for name in ("owner", "loader", "publisher", "quality", "bi"):
        found = get_connection(f"kubetally_{name}")
        passwords[found.login] = found.password
        databases.add(found.schema)
    if set(passwords) != set(ROLES) or len(databases) != 1 or not all(passwords.values()):
        raise ConfigError(
            "The connections kubetally_owner, _loader, _publisher, _quality and _bi do not name "
            f"one database and the logins {', '.join(ROLES)}, each with a password."
        )
    migrate(env[ADMIN_URL], databases.pop(), passwords)
    write_private(Path(env[PASSWORD_FILE]), json.dumps({"admin": env[ADMIN_PASSWORD]}) + "\n")


if __name__ == "__main__":
    try:
        prepare(os.environ)
    except KubetallyError as error:
        sys.exit(f"error: {error}")
