"""Which pod and container a cgroup path belongs to, in the spellings of both cgroup drivers.

cgroupfs: `/kubepods/burstable/pod<uid>/<container id>`; systemd:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_POD = re.compile(
    r"(?:^|/)(?:kubepods(?:-burstable|-besteffort)?-)?pod"
    r"([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12})(?:\.slice)?(?=/|$)"
)
_CONTAINER = re.compile(
    r"(?:cri-containerd[-:]|crio-|docker-|libpod-|cri-dockerd-)?([0-9a-f]{4,64})(?:\.scope)?"
)


class Seat(NamedTuple):
    """A pod's uid (a mirror pod's is its configuration's hash) and, below it, a container's id."""

    uid: str
    container_id: str | None


def seat_of(path: str) -> Seat | None:
    """The pod and container of a cgroup path; None for the node, system services, unknown ids."""
    found = _POD.search(path)
    if found is None or not ("kubepods" in path[: found.end()] or path.startswith("/pod")):
        return None
    uid = found.group(1).replace("_", "-")
    below = path[found.end() :].strip("/").split("/")[0]
    container = _CONTAINER.fullmatch(below) if below else None
    return Seat(uid, container.group(1) if container else None)
