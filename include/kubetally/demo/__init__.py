"""The demo cluster: a deterministic company in a box, its servers and its ground truth.

`scenario` says what happened at any moment, `server` speaks it over HTTP as Kubernetes, Prometheus
and the price APIs would, `truth` integrates and prices it in plain Python. Users try and size
Kubetally with it; the tests compare the warehouse with it to the last digit.
"""
