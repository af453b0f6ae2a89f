"""Lists of the Kubernetes API, page by page, as its protocol asks for.

`limit`/`continue`; an expired token (410) starts the list over, at most a few times; 429 and 5xx are
tried again after the pause the server names; a truncated body is fetched again; 401 and 403 become
messages that say what to grant. The caller gets pages and drops what it holds when one `is_first`
(kubernetes/kubernetes#67284, kubernetes-client/python#953).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubetally.errors import BadDataError, SourceError
from kubetally.http import (
    LONGEST_PAUSE_SECONDS,
    RETRIED_STATUS,
    Answer,
    retry_after_seconds,
)
from kubetally.sources.kubernetes.objects import Page, decode_page

Get = Callable[[str, Mapping[str, str]], Answer]

PAGE_LIMIT = 500
ATTEMPTS = 4
RESTARTS = 3
FIRST_PAUSE_SECONDS = 0.5
GONE = 410


@dataclass(frozen=True)
class Resource:
    """A kind of object as the API lists it, and as a dump of it is called."""

    plural: str
    group: str = ""
    version: str = "v1"
    file_stem: str = ""

    @property
    def path(self) -> str:
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/{self.plural}"

    @property
    def title(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


NAMESPACES = Resource("namespaces", file_stem="namespaces")
NODES = Resource("nodes", file_stem="nodes")
PODS = Resource("pods", file_stem="pods")
VOLUMES = Resource("persistentvolumes", file_stem="persistentvolumes")
CLAIMS = Resource("persistentvolumeclaims", file_stem="persistentvolumeclaims")
SERVICES = Resource("services", file_stem="services")
METRICS_GROUP = "metrics.k8s.io"
POD_METRICS = Resource("pods", METRICS_GROUP, "v1beta1", file_stem="metrics.k8s.io-pods")


def list_pages(
    get: Get,
    resource: Resource,
    *,
    limit: int = PAGE_LIMIT,
    attempts: int = ATTEMPTS,
    restarts: int = RESTARTS,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Page]:
    """Every page of `resource`. `get(path, params)` gives one answer or raises SourceError.

    Raises SourceError where retries are used up, BadDataError where they cannot help.
    """
    for _ in range(restarts + 1):
        token = ""
        seen: set[str] = set()
        is_first = True
        while True:
            params = {"limit": str(limit)}
            if token:
                params["continue"] = token
            page = _page(get, resource, params, is_first, attempts, sleep)
            if page is None:
                break  # the token is too old: the list as a whole starts over
            yield page
            is_first = False
            token = page.continue_token
            if not token:
                return
            if token in seen:
                raise BadDataError(f"The list of {resource.title} gave one continue token twice.")
            seen.add(token)
    raise SourceError(
        f"The list of {resource.title} expired (410) {restarts + 1} times before its end.",
        remedy="The API server is slow or compacts early; the next run tries again.",
    )


def _page(
    get: Get,
    resource: Resource,
    params: Mapping[str, str],
    is_first: bool,
    attempts: int,
    sleep: Callable[[float], None],
) -> Page | None:
    """One page; None where the API answers 410."""
    problem = ""
    for attempt in range(1, attempts + 1):
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
        try:
            answer = get(resource.path, params)
            if answer.status == GONE:
                return None
            if answer.status == 200:
                return _decoded(answer, is_first, outline_pods=resource is PODS)
            if answer.status not in RETRIED_STATUS:
                raise explain(answer, resource)
            problem = f"status {answer.status}"
            pause = max(pause, retry_after_seconds(answer.headers.get("retry-after")))
        except SourceError as error:
            problem = str(error)
        if attempt < attempts:
            sleep(min(pause, LONGEST_PAUSE_SECONDS) * (1 + random.random() / 10))
    raise SourceError(f"The list of {resource.title} failed {attempts} times, last with: {problem}")


def _decoded(answer: Answer, is_first: bool, *, outline_pods: bool) -> Page:
    """A 200 as a page. JSON that breaks off is a truncated body (SourceError: tried again)."""
    try:
        return decode_page(answer.body, is_first=is_first, outline_pods=outline_pods)
    except BadDataError as error:
        if answer.body.lstrip()[:1] == b"{" and not _is_whole_json(answer.body):
            raise SourceError("the body breaks off.") from error
        raise BadDataError(
            str(error),
            remedy="Does the connection point at the API server, not at a login page or proxy?",
        ) from error


def _is_whole_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def explain(answer: Answer, resource: Resource) -> BadDataError:
    """Why the API refuses, and what a person does about it."""
    said = _message(answer.body)
    if answer.status == 401:
        return BadDataError(
            f"The API server does not accept our credentials for {resource.title} (401).",
            remedy="Renew the token or certificate of the connection.",
        )
    if answer.status == 403:
        return BadDataError(
            f"We may not list {resource.title} (403: {said}).",
            remedy="Add to our ClusterRole: "
            f'{{apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["list"]}}'
            " (include/config/rbac/kubetally-reader.yaml has them all).",
        )
    if answer.status == 404 and resource.group:
        return BadDataError(
            f"The cluster does not serve {resource.group} (404).",
            remedy="Install metrics-server, or read usage from Prometheus.",
        )
    return BadDataError(f"The list of {resource.title} answered {answer.status}: {said}.")


def _message(body: bytes) -> str:
    """What a Status object or a plain text says, short."""
    try:
        status: Any = msgspec.json.decode(body)
        text = str(status["message"])
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace")
    return " ".join(text.split())[:300]
