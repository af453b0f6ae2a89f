"""What can go wrong on purpose, so that it can be seen that nothing goes wrong because of it."""

from __future__ import annotations

import msgspec


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the demo server. The default is none. Every field can be set at run time with
    `POST /demo/faults`, for example `{"throttle_every": 3, "paths": "/api/v1/query"}`.

    The `…_every` fields spoil every Nth request whose path contains `paths` (0 = never).
    """

    paths: str = ""
    throttle_every: int = 0  # 429 with Retry-After
    retry_after_seconds: int = 1
    error_every: int = 0  # 500
    timeout_every: int = 0  # answers after `timeout_seconds`
    timeout_seconds: float = 30.0
    truncate_every: int = 0  # half the body, although Content-Length promises all of it
    expire_continue: int = 0  # so many continue tokens (from now on) are answered with 410
    odd_pod: bool = False  # one pod asks for "1.5 cores", which is no quantity
    late_after: str = ""  # Prometheus samples newer than this …
    late_until: str = ""  # … can be seen only from then on (empty = never)
    gaps: tuple[tuple[str, str], ...] = ()  # [start, end) without any Prometheus sample
    broken_node: str = ""  # its kubelet proxy answers 503 ("first" = the first node)

    def __post_init__(self) -> None:
        for name in ("throttle_every", "error_every", "timeout_every", "truncate_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative")
