"""Looks a cluster over: what is reachable, what is missing, how far back a backfill can reach.

`findings.py` is what is found; one module per kind of source and one for prices look; `examine.py`
puts them together, `command.py` tells people.
"""
