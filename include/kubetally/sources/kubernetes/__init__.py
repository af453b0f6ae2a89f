"""The Kubernetes API as a source: the objects it lists, and the usage metrics.k8s.io reports."""

from kubetally.sources.kubernetes.poll import collect

__all__ = ["collect"]
