"""From what each query says to the raw rows of pods, nodes, namespaces and volumes.

Everything is joined over time: a row holds exactly while all its parts do, and is cut where one of
them changes. What no query said is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import polars as pl

from kubetally.sources.kubernetes import facts
from kubetally.sources.prometheus.families import Family
from kubetally.sources.prometheus.intervals import (
    align,
    decimal_text,
    greatest,
    merge,
    total,
    union,
)
from kubetally.sources.prometheus.names import node_label, resource_name, workload
from kubetally.sources.rows import JSON, SCHEMAS, TIME, Dataset, Reject
from kubetally.windows import iso

_SORTED_JSON = msgspec.json.Encoder(order="sorted").encode
_LABELS = msgspec.json.Decoder(dict[str, str])

Families = Mapping[str, Family]
Rows = tuple[pl.DataFrame, list[Reject]]


def pods(families: Families) -> Rows:
    """One row per pod and time over which nothing about it changed.

    The effective request is the scheduler's own where it publishes it (`kube_pod_resource_request`),
    else the larger of what all containers ask for together and what the largest init container
    asks for, plus overhead. kube-state-metrics lists native sidecars among the init containers and
    does not say which they are, and it knows nothing of pod-level requests: such pods are
    understated by it; let the scheduler's metrics be scraped. A pod without any request asks for "0" at times the request series are
    known; at other times its request is null.

    A pod without a uid is told apart by its creation, else by when it was first seen.
    """
    info = families["pod_info"].intervals
    subjects = info.select("namespace", "pod", "uid").unique().sort("namespace", "pod", "uid")
    subjects = subjects.with_row_index("key")
    base = _keyed(info, subjects, ["namespace", "pod", "uid"])
    onto = _onto_pods(subjects)

    rejects: list[Reject] = []
    asked = onto(_by_resource(families["container_request"]))
    starting = onto(_by_resource(families["init_request"]))
    booked = onto(_by_resource(families["pod_request"]))
    overhead = onto(_by_resource(families["pod_overhead"]))
    limited = onto(_by_resource(families["container_limit"]))
    per = ["key", "resource"]
    # Two series of one container (a change of labels) never hold at once, so sums are safe.
    steps = {
        "steady": total(asked, per, "value"),
        "largest": greatest(starting, per, "value"),
        "booked": total(booked, per, "value"),
        "overhead": total(overhead, per, "value"),
    }
    gpus = _gpu_of_each(steps.values(), subjects, rejects)
    layers: dict[str, pl.DataFrame] = {
        "phase": _keyed_by(onto, families["pod_phase"], "phase"),
        "labels": _keyed_by(onto, families["pod_labels"], "kept", "labels"),
        "annotations": _keyed_by(onto, families["pod_annotations"], "kept", "annotations"),
        "created": _keyed_by(onto, families["pod_created"], "value", "created"),
        "seen": union(base, ["key"]).with_columns(pl.col("start").alias("seen_from")),
        "requests": _at_all_times(
            subjects, [families["container_request"], families["pod_request"]]
        ),
        "gpu": union(base, ["key"]).join(gpus, on="key", how="inner"),
        **_limits(asked, limited, onto(families["container_info"].intervals)),
    }
    for step, frame in steps.items():
        for resource in ("cpu", "memory"):
            layers[f"{step}_{resource}"] = (
                frame.filter(pl.col("resource") == resource)
                .drop("resource")
                .rename({"value": f"{step}_{resource}"})
            )
        layers[f"{step}_gpu"] = (
            frame.join(gpus, left_on=["key", "resource"], right_on=["key", "gpu_resource"])
            .drop("resource")
            .rename({"value": f"{step}_gpu"})
        )
    told = align(base, layers).join(subjects, on="key", how="left")
    told = told.join(_workloads(told, families), on=list(_CREATOR), how="left", nulls_equal=True)
    rows = told.select(
        "start",
        "end",
        _uid(pl.col("uid")),
        "namespace",
        "pod",
        _stated("node"),
        "phase",
        "workload_kind",
        "workload_name",
        decimal_text(_request("cpu")).alias("cpu_request_cores"),
        decimal_text(_request("memory")).alias("memory_request_bytes"),
        decimal_text(_request("gpu")).alias("gpu_request"),
        pl.when(_request("gpu") > 0).then("gpu_resource").alias("gpu_resource"),
        decimal_text(_limit("cpu")).alias("cpu_limit_cores"),
        decimal_text(_limit("memory")).alias("memory_limit_bytes"),
        pl.when(pl.col("host_network") != "")
        .then(pl.col("host_network") == "true")
        .alias("host_network"),
        "labels",
        "annotations",
    )
    return _finished("pod", rows), rejects


def nodes(families: Families) -> Rows:
    """One row per node and time over which nothing about it changed.

    kube-state-metrics gives no uid: the machine's `system_uuid` stands for it where it is set and
    no other node has it, else the provider's id, else name and creation.
    """
    info = families["node_info"].intervals
    identity = ["node", "system_uuid", "provider_id"]
    subjects = info.select(identity).unique().sort(identity).with_row_index("key")
    by_name = _onto(subjects, ["node"])
    rejects: list[Reject] = []
    capacity = by_name(_by_resource(families["node_capacity"]))
    allocatable = by_name(_by_resource(families["node_allocatable"]))
    per = ["key", "resource"]
    steps = {
        "capacity": total(capacity.filter(pl.col("value") >= 0), per, "value"),
        "allocatable": total(allocatable.filter(pl.col("value") >= 0), per, "value"),
    }
    base = _keyed(info, subjects, identity)
    gpus = _gpu_of_each(steps.values(), subjects.rename({"node": "pod"}), rejects, "node")
    layers: dict[str, pl.DataFrame] = {
        "labels": _keyed_by(by_name, families["node_labels"], "kept", "raw_labels"),
        "ready": _keyed_by(by_name, families["node_ready"], "status"),
        "created": _keyed_by(by_name, families["node_created"], "value", "created"),
        "gpu": union(base, ["key"]).join(gpus, on="key", how="inner"),
    }
    for step, frame in steps.items():
        layers[f"{step}"] = union(frame, ["key"])
        for resource in ("cpu", "memory"):
            layers[f"{step}_{resource}"] = (
                frame.filter(pl.col("resource") == resource)
                .drop("resource")
                .rename({"value": f"{step}_{resource}"})
            )
        layers[f"{step}_gpu"] = (
            frame.join(gpus, left_on=["key", "resource"], right_on=["key", "gpu_resource"])
            .drop("resource")
            .rename({"value": f"{step}_gpu"})
        )
    told = align(base, layers).join(subjects, on="key", how="left")
    about = ["raw_labels", "provider_id", "os_image"]
    told = told.join(
        _node_facts(told.select(about).unique()), on=about, how="left", nulls_equal=True
    )
    shared = pl.col("node").n_unique().over("system_uuid") > 1
    created = (pl.col("created") // 1000).cast(TIME)
    rows = told.select(
        "start",
        "end",
        pl.when((pl.col("system_uuid") != "") & ~shared)
        .then("system_uuid")
        .when(pl.col("provider_id") != "")
        .then("provider_id")
        .when(created.is_not_null())
        .then(pl.col("node") + pl.lit("@") + _iso(created))
        .otherwise("node")
        .alias("uid"),
        "node",
        _stated("provider_id"),
        "region",
        "zone",
        "instance_type",
        "os",
        "capacity_type",
        decimal_text(pl.col("capacity_cpu")).alias("cpu_capacity_cores"),
        decimal_text(pl.col("allocatable_cpu")).alias("cpu_allocatable_cores"),
        decimal_text(pl.col("capacity_memory")).alias("memory_capacity_bytes"),
        decimal_text(pl.col("allocatable_memory")).alias("memory_allocatable_bytes"),
        _gpu_amount("capacity"),
        _gpu_amount("allocatable"),
        "gpu_resource",
        pl.when(pl.col("gpu_resource").is_not_null()).then("gpu_model").alias("gpu_model"),
        (pl.col("status") == "true").alias("is_ready"),
        "is_virtual",
        created.alias("created_at"),
        "labels",
    )
    return _finished("node", rows), rejects


def namespaces(families: Families) -> Rows:
    """One row per namespace and time; kube-state-metrics gives no uid, so name and creation."""
    existing = families["namespace_created"].intervals.rename({"value": "created"})
    subjects = existing.select("namespace").unique().sort("namespace").with_row_index("key")
    by_name = _onto(subjects, ["namespace"])
    told = align(
        _keyed(existing, subjects, ["namespace"]),
        {
            "labels": _keyed_by(by_name, families["namespace_labels"], "kept", "labels"),
            "annotations": _keyed_by(
                by_name, families["namespace_annotations"], "kept", "annotations"
            ),
        },
    ).join(subjects, on="key", how="left")
    created = (pl.col("created") // 1000).cast(TIME)
    rows = told.select(
        "start",
        "end",
        (pl.col("namespace") + pl.lit("@") + _iso(created)).alias("uid"),
        "namespace",
        "labels",
        "annotations",
    )
    return _finished("namespace", rows), []


def volumes(families: Families) -> Rows:
    """One row per volume and time, and per bound or waiting claim whose volume is not listed.

    A volume counts with its provisioned size, for the claim it is bound to or was last; its name
    stands for the uid. A claim on its own counts with what it asks for once it is bound.
    """
    sizes = families["volume_capacity"].intervals.rename({"persistentvolume": "volume"})
    claims = families["claim_info"].intervals.rename(
        {"persistentvolumeclaim": "claim", "volumename": "volume", "storageclass": "claim_class"}
    )
    labels = families["claim_labels"].intervals.rename({"persistentvolumeclaim": "claim"})
    listed = sizes.select("volume").unique().sort("volume").with_row_index("key")
    by_volume = _onto(listed, ["volume"])
    owners = claims.select("namespace", "claim", "volume").unique()

    def of_volume(name: str, *columns: str) -> pl.DataFrame:
        frame = families[name].intervals.rename({"persistentvolume": "volume"})
        return by_volume(frame).select("key", "start", "end", *columns)

    bound = align(
        _keyed(sizes, listed, ["volume"]),
        {
            "class": of_volume("volume_info", "storageclass"),
            "phase": of_volume("volume_phase", "phase"),
            "reference": of_volume("volume_claim", "claim_namespace", "name"),
            "claim": by_volume(claims).select(
                "key", "start", "end", "namespace", "claim", "claim_class"
            ),
            "labels": by_volume(labels.join(owners, on=["namespace", "claim"])).select(
                "key", "start", "end", pl.col("kept").alias("labels")
            ),
        },
    ).join(listed, on="key", how="left")
    named = pl.col("name").is_not_null() & (pl.col("name") != "")
    of_volumes = bound.select(
        "start",
        "end",
        pl.col("volume").alias("uid"),
        "volume",
        pl.when(named).then("claim_namespace").otherwise("namespace").alias("namespace"),
        pl.when(named).then("name").otherwise("claim").alias("claim"),
        pl.coalesce(_stated("storageclass"), _stated("claim_class")).alias("storage_class"),
        "phase",
        decimal_text(pl.col("value")).alias("capacity_bytes"),
        "labels",
    )

    alone = claims.join(listed.select("volume"), on="volume", how="anti")
    waiting = alone.select("namespace", "claim").unique().sort("namespace", "claim")
    waiting = waiting.with_row_index("key")
    by_claim = _onto(waiting, ["namespace", "claim"])

    def of_claim(name: str, *columns: str) -> pl.DataFrame:
        frame = families[name].intervals.rename({"persistentvolumeclaim": "claim"})
        return by_claim(frame).select("key", "start", "end", *columns)

    apart = align(
        _keyed(alone, waiting, ["namespace", "claim"]),
        {
            "size": of_claim("claim_request", "value"),
            "phase": of_claim("claim_phase", "phase"),
            "labels": by_claim(labels).select(
                "key", "start", "end", pl.col("kept").alias("labels")
            ),
        },
    ).join(waiting, on="key", how="left")
    of_claims = apart.select(
        "start",
        "end",
        (pl.col("namespace") + pl.lit("/") + pl.col("claim")).alias("uid"),
        _stated("volume"),
        "namespace",
        "claim",
        _stated("claim_class").alias("storage_class"),
        "phase",
        pl.when(pl.col("volume") != "").then(decimal_text(pl.col("value"))).alias("capacity_bytes"),
        "labels",
    )
    return _finished("volume", pl.concat([of_volumes, of_claims])), []


# --- parts ------------------------------------------------------------------------------------

_CREATOR = ("created_by_kind", "created_by_name", "namespace", "pod", "node")


def _finished(dataset: Dataset, rows: pl.DataFrame) -> pl.DataFrame:
    """Equal neighbours merged, times as times, exactly the columns of the dataset."""
    schema = SCHEMAS[dataset]
    names = [name for name in schema if name not in ("start_at", "end_at")]
    merged = merge(rows.select(*names, "start", "end"))
    return (
        merged.with_columns(
            (pl.col("start") * 1000).cast(TIME).alias("start_at"),
            (pl.col("end") * 1000).cast(TIME).alias("end_at"),
        )
        .select(list(schema))
        .cast(pl.Schema(schema))
        .sort(names[1], "uid", "start_at")
    )


def _keyed(
    intervals: pl.DataFrame, subjects: pl.DataFrame, identity: Sequence[str]
) -> pl.DataFrame:
    return intervals.join(subjects, on=list(identity), how="inner").drop(identity)


def _onto(
    subjects: pl.DataFrame, identity: Sequence[str]
) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Joins statements about `identity` to every subject of it; time decides which they meet."""

    def onto(intervals: pl.DataFrame) -> pl.DataFrame:
        return intervals.join(subjects.select("key", *identity), on=list(identity), how="inner")

    return onto


def _onto_pods(subjects: pl.DataFrame) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Joins by uid; by namespace and name where one side has no uid."""

    def onto(intervals: pl.DataFrame) -> pl.DataFrame:
        joined = intervals.join(
            subjects.rename({"uid": "_uid"}), on=["namespace", "pod"], how="inner"
        )
        if "uid" in joined.columns:
            same = pl.col("uid") == pl.col("_uid")
            joined = joined.filter(same | (pl.col("uid") == "") | (pl.col("_uid") == ""))
        return joined.drop("_uid")

    return onto


def _keyed_by(
    onto: Callable[[pl.DataFrame], pl.DataFrame], family: Family, column: str, name: str = ""
) -> pl.DataFrame:
    return onto(family.intervals).select(
        "key", "start", "end", pl.col(column).alias(name or column)
    )


def _by_resource(family: Family) -> pl.DataFrame:
    """The family's intervals for cpu, memory and GPUs, by Kubernetes' own resource names."""
    intervals = family.intervals
    known = {name: resource_name(name) for name in intervals["resource"].unique()}
    return intervals.with_columns(
        pl.col("resource").replace_strict(known, default=None, return_dtype=pl.String)
    ).drop_nulls("resource")


def _gpu_of_each(
    steps: Iterable[pl.DataFrame],
    subjects: pl.DataFrame,
    rejects: list[Reject],
    dataset: Dataset = "pod",
) -> pl.DataFrame:
    """`key`, `gpu_resource`: the one GPU resource a row can carry, whole devices before slices."""
    asked = (
        pl.concat([f.select("key", "resource", "value") for f in steps])
        .filter(~pl.col("resource").is_in(["cpu", "memory"]), pl.col("value") > 0)
        .group_by("key", "resource")
        .agg(pl.col("value").max())
    )
    slices = pl.col("resource").str.extract(r"nvidia\.com/mig-(\d+)").cast(pl.Int128)
    ordered = asked.with_columns(
        slices.is_null().alias("whole"), (pl.col("value") * slices.fill_null(1)).alias("weight")
    ).sort("key", "whole", "weight", "resource", descending=[False, True, True, True])
    chosen = ordered.unique("key", keep="first", maintain_order=True)
    others = ordered.join(chosen.select("key", "resource"), on=["key", "resource"], how="anti")
    for name, resource in (
        others.join(subjects, on="key").sort("key", "resource").select("pod", "resource").rows()
    ):
        rejects.append(
            Reject(dataset, name, f"it has a second GPU resource, {resource}, which is left out")
        )
    return chosen.select("key", pl.col("resource").alias("gpu_resource"))


def _at_all_times(subjects: pl.DataFrame, families: Sequence[Family]) -> pl.DataFrame:
    """For every subject the times at which one of the families is known."""
    known = union(pl.concat([family.covered for family in families]))
    return subjects.select("key").join(known, how="cross")


def _limits(
    asked: pl.DataFrame, limited: pl.DataFrame, containers: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """A pod's limit where all its containers have one; else it is unlimited (no row)."""
    columns = ["key", "container", "start", "end"]
    each = pl.concat([frame.select(columns) for frame in (asked, limited, containers)])
    each = union(each, ["key", "container"])
    one = pl.lit(1, dtype=pl.Int128)
    all_of_them = total(each.with_columns(one.alias("many")), ["key"], "many")
    layers = {"containers": all_of_them}
    for resource in ("cpu", "memory"):
        mine = limited.filter(pl.col("resource") == resource)
        layers[f"limited_{resource}"] = total(mine, ["key"], "value").rename(
            {"value": f"limit_{resource}"}
        )
        layers[f"counted_{resource}"] = total(
            mine.with_columns(one.alias(f"many_{resource}")), ["key"], f"many_{resource}"
        )
    return layers


def _request(resource: str) -> pl.Expr:
    """The scheduler's word, else steady state against initialisation plus overhead, else 0 if the
    request series are known at that time."""
    steady, largest = pl.col(f"steady_{resource}"), pl.col(f"largest_{resource}")
    overhead = pl.col(f"overhead_{resource}")
    zero = pl.lit(0, dtype=pl.Int128)
    needed = (
        pl.when(largest > steady.fill_null(zero))
        .then(largest)
        .otherwise(pl.coalesce(steady, largest))
    )
    summed = pl.coalesce(needed + overhead.fill_null(zero), overhead)
    return pl.coalesce(
        pl.col(f"booked_{resource}"), summed, pl.when(pl.col("has_requests")).then(zero)
    )


def _limit(resource: str) -> pl.Expr:
    overhead = pl.col(f"overhead_{resource}").fill_null(pl.lit(0, dtype=pl.Int128))
    return pl.when(pl.col(f"many_{resource}") == pl.col("many")).then(
        pl.col(f"limit_{resource}") + overhead
    )


def _gpu_amount(step: str) -> pl.Expr:
    """ "0" where the node's resources are known and no GPU is among them."""
    amount = pl.coalesce(
        pl.col(f"{step}_gpu"), pl.when(pl.col(f"has_{step}")).then(pl.lit(0, dtype=pl.Int128))
    )
    return decimal_text(amount).alias(f"gpu_{step}")


def _uid(uid: pl.Expr) -> pl.Expr:
    since = (
        pl.coalesce(pl.col("created") // 1_000_000, pl.col("seen_from").cast(pl.Int128)) * 1000
    ).cast(TIME)
    made = pl.col("namespace") + pl.lit("/") + pl.col("pod") + pl.lit("@") + _iso(since)
    return pl.when(uid != "").then(uid).otherwise(made).alias("uid")


def _iso(moment: pl.Expr) -> pl.Expr:
    """As `windows.iso` writes it."""
    return moment.map_elements(iso, return_dtype=pl.String, skip_nulls=True)


def _stated(column: str) -> pl.Expr:
    return pl.when(pl.col(column) != "").then(pl.col(column)).alias(column)


def _workloads(told: pl.DataFrame, families: Families) -> pl.DataFrame:
    """The workload of each creator among `told`, by the columns of `_CREATOR`."""
    owners: dict[tuple[str, str, str], tuple[str, str]] = {}
    for name, kind, label in (
        ("replicaset_owner", "ReplicaSet", "replicaset"),
        ("job_owner", "Job", "job_name"),
    ):
        rows = families[name].intervals.sort("start")
        for namespace, owned, owner_kind, owner_name in rows.select(
            "namespace", label, "owner_kind", "owner_name"
        ).rows():
            owners[kind, namespace, owned] = (owner_kind, owner_name)
    creators = told.select(_CREATOR).unique()
    found = [
        workload(kind, name, pod, node, owners.get((kind, namespace, name)))
        for kind, name, namespace, pod, node in creators.rows()
    ]
    return creators.with_columns(
        pl.Series("workload_kind", [kind for kind, _ in found], dtype=pl.String),
        pl.Series("workload_name", [name for _, name in found], dtype=pl.String),
    )


def _node_facts(about: pl.DataFrame) -> pl.DataFrame:
    """What labels and provider id tell of a node, by the same rules as for live objects."""
    rows: list[dict[str, object]] = []
    for text, provider_id, os_image in about.rows():
        found = {node_label(k): v for k, v in (_LABELS.decode(text) if text else {}).items()}
        region, zone = facts.place_of(found, provider_id or None)
        os = _first(found, facts.OS_LABELS)
        if os is None and os_image:
            os = "windows" if "windows" in os_image.lower() else "linux"
        rows.append(
            {
                "raw_labels": text,
                "provider_id": provider_id,
                "os_image": os_image,
                "region": region,
                "zone": zone,
                "instance_type": _first(found, facts.INSTANCE_LABELS),
                "os": os.lower() if os else None,
                "capacity_type": facts.capacity_type_of(found),
                "gpu_model": _first(found, facts.GPU_MODEL_LABELS),
                "is_virtual": facts.is_virtual(found, provider_id),
                "labels": _SORTED_JSON(found).decode() if text is not None else None,
            }
        )
    schema = dict.fromkeys(rows[0], JSON) if rows else {}
    return pl.DataFrame(rows, schema={**schema, "is_virtual": pl.Boolean} if schema else None)


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
