"""Serves one recorded price page (and what belongs to it) as its provider would, whatever is asked.

The address names the page: `/recorded/azure/<file>.json/api/retail/prices?…`. Nothing is filtered, so
that a client has to tell the rows apart itself; links to a next page lead back here. Pure once the
files are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PREFIX = "/recorded/"
NOTHING = "nothing.json"  # a page without a single row
AZURE_LINK = re.compile(rb'"NextPageLink"\s*:\s*"(https?://[^/"]+)(/[^"]*)"')
EMPTY_OFFER = (
    b'{"offerCode":"AmazonEC2","products":{"NONE":{"sku":"NONE","productFamily":"Storage"}},'
    b'"terms":{"OnDemand":{}}}'
)
GCP_COMPUTE = "gcp/reassembled_compute_skus_page{}.json"
GCP_DECOYS = "gcp/reassembled_decoy_skus_placeholder_price.json"


def find(name: str, folders: Iterable[Path]) -> Path | None:
    """The file `name` (relative, `azure/….json`) in the first of `folders` that has it."""
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def answer(
    path: str, parameters: dict[str, str], folders: Iterable[Path], base_url: str
) -> tuple[int, bytes]:
    """(status, body) of a request below `PREFIX`; 404 for a page that no folder has."""
    asked = re.fullmatch(rf"{PREFIX}(azure|gcp|aws)/([^/]+\.json)(/.*)?", path)
    if asked is None:
        return 404, b"There is no such recording."
    provider, name = asked[1], f"{asked[1]}/{asked[2]}"
    places = tuple(folders)
    try:
        if provider == "azure":
            return 200, _azure(name, parameters, places, base_url)
        if provider == "gcp":
            return 200, _gcp(name, parameters, places)
        return 200, EMPTY_OFFER if name.endswith(NOTHING) else _file(name, places)
    except FileNotFoundError:
        return 404, b"There is no such recording."


def _file(name: str, folders: tuple[Path, ...]) -> bytes:
    found = find(name, folders)
    if found is None:
        raise FileNotFoundError(name)
    return found.read_bytes()


def _azure(
    name: str, parameters: dict[str, str], folders: tuple[Path, ...], base_url: str
) -> bytes:
    """Page 1, and for a link with `$skip` the page that follows: …page2.json, or an empty one."""
    empty = b'{"Items":[],"NextPageLink":null,"Count":0}'
    if name.endswith(NOTHING):
        return empty
    if "$skip" in parameters:
        following = name.replace("_page1", "_page2")
        if following == name or find(following, folders) is None:
            return empty
        return _relinked(_file(following, folders), following, base_url)
    return _relinked(_file(name, folders), name, base_url)


def _relinked(body: bytes, name: str, base_url: str) -> bytes:
    here = f'"NextPageLink":"{base_url}{PREFIX}{name}'.encode()
    return AZURE_LINK.sub(lambda link: here + link[2] + b'"', body)


def _gcp(name: str, parameters: dict[str, str], folders: tuple[Path, ...]) -> bytes:
    """The page and its fellows, one after the other; SKUs that must never win come last."""
    if ("compute_skus_page" in name and "recorded" not in name) or name == GCP_DECOYS:
        names = [GCP_COMPUTE.format(number) for number in (1, 2, 3)]
    else:
        names = [] if name.endswith(NOTHING) else [name]
    names.append(GCP_DECOYS)
    at = int(parameters.get("pageToken", "0"))
    page: dict[str, Any] = json.loads(_file(names[at], folders))
    page["nextPageToken"] = str(at + 1) if at + 1 < len(names) else ""
    return json.dumps(page).encode()
