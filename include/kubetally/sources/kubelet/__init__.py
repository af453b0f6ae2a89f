"""Counters and gauges of containers, read from the kubelets through the API server's node proxy."""

from kubetally.sources.kubelet.collect import collect

__all__ = ["collect"]
