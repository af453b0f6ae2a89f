"""Errors a person can act on: what was expected, what was found, what to do next."""

from __future__ import annotations


class KubetallyError(Exception):
    """Base of every error Kubetally raises on purpose.

    The message is one sentence that names the thing; `remedy` says what to do next.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.remedy = remedy


class ConfigError(KubetallyError):
    """A setting or a file under include/config is missing or wrong; names file, key and remedy."""


class SourceError(KubetallyError):
    """A source did not answer as its protocol says (after retries). The window stays a gap."""


class BadDataError(KubetallyError):
    """The answer is wrong in a way a retry cannot mend. Never retried."""


class GateError(KubetallyError):
    """A data-quality gate failed. Nothing after it ran; the published data is untouched."""


class StaleStageError(KubetallyError):
    """The loads changed between audit and publish: stage and audit again."""


class ClosedPeriodError(KubetallyError):
    """The window reaches into a closed month, which is immutable."""
