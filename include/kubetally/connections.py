"""The one place that resolves an Airflow Connection; secrets live nowhere else.

`AIRFLOW_CONN_<ID>` (JSON or URI) is read directly, which keeps the command line fast and free of
Airflow imports; inside Airflow every other secrets backend answers through the task SDK.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from kubetally.errors import ConfigError


@dataclass(frozen=True)
class Connection:
    """An Airflow Connection without Airflow. `repr` never shows the password or the extras."""

    conn_id: str
    conn_type: str = ""
    host: str = ""
    port: int | None = None
    login: str = ""
    password: str = field(default="", repr=False)
    schema: str = ""
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def base_url(self) -> str:
        """`schema://host:port` for HTTP connections; `host` may be a whole URL already."""
        if "://" in self.host:
            base = self.host.rstrip("/")
        else:
            base = f"{self.schema or 'https'}://{self.host}"
        has_port = urlsplit(base).port is not None
        return base if has_port or self.port is None else f"{base}:{self.port}"


def get_connection(conn_id: str) -> Connection:
    """The connection `conn_id`. Raises ConfigError naming it and how to define it."""
    text = os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    if text:
        return _parse(conn_id, text)
    try:
        from airflow.sdk import BaseHook

        found = BaseHook.get_connection(conn_id)
    except Exception as error:
        raise ConfigError(
            f"There is no connection {conn_id!r}.",
            remedy=f"Define it in Airflow (Admin → Connections) or as AIRFLOW_CONN_{conn_id.upper()}.",
        ) from error
    return Connection(
        conn_id=conn_id,
        conn_type=found.conn_type or "",
        host=found.host or "",
        port=found.port,
        login=found.login or "",
        password=found.password or "",
        schema=found.schema or "",
        extra=dict(found.extra_dejson),
    )


def _parse(conn_id: str, text: str) -> Connection:
    if text.lstrip().startswith("{"):
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"AIRFLOW_CONN_{conn_id.upper()} is not valid JSON.") from error
        extra = fields.get("extra") or {}
        if isinstance(extra, str):
            extra = json.loads(extra)
        port = fields.get("port")
        return Connection(
            conn_id=conn_id,
            conn_type=fields.get("conn_type") or "",
            host=fields.get("host") or "",
            port=int(port) if port else None,
            login=fields.get("login") or "",
            password=fields.get("password") or "",
            schema=fields.get("schema") or "",
            extra=extra,
        )
    parts = urlsplit(text)
    extra = dict(parse_qsl(parts.query))
    if "__extra__" in extra:
        extra = json.loads(extra["__extra__"])
    return Connection(
        conn_id=conn_id,
        conn_type=parts.scheme,
        host=unquote(parts.hostname or ""),
        port=parts.port,
        login=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        schema=unquote(parts.path.lstrip("/")),
        extra=extra,
    )
