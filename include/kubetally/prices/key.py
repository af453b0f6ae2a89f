"""What a node is, and under which key its list price is looked up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

SCHEMES = {"azure": "azure", "gce": "gcp", "aws": "aws"}
LABEL_HINTS = {
    "azure": ("kubernetes.azure.com/",),
    "gcp": ("cloud.google.com/gke-",),
    "aws": ("eks.amazonaws.com/", "alpha.eksctl.io/"),
}
LIST_PRICED = ("azure", "gcp", "aws")

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
OS_LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")
ACCELERATOR = "cloud.google.com/gke-accelerator"
ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
GPU_LABELS = (
    ACCELERATOR,
    "nvidia.com/gpu.product",
    "nvidia.com/gpu_type",
    "gpu.nvidia.com/class",
)
SHARED_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"

# The lookup key of pods that are priced without a node has one of these for an instance type.
POD_RATES = "pod-"
POD_RATED = {"aws": "pod-fargate", "gcp": "pod-autopilot", "azure": "pod-aci"}

# Label values that mean "may be taken away, priced as spot". Compared case-insensitively:
# EKS writes SPOT (opencost #2066).
SPOT_MARKERS: Mapping[str, frozenset[str]] = {
    "kubernetes.azure.com/scalesetpriority": frozenset({"spot"}),
    "karpenter.sh/capacity-type": frozenset({"spot"}),
    "eks.amazonaws.com/capacitytype": frozenset({"spot"}),
    "cloud.google.com/gke-spot": frozenset({"true"}),
    "cloud.google.com/gke-preemptible": frozenset({"true"}),
    "cloud.google.com/gke-provisioning": frozenset({"spot", "preemptible"}),
}


@dataclass(frozen=True)
class NodeFacts:
    """What the sources say about a node, as far as its price depends on it. Empty = not said."""

    cluster: str
    uid: str
    node: str
    provider_id: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    os: str = ""
    capacity_type: str = ""  # on_demand, spot
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu_capacity_cores: Decimal | None = None
    memory_capacity_bytes: Decimal | None = None
    gpu_capacity: Decimal | None = None
    gpu_model: str = ""
    is_virtual: bool = False

    def label(self, names: tuple[str, ...]) -> str:
        """The first of the labels `names` that is set, else ""."""
        return next((self.labels[name] for name in names if self.labels.get(name)), "").strip()

    @property
    def stated_instance_type(self) -> str:
        return self.instance_type.strip() or self.label(INSTANCE_TYPE_LABELS)

    @property
    def stated_os(self) -> str:
        return (self.os.strip() or self.label(OS_LABELS)).lower()

    @property
    def stated_region(self) -> str:
        return self.region.strip() or self.label(REGION_LABELS)

    @property
    def stated_gpu_model(self) -> str:
        return self.gpu_model.strip() or self.label(GPU_LABELS)

    @property
    def market(self) -> str:
        """`spot` if anything marks the node so, else `on_demand`."""
        if self.capacity_type.strip().lower() in ("spot", "preemptible"):
            return "spot"
        for name, value in self.labels.items():
            if value.strip().lower() in SPOT_MARKERS.get(name.lower(), ()):
                return "spot"
        return "on_demand"


@dataclass(frozen=True)
class LookupKey:
    """What decides a node's list price. Equal keys have one price; everything is lower case.

    `accelerator` is set only where GPUs hang on the machine without being part of its type.
    `spelling` is the instance type as the node writes it, for APIs that mind the case.
    """

    provider: str
    region: str
    instance_type: str
    os: str
    capacity_type: str
    accelerator: str = ""
    accelerator_count: int = 0
    spelling: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The key as it is stored, e.g. `azure/eastus/standard_d2s_v3/linux/on_demand`."""
        machine = self.instance_type
        if self.accelerator:
            machine = f"{machine}+{self.accelerator_count}x{self.accelerator}"
        return "/".join((self.provider, self.region, machine, self.os, self.capacity_type))


@dataclass(frozen=True)
class NoKey:
    """Why a node cannot be looked up in a price list."""

    reason: str


def lookup_key(facts: NodeFacts, *, provider: str = "", region: str = "") -> LookupKey | NoKey:
    """The key for `facts`, or why there is none.

    `provider` and `region` are the cluster's configured ones: the provider counts where the node
    carries no known providerID, the region where the node says none; `custom` means no list price.
    """
    if provider == "custom":
        return NoKey("the cluster has no public list price; give a sheet or an hourly_rate")
    found = provider_of(facts, provider)
    if isinstance(found, NoKey):
        return found
    # A virtual node has no price of its own: its pods are priced by what they ask for.
    machine = POD_RATED[found] if facts.is_virtual else facts.stated_instance_type
    if not machine:
        return NoKey("the node says no instance type (label node.kubernetes.io/instance-type)")
    place = facts.stated_region or _region_of_zone(facts, found) or region
    if not place:
        return NoKey("the node says no region (label topology.kubernetes.io/region)")
    os = facts.stated_os or ("linux" if facts.is_virtual else "")
    if os not in ("linux", "windows"):
        said = f"{os!r}" if os else "none"
        return NoKey(f"the node's operating system (label kubernetes.io/os) is {said}")
    if found == "azure" and "_" in machine and not machine.lower().startswith("standard_"):
        machine = f"Standard_{machine}"  # infracost #1298: "D2s_v3" has no product
    accelerator, count = "", 0
    if found == "gcp" and not facts.is_virtual:
        attached = _attached_gpus(facts, machine.lower())
        if isinstance(attached, NoKey):
            return attached
        accelerator, count = attached
    return LookupKey(
        provider=found,
        region=place.replace(" ", "").lower(),
        instance_type=machine.lower(),
        os=os,
        capacity_type=facts.market,
        accelerator=accelerator,
        accelerator_count=count,
        spelling=machine,
    )


def provider_of(facts: NodeFacts, configured: str = "") -> str | NoKey:
    """`azure`, `gcp` or `aws`: by providerID, else as configured, else by label, else by the shape
    of the instance type's name."""
    scheme = facts.provider_id.partition("://")[0].lower() if "://" in facts.provider_id else ""
    if scheme in SCHEMES:
        return SCHEMES[scheme]
    if configured in LIST_PRICED:
        return configured
    if scheme:
        return NoKey(f"no list price is read for providerID {scheme}://; give a sheet")
    for provider, prefixes in LABEL_HINTS.items():
        if any(name.startswith(prefixes) for name in facts.labels):
            return provider
    machine = facts.stated_instance_type.lower()
    if machine.startswith("standard_"):
        return "azure"
    if re.fullmatch(
        r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|metal[\w-]*|\d*xlarge)", machine
    ):
        return "aws"
    return NoKey("nothing says which provider the node runs at (providerID, cluster's provider)")


def _region_of_zone(facts: NodeFacts, provider: str) -> str:
    zone = facts.zone.strip() or facts.label(ZONE_LABELS)
    parts = facts.provider_id.partition("://")[2].split("/")
    if provider == "gcp":  # gce://project/us-central1-a/name
        zone = zone or (parts[1] if len(parts) == 3 else "")
        return zone.rpartition("-")[0]
    if provider == "aws":  # aws:///eu-west-1a/i-0123
        zone = zone or (parts[1] if len(parts) == 3 else "")
        return re.sub(r"(?<=\d)[a-z]$", "", zone)
    return zone.rpartition("-")[0]  # eastus-1


def _attached_gpus(facts: NodeFacts, machine: str) -> tuple[str, int] | NoKey:
    """GPUs added to an N1 machine; in every other family the type itself says which and how many."""
    if not machine.startswith(("n1-", "custom-")):
        return "", 0
    model = facts.labels.get(ACCELERATOR, "").strip().lower()
    if not model:
        if facts.gpu_capacity:
            return NoKey(f"the node has GPUs, but no label {ACCELERATOR} says which")
        return "", 0
    text = facts.labels.get(ACCELERATOR_COUNT, "").strip()
    if text.isdigit() and int(text) > 0:
        return model, int(text)
    shared = facts.labels.get(SHARED_CLIENTS, "").strip()
    count = (facts.gpu_capacity or Decimal(0)) / (Decimal(shared) if shared.isdigit() else 1)
    if count <= 0 or count != count.to_integral_value():
        return NoKey(f"nothing says how many GPUs are attached (label {ACCELERATOR_COUNT})")
    return model, int(count)
