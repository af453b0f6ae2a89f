"""The Kubernetes API and, through it, the kubelets: are we let in, and may we read what we need?

A list of one object is the proof; it needs no right beyond the one it proves.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import msgspec

from kubetally.config import SourceConfig
from kubetally.doctor.findings import Finding, failure
from kubetally.errors import KubetallyError
from kubetally.sources.kubernetes.client import KubernetesClient, connect
from kubetally.sources.kubernetes.pages import (
    CLAIMS,
    METRICS_GROUP,
    NAMESPACES,
    NODES,
    POD_METRICS,
    PODS,
    SERVICES,
    VOLUMES,
    Resource,
    explain,
)

NEEDED = (NODES, PODS, NAMESPACES, VOLUMES, CLAIMS, SERVICES, POD_METRICS)
KUBELET_PATHS = ("metrics/cadvisor", "metrics/resource", "stats/summary")


def probe_api(source: SourceConfig) -> Iterator[Finding]:
    """One finding per list that is needed; the missing rules once more as YAML."""
    client = connect(source.connection, source.context)
    missing: list[Resource] = []
    try:
        for resource in NEEDED:
            yield _may_list(client, resource, missing)
    finally:
        client.close()
    if missing:
        yield Finding("FAIL", "kubernetes", "Rules are missing in our ClusterRole.", rules(missing))


def _may_list(client: KubernetesClient, resource: Resource, missing: list[Resource]) -> Finding:
    is_usage = resource.group == METRICS_GROUP
    try:
        answer = client.get(resource.path, {"limit": "1"})
        if answer.status == 200:
            msgspec.json.decode(answer.body, type=dict)
            return Finding("OK", "kubernetes", f"may list {resource.title}")
        if answer.status == 403:
            missing.append(resource)
        # Without metrics.k8s.io costs rest on requests, or on what Prometheus knows of usage.
        is_absent = is_usage and answer.status in (404, 503)
        return failure("kubernetes", explain(answer, resource), "WARN" if is_absent else "FAIL")
    except msgspec.MsgspecError:
        return Finding(
            "FAIL",
            "kubernetes",
            f"The list of {resource.title} is no JSON object.",
            "Does the connection point at the API server, not at a login page or proxy?",
        )
    except KubetallyError as error:
        return failure("kubernetes", error)


def rules(missing: list[Resource]) -> str:
    """The missing rules as they stand in a ClusterRole."""
    groups: dict[str, list[str]] = {}
    for resource in missing:
        groups.setdefault(resource.group, []).append(resource.plural)
    lines = ["Add to it (include/config/rbac/kubetally-reader.yaml has them all):", "rules:"]
    for group, plurals in groups.items():
        lines += [
            f'  - apiGroups: ["{group}"]',
            f"    resources: [{', '.join(plurals)}]",
            "    verbs: [list]",
        ]
    return "\n".join(lines)


def probe_kubelet(source: SourceConfig) -> Iterator[Finding]:
    """Asks one node's kubelet through the API server for each page that is read."""
    client = connect(source.connection, source.context)
    try:
        answer = client.get(NODES.path, {"limit": "1"})
        if answer.status != 200:
            yield failure("kubelet", explain(answer, NODES))
            return
        names = [
            str(item["metadata"]["name"])
            for item in msgspec.json.decode(answer.body, type=dict).get("items", [])
        ]
        for path in KUBELET_PATHS if names else ():
            page = client.get(f"/api/v1/nodes/{quote(names[0], safe='')}/proxy/{path}", {})
            if page.status == 200:
                yield Finding("OK", "kubelet", f"{names[0]} answers {path}")
            elif page.status == 403:
                yield Finding(
                    "FAIL",
                    "kubelet",
                    f"We may not read {path} of {names[0]} (403).",
                    "Apply include/config/rbac/kubetally-kubelet.yaml.",
                )
            else:
                yield Finding("WARN", "kubelet", f"{names[0]} answers {path} with {page.status}")
    except (msgspec.MsgspecError, LookupError, TypeError):
        yield Finding("FAIL", "kubelet", "The list of nodes is not as expected.")
    finally:
        client.close()
