"""Kubetally: what Kubernetes clusters used, turned into bills people can trust."""

__version__ = "0.1.0"
