"""Names as Kubernetes spells them, from what kube-state-metrics made of them.

Exporters turn every character that Prometheus does not allow into "_". The way back is only known
for names this project reads; other names stay as they came.
"""

from __future__ import annotations

import re

_WORKLOAD_HASH = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{5,10}|(.+)-[0-9]{8,10}")
_CRON_JOB_SUFFIX = re.compile(r"(.+)-[0-9]{8,10}")
_MIG = re.compile(r"nvidia[._]com[/_]mig[-_](.+)")
_NOT_A_LABEL_CHARACTER = re.compile(r"[^a-zA-Z0-9_]")

RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "nvidia_com_gpu": "nvidia.com/gpu",
    "nvidia_com_gpu_shared": "nvidia.com/gpu.shared",
    "alpha_kubernetes_io_nvidia_gpu": "alpha.kubernetes.io/nvidia-gpu",
    "amd_com_gpu": "amd.com/gpu",
    "gpu_intel_com_i915": "gpu.intel.com/i915",
    "gpu_intel_com_xe": "gpu.intel.com/xe",
}

# Label keys whose meaning the facts about nodes depend on (region, size, price, GPU, kind).
KNOWN_LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/role",
    "node.kubernetes.io/lifecycle",
    "node-role.kubernetes.io/spot-worker",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/mig.strategy",
    "gpu.nvidia.com/model",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-preemptible",
    "cloud.google.com/gke-provisioning",
    "cloud.google.com/gke-spot",
    "eks.amazonaws.com/capacityType",
    "eks.amazonaws.com/compute-type",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.sh/capacity-type",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/scalesetpriority",
    "machine.openshift.io/interruptible-instance",
)


def sanitised(key: str) -> str:
    """A label key as exporters write it behind `label_`."""
    return _NOT_A_LABEL_CHARACTER.sub("_", key)


def snake_cased(key: str) -> str:
    """As `sanitised`, by the kube-state-metrics that break camelCase too (`capacity_type`)."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", sanitised(key)).lower()


_REAL_LABELS = {spell(key): key for key in KNOWN_LABELS for spell in (snake_cased, sanitised)}


def node_label(key: str) -> str:
    """The real key behind a sanitised one, where it is known; else the key as it came."""
    return _REAL_LABELS.get(key, key)


def resource_name(name: str) -> str | None:
    """cpu, memory or a GPU resource in Kubernetes' own spelling; None for all the others."""
    if name in RESOURCES:
        return RESOURCES[name]
    if name in RESOURCES.values():
        return name
    mig = _MIG.fullmatch(name)
    # Profiles look like 1g.5gb, 1g.5gb.me, 1c.3g.20gb: every "_" was a dot.
    return f"nvidia.com/mig-{mig.group(1).replace('_', '.')}" if mig else None


def workload(
    kind: str, name: str, pod: str, node: str, owner: tuple[str, str] | None
) -> tuple[str | None, str | None]:
    """What a person would call the workload of a pod that was created by `kind` `name`.

    `owner` is who in turn owns that ReplicaSet or Job: ("", "") = nobody, None = not known; then a
    generated suffix of the name is taken for the sign of a Deployment or CronJob. Nulls = bare pod.
    """
    if kind in {"", "<none>"}:
        return None, None
    if kind == "Node":
        return "StaticPod", pod.removesuffix(f"-{node}" if node else "")
    if kind in {"ReplicaSet", "Job"} and owner is not None:
        return owner if owner[0] not in {"", "<none>"} else (kind, name)
    if kind == "ReplicaSet":
        found = _WORKLOAD_HASH.fullmatch(name)
        if found:
            return "Deployment", found.group(1) or found.group(2)
    if kind == "Job":
        found = _CRON_JOB_SUFFIX.fullmatch(name)
        if found:
            return "CronJob", found.group(1)
    return kind, name
