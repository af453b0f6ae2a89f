"""The few fields of Kubernetes objects Kubetally reads, as typed records.

A list page is decoded in two steps: first its envelope, with every item left as raw bytes, then each
item on its own. So one object of an unexpected shape is rejected with a reason and the rest of its
page lands. Unknown fields are ignored; a null or absent list is an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

from kubetally.errors import BadDataError
from kubetally.sources.rows import Dataset, Reject

Time = Annotated[datetime, msgspec.Meta(tz=True)]
Quantity = str | int | float
Quantities = dict[str, Quantity | None]
T = TypeVar("T")

PAYLOAD_CHARACTERS = 2000
NUL = rb"\u0000"
REPLACEMENT = rb"\ufffd"
REPLACEMENT_TEXT = rb"\\ufffd"  # as `re.sub` wants it


class Record(msgspec.Struct, rename="camel", gc=False):
    """A part of an object: camelCase on the wire, unknown fields ignored."""


class OwnerReference(Record):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(Record):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: Time | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Condition(Record):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: Time | None = None


class Resources(Record):
    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Record):
    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(Record):
    node_name: str | None = None
    host_network: bool | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None


class Terminated(Record):
    finished_at: Time | None = None


class ContainerState(Record):
    terminated: Terminated | None = None


class ContainerStatus(Record):
    name: str | None = None
    state: ContainerState | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class PodStatus(Record):
    phase: str | None = None
    resize: str | None = None
    start_time: Time | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Record):
    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ContainerOutline(Record):
    name: str | None = None
    resources: msgspec.Raw = msgspec.Raw()
    restart_policy: str | None = None


class PodSpecOutline(Record):
    node_name: str | None = None
    host_network: bool | None = None
    containers: list[ContainerOutline] | None = None
    init_containers: list[ContainerOutline] | None = None
    overhead: msgspec.Raw = msgspec.Raw()
    resources: msgspec.Raw = msgspec.Raw()


class ContainerStatusOutline(Record):
    name: str | None = None
    state: msgspec.Raw = msgspec.Raw()
    resources: msgspec.Raw = msgspec.Raw()
    allocated_resources: msgspec.Raw = msgspec.Raw()


class PodStatusOutline(Record):
    phase: str | None = None
    resize: str | None = None
    start_time: Time | None = None
    conditions: msgspec.Raw = msgspec.Raw()
    container_statuses: list[ContainerStatusOutline] | None = None
    init_container_statuses: list[ContainerStatusOutline] | None = None


class MetadataOutline(Record):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: Time | None = None
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: msgspec.Raw = msgspec.Raw()


class PodOutline(Record):
    """A pod with the parts that repeat from pod to pod left as bytes (see pod_columns.py)."""

    metadata: MetadataOutline
    spec: PodSpecOutline | None = None
    status: PodStatusOutline | None = None


class NodeSpec(Record):
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    capacity: Quantities | None = None  # where it stood before Kubernetes 1.0


class NodeInfo(Record):
    operating_system: str | None = None


class NodeStatus(Record):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Record):
    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Namespace(Record):
    metadata: Metadata


class ClaimReference(Record):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeSpec(Record):
    capacity: Quantities | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str | None = None


class VolumeStatus(Record):
    phase: str | None = None


class Volume(Record):
    metadata: Metadata
    spec: VolumeSpec | None = None
    status: VolumeStatus | None = None


class ClaimSpec(Record):
    volume_name: str | None = None
    storage_class_name: str | None = None


class ClaimStatus(Record):
    phase: str | None = None
    capacity: Quantities | None = None


class Claim(Record):
    metadata: Metadata
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class ServicePort(Record):
    port: int | None = None


class ServiceSpec(Record):
    type: str | None = None
    load_balancer_class: str | None = None
    ports: list[ServicePort] | None = None


class Ingress(Record):
    ip: str | None = None
    hostname: str | None = None


class LoadBalancerStatus(Record):
    ingress: list[Ingress] | None = None


class ServiceStatus(Record):
    load_balancer: LoadBalancerStatus | None = None


class Service(Record):
    metadata: Metadata
    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None


class ContainerMetrics(Record):
    name: str | None = None
    usage: Quantities | None = None


class PodMetrics(Record):
    metadata: Metadata
    timestamp: Time | None = None
    containers: list[ContainerMetrics] | None = None


class ListMetadata(Record):
    continue_: str | None = msgspec.field(default=None, name="continue")


class Envelope(Record):
    kind: str | None = None
    metadata: ListMetadata | None = None
    items: list[msgspec.Raw] | None = None


class OutlineEnvelope(Record):
    kind: str | None = None
    metadata: ListMetadata | None = None
    items: list[PodOutline] | None = None


@dataclass(frozen=True)
class Page:
    """One page of a list. `is_first` tells that the list starts, or starts over: drop what was held.

    A page of pods whose every item has the usual shape holds `outlines`, not `items`.
    """

    items: Sequence[msgspec.Raw]
    is_first: bool
    body: bytes
    continue_token: str = ""
    outlines: Sequence[PodOutline] | None = None

    def raw_items(self) -> Sequence[msgspec.Raw]:
        """The bytes of every item, in order, also where only outlines were made."""
        return self.items if self.outlines is None else decode_page(self.body).items


_HALF_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_ENVELOPE = msgspec.json.Decoder(Envelope)
_OUTLINE_ENVELOPE = msgspec.json.Decoder(OutlineEnvelope)


def decode_page(body: bytes, *, is_first: bool = True, outline_pods: bool = False) -> Page:
    """A list answer as a page of raw items. Raises BadDataError when it is not a Kubernetes list.

    A single object, as `kubectl get pod NAME -o json` prints it, is a list of one. With `outline_pods`
    a list of pods of the usual shape is decoded whole, in one pass.
    """
    if outline_pods:
        page = _outline_page(body, is_first)
        if page is not None:
            return page
    try:
        try:
            envelope = _ENVELOPE.decode(body)
        except msgspec.DecodeError:
            # Half a character in one string must not cost the page; anything else fails again.
            envelope = _ENVELOPE.decode(_HALF_CHARACTER.sub(REPLACEMENT_TEXT, body))
    except msgspec.DecodeError as error:
        start = body[:60].decode("utf-8", "replace")
        raise BadDataError(
            f"This is not a Kubernetes list: {error} It begins {start!r}."
        ) from error
    kind = envelope.kind or ""
    if envelope.items is None and kind and not kind.endswith("List") and kind != "Status":
        return Page([msgspec.Raw(body)], is_first, body)
    if not kind.endswith("List"):
        raise BadDataError(f"This is not a Kubernetes list: its kind is {kind or 'missing'!r}.")
    token = envelope.metadata.continue_ if envelope.metadata else None
    return Page(envelope.items or (), is_first, body, token or "")


def _outline_page(body: bytes, is_first: bool) -> Page | None:
    """The page as pod outlines; None where anything in it is unusual."""
    has_nul = b"\\" in body and NUL in body
    try:
        found = _OUTLINE_ENVELOPE.decode(body.replace(NUL, REPLACEMENT) if has_nul else body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not (found.kind or "").endswith("List"):
        return None
    token = found.metadata.continue_ if found.metadata else None
    return Page((), is_first, body, token or "", found.items or ())


def decode_items(
    items: Sequence[msgspec.Raw],
    decoder: msgspec.json.Decoder[T],
    dataset: Dataset,
    rejects: list[Reject],
) -> Iterator[tuple[T, msgspec.Raw]]:
    """Each item as a record beside its bytes; an odd one goes to `rejects` instead."""
    decode = decoder.decode
    for raw in items:
        try:
            text = bytes(raw)
            # A NUL is legal in JSON and in no database text: replaced, not a reason to lose a pod.
            item = decode(text.replace(NUL, REPLACEMENT) if NUL in text else text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            rejects.append(reject(dataset, raw, str(error)))
            continue
        yield item, raw


def reject(dataset: Dataset, raw: msgspec.Raw, reason: str) -> Reject:
    """A Reject that names the object as well as its bytes allow."""
    start = bytes(raw)[: 4 * PAYLOAD_CHARACTERS].replace(NUL, REPLACEMENT)
    payload = start.decode("utf-8", "replace")
    return Reject(dataset, _name_of(raw), reason, payload[:PAYLOAD_CHARACTERS])


def _name_of(raw: msgspec.Raw) -> str:
    try:
        found: Any = msgspec.json.decode(raw)
        metadata = found["metadata"]
        parts = [metadata.get("namespace"), metadata.get("name") or metadata.get("uid")]
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "?"
    return "/".join(str(part) for part in parts if part)[:512].replace("\0", "\ufffd") or "?"
