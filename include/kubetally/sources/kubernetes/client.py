"""Raw bytes from a cluster's API through the cncf-kubernetes provider's connection.

Every way the Airflow connection knows works: `in_cluster` (the token is read again when it rotates),
`kube_config_path`, `kube_config`, the default kubeconfig; inside them bearer token, basic, client
certificate, exec plugins and a custom CA. A connection with a `host` needs no kubeconfig: `password`
is then the bearer token, with a `login` it is basic authentication, and the extras `ca_cert`,
`client_cert` and `client_key` hold PEM text.

Only the provider's client is used, not its models: answers stay bytes. Works in a task and in a plain
process with AIRFLOW_CONN_<ID> set.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any

from kubetally.connections import Connection, get_connection
from kubetally.errors import BadDataError, ConfigError, SourceError
from kubetally.http import Answer

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = (5.0, 60.0)  # to connect, between two pieces of the answer
MOST_BYTES = 1024**3  # of one answer
KUBECONFIG_EXTRAS = ("in_cluster", "kube_config_path", "kube_config")


class KubernetesClient:
    """GETs of one cluster's API server; credentials go to it alone and are never logged."""

    def __init__(self, api_client: Any, name: str) -> None:
        self._api = api_client
        self._name = name

    def get(self, path: str, params: Mapping[str, str]) -> Answer:
        """One answer, whatever its status. Raises SourceError when none (or half of one) comes."""
        import urllib3

        headers: dict[str, str] = {"Accept": "application/json", **self._api.default_headers}
        # Asks the configuration for the token each time: rotated tokens are read again there.
        self._api.update_params_for_auth(headers, [], ["BearerToken"])
        host = self._api.configuration.host.rstrip("/")
        try:
            response = self._api.rest_client.pool_manager.request(
                "GET",
                f"{host}{path}",
                fields=dict(params),
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,  # urllib3's own would sleep through any Retry-After
                timeout=urllib3.Timeout(connect=TIMEOUT_SECONDS[0], read=TIMEOUT_SECONDS[1]),
            )
            try:
                body = self._read(response)
            finally:
                response.release_conn()
        except urllib3.exceptions.SSLError as error:
            raise BadDataError(
                f"{self._name}: the API server's certificate is not trusted ({error}).",
                remedy="Give the cluster's CA in the connection; do not switch verification off.",
            ) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise SourceError(f"{self._name}: {type(error).__name__} at {path}.") from error
        received = {name.lower(): value for name, value in response.headers.items()}
        if 300 <= response.status < 400:
            raise BadDataError(
                f"{self._name}: {path} answered {response.status}, a redirect; not followed.",
                remedy="Point the connection at the API server itself.",
            )
        return Answer(response.status, body, received)

    def close(self) -> None:
        self._api.close()

    def _read(self, response: Any) -> bytes:
        parts: list[bytes] = []
        size = 0
        for part in response.stream(1 << 20):
            size += len(part)
            if size > MOST_BYTES:
                response.close()
                raise BadDataError(f"{self._name}: one answer has more than {MOST_BYTES} bytes.")
            parts.append(part)
        return b"".join(parts)


def connect(conn_id: str, context: str = "") -> KubernetesClient:
    """A client for the Airflow connection `conn_id`. Raises ConfigError when it cannot be built."""
    connection = get_connection(conn_id)
    try:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    except ImportError as error:
        raise ConfigError(
            "The Kubernetes provider of Airflow is not installed.",
            remedy="Install apache-airflow-providers-cncf-kubernetes (it is in requirements.txt).",
        ) from error
    kube_config = kube_config_of(connection)
    try:
        hook = KubernetesHook(
            conn_id=conn_id,
            config_dict=kube_config,
            cluster_context=None if kube_config else context or None,
        )
        api_client = hook.get_conn()
    except Exception as error:
        # The provider and its library raise whatever they met. Only messages that cannot quote the
        # kubeconfig (and with it a token) are repeated.
        known = type(error).__name__ in {"ConfigException", "AirflowException", "FileNotFoundError"}
        said = f"{type(error).__name__}: {str(error)[:200]}" if known else type(error).__name__
        raise ConfigError(
            f"Connection {conn_id!r} does not lead to a Kubernetes API ({said}).",
            remedy="Check its kubeconfig (path, context) or its in_cluster flag.",
        ) from None
    host = str(api_client.configuration.host)
    if host.startswith("https://") and not api_client.configuration.verify_ssl:
        log.warning(
            "TLS verification of connection %r is switched OFF by its own settings: anyone on the "
            "way can read its token and change the bill. Give the cluster's CA instead.",
            conn_id,
        )
    return KubernetesClient(api_client, conn_id)


def kube_config_of(connection: Connection) -> dict[str, Any] | None:
    """A kubeconfig from a connection that names a host; None where it brings its own."""
    extra = connection.extra
    if not connection.host or any(
        extra.get(name) or extra.get(f"extra__kubernetes__{name}") for name in KUBECONFIG_EXTRAS
    ):
        return None
    cluster: dict[str, Any] = {"server": connection.base_url}
    user: dict[str, Any] = {}
    if extra.get("ca_cert"):
        cluster["certificate-authority-data"] = _base64(extra["ca_cert"])
    if extra.get("client_cert"):
        user["client-certificate-data"] = _base64(extra["client_cert"])
        user["client-key-data"] = _base64(extra.get("client_key") or "")
    if connection.login:
        user |= {"username": connection.login, "password": connection.password}
    elif connection.password:
        user["token"] = connection.password.strip()
    name = connection.conn_id
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
