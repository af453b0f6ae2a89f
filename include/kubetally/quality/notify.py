"""Tells people that a task failed: a webhook, mail, or nothing while neither is configured.

Define the connection `kubetally_webhook` (HTTP: its host is the whole address, or host and
`extra.path`; password as bearer token, login and password as basic auth, `extra.headers` for
anything else) and/or `kubetally_smtp` (as Airflow's SMTP provider reads it, plus `extra.to`, one
address or several separated by commas). This file is imported by every DAG: it stays light.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from kubetally.connections import Connection

log = logging.getLogger(__name__)
WEBHOOK = "kubetally_webhook"
SMTP = "kubetally_smtp"
LONGEST_ERROR = 2000
TIMEOUT_SECONDS = 10.0


class GateNotifier(BaseNotifier):  # type: ignore[misc]  # airflow.* is not followed
    """An `on_failure_callback` that posts or mails what failed, where, and why.

    It never raises: a task that failed has one problem already, and a notice is not another. On a
    task it runs in the task's own process, on a DAG in the DAG processor.
    """

    def notify(self, context: Mapping[str, Any]) -> None:
        message = build_message(context)
        channels: tuple[tuple[str, Callable[[Connection, Mapping[str, Any]], None]], ...] = (
            (WEBHOOK, post),
            (SMTP, send_mail),
        )
        for conn_id, send in channels:
            found = _find(conn_id)
            if found is None:
                continue
            try:
                send(found, message)
            except Exception as error:
                # Their texts may quote addresses, and a webhook's address is its secret.
                log.error("The notice to %s was not sent: %s.", conn_id, _cause(error))
            else:
                log.info("Told %s.", conn_id)


def build_message(context: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent: dag, task, run, cluster, window, error, and a `text` for chat programs.

    Takes nothing from the context but names, times and the error, whose known secrets are masked.
    """
    instance = context.get("task_instance") or context.get("ti")
    run = context.get("dag_run")
    dag_id = getattr(instance, "dag_id", None) or getattr(context.get("dag"), "dag_id", "")
    task_id = getattr(instance, "task_id", "")
    cluster = _cluster(context)
    window = _window(context, run)
    error = _error(context)
    place = " ".join(part for part in (cluster, window) if part)
    return {
        "text": f"Kubetally: {dag_id}{f'.{task_id}' if task_id else ''} failed"
        f"{f' for {place}' if place else ''}\n{error}",
        "dag": dag_id,
        "task": task_id,
        "run": getattr(instance, "run_id", None) or getattr(run, "run_id", ""),
        "try": getattr(instance, "try_number", None),
        "map_index": getattr(instance, "map_index", None),
        "cluster": cluster,
        "window": window,
        "error": error,
        "log_url": _log_url(instance),
    }


def post(found: Connection, message: Mapping[str, Any]) -> None:
    """POSTs the message as JSON. Raises SourceError unless the answer is 2xx."""
    from kubetally.errors import SourceError
    from kubetally.http import HttpClient

    base, path = _webhook_address(found)
    headers = {str(name): str(value) for name, value in (found.extra.get("headers") or {}).items()}
    if found.password and not found.login:
        headers["Authorization"] = f"Bearer {found.password}"
    client = HttpClient(
        base,
        headers=headers,
        auth=(found.login, found.password) if found.login else None,
        verify=found.extra.get("verify", True),
        timeout_seconds=(TIMEOUT_SECONDS, TIMEOUT_SECONDS),
        max_bytes=1 << 20,
    )
    answer = client.post_json(path, message)
    if not 200 <= answer.status < 300:
        raise SourceError(f"{client.host} answered {answer.status}.")


def send_mail(found: Connection, message: Mapping[str, Any]) -> None:
    """Mails the message. Raises ConfigError without `extra.to`, SMTPException or OSError."""
    import smtplib
    import ssl
    from email.message import EmailMessage

    from kubetally.errors import ConfigError

    recipients = found.extra.get("to") or ()
    if isinstance(recipients, str):
        recipients = [part.strip() for part in recipients.split(",") if part.strip()]
    if not recipients:
        raise ConfigError(
            f"The connection {SMTP!r} names nobody to write to.",
            remedy='Add {"to": "costs@example.com"} to its extra.',
        )
    mail = EmailMessage()
    mail["Subject"] = str(message["text"]).splitlines()[0][:200]
    mail["From"] = found.extra.get("from_email") or found.login or "kubetally@localhost"
    mail["To"] = ", ".join(recipients)
    mail.set_content(_mail_text(message))
    timeout = float(found.extra.get("timeout", TIMEOUT_SECONDS))
    is_ssl = not found.extra.get("disable_ssl", False)
    server: smtplib.SMTP
    if is_ssl:
        secure = ssl.create_default_context()
        server = smtplib.SMTP_SSL(found.host, found.port or 465, timeout=timeout, context=secure)
    else:
        server = smtplib.SMTP(found.host, found.port or 25, timeout=timeout)
    with server:
        if not is_ssl and not found.extra.get("disable_tls", False):
            server.starttls(context=ssl.create_default_context())
        if found.login:
            server.login(found.login, found.password)
        server.send_message(mail)


def _find(conn_id: str) -> Connection | None:
    from kubetally.connections import get_connection
    from kubetally.errors import ConfigError

    try:
        return get_connection(conn_id)
    except ConfigError as error:
        log.info("No notice goes to %s: %s", conn_id, error)
        return None


def _webhook_address(found: Connection) -> tuple[str, str]:
    """Scheme and host, and the rest. In a URI such as https://host/services/… the path is the schema."""
    from urllib.parse import urlsplit

    from kubetally.errors import BadDataError

    path = str(found.extra.get("path", ""))
    if "://" in found.host:
        address = found.host
    elif found.schema in ("", "http", "https"):
        address = f"{found.schema or 'https'}://{found.host}"
    else:
        address, path = f"{found.conn_type}://{found.host}", path or found.schema
    parts = urlsplit(address)
    if not parts.hostname:
        raise BadDataError(
            f"The connection {WEBHOOK!r} has no host.", remedy="Set its host to the whole address."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or found.port
    rest = parts.path.rstrip("/") + (f"/{path.lstrip('/')}" if path else "")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{host}" + (f":{port}" if port else ""), f"{rest or '/'}{query}"


def _cluster(context: Mapping[str, Any]) -> str:
    """The cluster a task works on: its argument `cluster`, or the run's parameter."""
    arguments = getattr(context.get("task"), "op_kwargs", None)
    params = context.get("params")
    for source in (arguments, params):
        if isinstance(source, Mapping) and isinstance(source.get("cluster"), str):
            return str(source["cluster"])
    return ""


def _window(context: Mapping[str, Any], run: Any) -> str:
    from datetime import datetime

    start = context.get("data_interval_start") or getattr(run, "data_interval_start", None)
    end = context.get("data_interval_end") or getattr(run, "data_interval_end", None)
    if not (isinstance(start, datetime) and isinstance(end, datetime)):
        return ""
    from kubetally.windows import iso

    return f"[{iso(start)}, {iso(end)})"


def _error(context: Mapping[str, Any]) -> str:
    error = context.get("exception") or context.get("reason") or "no reason was given"
    text = str(error) or type(error).__name__
    if isinstance(error, BaseException) and not type(error).__module__.startswith("kubetally."):
        text = f"{type(error).__name__}: {text}"
    return _masked(text)[:LONGEST_ERROR]


def _masked(text: str) -> str:
    """`text` without credentials in addresses and without the secrets Airflow knows of."""
    import re

    text = re.sub(r"(?<=://)[^/\s@]+@", "***@", text)
    try:
        from airflow.sdk.log import redact
    except ImportError:
        return text
    return str(redact(text))


def _cause(error: Exception) -> str:
    """Kubetally's own messages carry no secrets; of others only the kind is told."""
    from kubetally.errors import KubetallyError

    return str(error) if isinstance(error, KubetallyError) else type(error).__name__


def _log_url(instance: Any) -> str:
    found = getattr(instance, "log_url", None)
    return found if isinstance(found, str) else ""


def _mail_text(message: Mapping[str, Any]) -> str:
    names = ("dag", "task", "run", "try", "cluster", "window", "log_url")
    lines = [f"{name:8}{message[name]}" for name in names if message[name] not in (None, "")]
    return "\n".join([*lines, "", str(message["error"]), ""])
