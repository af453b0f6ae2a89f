"""What a Google Cloud machine type is made of, and which catalogue descriptions bill it.

The name decides the quantities, not the node's capacity: a 16 GiB machine reports about 15.6 GiB
and an e2-micro two CPUs. Sizes: cloud.google.com/compute/docs/machine-resource; descriptions: the
Cloud Billing catalogue, service 6F81-5844-456A.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from kubetally.prices.key import POD_RATED, LookupKey, NoKey
from kubetally.prices.quote import ComponentKind

CORE_HOUR = "h"
GIB_HOUR = "GiBy.h"
GIB_MONTH = "GiBy.mo"
HOURS_PER_MONTH = Decimal(730)  # how Google turns a price per month into one per hour
WINDOWS_LICENCE = "Licensing Fee for Windows Server 2022 Datacenter Edition on VM"


@dataclass(frozen=True)
class Need:
    """So much of one SKU. `heads` are its descriptions up to " running in …", newest first."""

    component: ComponentKind
    heads: tuple[str, ...]
    quantity: Decimal
    unit: str
    usage_type: str = "OnDemand"
    other_usage_types: tuple[str, ...] = ()
    is_global: bool = False


@dataclass(frozen=True)
class Family:
    """A machine family: SKU names before "Core"/"Ram" and GiB of memory per vCPU by class."""

    name: str
    classes: dict[str, str]
    custom: str = ""  # SKU name of custom machines; "" = there are none
    extended: str = ""  # SKU of memory above the limit
    extended_above_gib_per_vcpu: str = ""
    former_ram: str = ""
    upgrade: str = ""  # SKU name of a premium billed on top


STANDARD = {"standard": "4", "highmem": "8", "highcpu": "1"}
STANDARD_2 = {"standard": "4", "highmem": "8", "highcpu": "2"}

FAMILIES: dict[str, Family] = {
    "n1": Family(
        "N1 Predefined Instance",
        {"standard": "3.75", "highmem": "6.5", "highcpu": "0.9"},
        custom="Custom Instance",
        extended="Custom Extended Instance Ram",
        extended_above_gib_per_vcpu="6.5",
        former_ram="N1 Instance",
    ),
    "e2": Family("E2 Instance", STANDARD, custom="E2 Instance"),
    "n2": Family(
        "N2 Instance",
        STANDARD,
        custom="N2 Custom Instance",
        extended="N2 Custom Extended Instance Ram",
        extended_above_gib_per_vcpu="8",
    ),
    "n2d": Family(
        "N2D AMD Instance",
        STANDARD,
        custom="N2D AMD Custom Instance",
        extended="N2D AMD Custom Extended Ram",
        extended_above_gib_per_vcpu="8",
    ),
    "n4": Family("N4 Instance", STANDARD_2, custom="N4 Custom Instance"),
    "n4d": Family("N4D Instance", STANDARD_2, custom="N4D Custom Instance"),
    "n4a": Family("N4A Instance", STANDARD_2),
    "c2": Family("Compute optimized", {"standard": "4"}),
    "c2d": Family("C2D AMD Instance", STANDARD_2),
    "c3": Family("C3 Instance", STANDARD_2),
    "c3d": Family("C3D Instance", STANDARD_2),
    "c4": Family("C4 Instance", {"standard": "3.75", "highmem": "7.75", "highcpu": "2"}),
    "c4a": Family("C4A Arm Instance", STANDARD_2),
    "c4d": Family("C4D Instance", {"standard": "3.875", "highmem": "7.875", "highcpu": "1.875"}),
    "t2d": Family("T2D AMD Instance", {"standard": "4"}),
    "t2a": Family("T2A Arm Instance", {"standard": "4"}),
    "h3": Family("H3 Instance", {"standard": "4"}),
    "m1": Family("Memory-optimized Instance", {}),
    "m2": Family(
        "Memory-optimized Instance",
        {},
        upgrade="Memory Optimized Upgrade Premium for Memory-optimized Instance",
    ),
    "m3": Family("M3 Memory-optimized Instance", {}),
    "m4": Family("M4 Instance", {}),
    "z3": Family("Z3 Instance", {}),
    "g2": Family("G2 Instance", {"standard": "4"}),
    "a2": Family("A2 Instance", {}),
    "a3": Family("A3 Instance", {}),
}
# Machine types with SKUs of their own instead of their family's.
OWN_NAMES = {"m4-ultramem-224": "M4Ultramem224 Instance"}

# Memory that does not follow from the class, in GiB.
MEMORY_GIB: dict[str, str] = {
    "n2-highmem-128": "864",
    "c3d-highcpu-30": "59",
    "c3d-highcpu-60": "118",
    "c3d-highcpu-90": "177",
    "c3d-highcpu-180": "354",
    "c3d-highcpu-360": "708",
    "c4-standard-2": "7",
    "c4-highmem-2": "15",
    "c4d-standard-2": "7",
    "c4d-standard-4": "15",
    "c4d-highmem-2": "15",
    "c4d-highmem-4": "31",
    "c4d-highcpu-2": "3",
    "c4d-highcpu-4": "7",
    "m1-megamem-96": "1433.6",
    "m1-ultramem-40": "961",
    "m1-ultramem-80": "1922",
    "m1-ultramem-160": "3844",
    "m2-ultramem-208": "5888",
    "m2-ultramem-416": "11776",
    "m2-megamem-416": "5888",
    "m2-hypermem-416": "8832",
    "m3-megamem-64": "976",
    "m3-megamem-128": "1952",
    "m3-ultramem-32": "976",
    "m3-ultramem-64": "1952",
    "m3-ultramem-128": "3904",
    "m4-megamem-28": "372",
    "m4-megamem-56": "744",
    "m4-megamem-112": "1488",
    "m4-megamem-224": "2976",
    "m4-ultramem-56": "1488",
    "m4-ultramem-112": "2976",
    "m4-ultramem-224": "5952",
    "z3-highmem-88": "704",
    "z3-highmem-176": "1408",
}

# The first M1 machines were called N1 (n1-megamem-96, n1-ultramem-40).
FORMER_NAMES = {"n1-megamem": "m1-megamem", "n1-ultramem": "m1-ultramem"}

SHARED_CORE_VCPU = {"micro": Decimal("0.25"), "small": Decimal("0.5"), "medium": Decimal(1)}
SHARED_CORE_GIB = {"micro": Decimal(1), "small": Decimal(2), "medium": Decimal(4)}

WHOLE_MACHINES = {
    "f1-micro": "Micro Instance with burstable CPU",
    "g1-small": "Small Instance with 1 VCPU",
}

# GPU SKU by the value of the label cloud.google.com/gke-accelerator.
GPUS: dict[str, str] = {
    "nvidia-tesla-k80": "Nvidia Tesla K80 GPU",
    "nvidia-tesla-p4": "Nvidia Tesla P4 GPU",
    "nvidia-tesla-p100": "Nvidia Tesla P100 GPU",
    "nvidia-tesla-t4": "Nvidia Tesla T4 GPU",
    "nvidia-tesla-v100": "Nvidia Tesla V100 GPU",
}
G2_GPUS = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
L4 = "Nvidia L4 GPU"


@dataclass(frozen=True)
class Accelerated:
    """A machine type named after its GPUs: size per GPU, and the size of whole machines."""

    gpu: str
    vcpus: int
    gib: int
    ssds: int  # bundled local SSDs of 375 GiB, per GPU


ACCELERATED: dict[str, Accelerated] = {
    "a2-highgpu": Accelerated("Nvidia Tesla A100 GPU", 12, 85, 0),
    "a2-ultragpu": Accelerated("Nvidia Tesla A100 80GB GPU", 12, 170, 1),
    "a3-highgpu": Accelerated("Nvidia H100 80GB GPU", 26, 234, 2),
}

# Bundled local disks are a SKU of their own; a price without them is too low
# (google-cloud-pricing-cost-calculator #394). Number of 375 GiB disks by vCPUs.
LOCAL_SSDS: dict[str, dict[int, int]] = {
    "c3": {4: 1, 8: 2, 22: 4, 44: 8, 88: 16, 176: 32},
    "c3d": {8: 1, 16: 1, 30: 2, 60: 4, 90: 8, 180: 16, 360: 32},
    "c4": {4: 1, 8: 1, 16: 2, 24: 4, 32: 5, 48: 8, 96: 16, 144: 24, 192: 32, 288: 48},
    "c4a": {4: 1, 8: 2, 16: 4, 32: 6, 48: 10, 64: 14, 72: 16},
    "c4d": {8: 1, 16: 1, 32: 2, 48: 4, 64: 6, 96: 8, 192: 16, 384: 32},
    "z3": {88: 96, 176: 96},  # 12 disks of 3 TB
}
SSD_GIB = 375
LOCAL_SSD = "SSD backed Local Storage"
# Families whose local SSD has a SKU (and a price) of its own; the common one would be wrong.
OWN_LOCAL_SSD = {"c3d", "c4", "c4a", "c4d", "z3"}
UNKNOWN_BUNDLES = re.compile(r"^(a3-megagpu|a3-ultragpu|a3-edgegpu|a4|h4d|g4)")


def needs(key: LookupKey) -> list[Need] | NoKey:
    """The SKUs that make up `key`'s machine, with their quantities, or why that is not known."""
    machine = key.instance_type
    spot = key.capacity_type == "spot"
    if machine == POD_RATED["gcp"]:
        return _autopilot(spot)
    if UNKNOWN_BUNDLES.search(machine):
        return NoKey(f"what {machine} bundles is not known; give a sheet")
    if machine in WHOLE_MACHINES:
        return [_need("node", WHOLE_MACHINES[machine], Decimal(1), CORE_HOUR, spot)]
    for former, present in FORMER_NAMES.items():
        machine = machine.replace(former, present)
    has_ssd = machine.endswith("-lssd") or machine.startswith("z3-")
    plain = re.sub(r"-(highlssd|standardlssd|lssd)$", "", machine)
    custom = re.fullmatch(r"(?:(\w+)-)?custom-(micro-|small-|medium-|\d+-)(\d+)(-ext)?", machine)
    parts = _custom(custom) if custom else _predefined(plain)
    if isinstance(parts, NoKey):
        return parts
    family, name, vcpus, gib, extended = parts
    found = [
        _need("cpu", f"{name} Core", vcpus, CORE_HOUR, spot),
        _need("memory", f"{name} Ram", gib, GIB_HOUR, spot, former=family.former_ram),
    ]
    if extended:
        found.append(_need("memory", family.extended, extended, GIB_HOUR, spot))
    if family.upgrade:
        found.append(_need("cpu", f"{family.upgrade} Core", vcpus, CORE_HOUR, spot))
        found.append(_need("memory", f"{family.upgrade} Ram", gib, GIB_HOUR, spot))
    gpu = _gpu(key, machine, int(vcpus))
    if isinstance(gpu, NoKey):
        return gpu
    if gpu:
        found.append(_gpu_need(*gpu, spot=spot))
    accelerated = _accelerated(machine)
    if accelerated and accelerated[0].ssds:
        kind, count = accelerated
        found.append(_ssd_need("", kind.ssds * count, spot=spot))
    elif has_ssd:
        family_name = machine.partition("-")[0]
        disks = LOCAL_SSDS.get(family_name, {}).get(int(vcpus))
        if disks is None:
            return NoKey(f"how much local SSD {machine} bundles is not known; give a sheet")
        own = f"{name} Local SSD" if family_name in OWN_LOCAL_SSD else ""
        found.append(_ssd_need(own, disks, spot=spot))
    if key.os == "windows":
        found.append(
            Need("cpu", (WINDOWS_LICENCE,), Decimal(int(vcpus) or 1), CORE_HOUR, is_global=True)
        )
    return found


def _autopilot(spot: bool) -> list[Need]:
    """What a pod of an Autopilot cluster costs per vCPU, GiB and GiB of ephemeral storage.

    The CPU SKU is priced per thousandth of a vCPU, whatever its `displayQuantity` says.
    """
    usage, name = ("Preemptible", "Autopilot Spot Pod") if spot else ("OnDemand", "Autopilot Pod")
    storage = "Autopilot Pod Ephemeral Storage Requests"
    return [
        Need("cpu", (f"{name} mCPU Requests",), Decimal(1000), CORE_HOUR, usage),
        Need("memory", (f"{name} Memory Requests",), Decimal(1), GIB_HOUR, usage),
        Need("disk", (storage,), Decimal(1), GIB_HOUR),
    ]


_Parts = tuple[Family, str, Decimal, Decimal, Decimal]


def _predefined(machine: str) -> _Parts | NoKey:
    family_name, _, rest = machine.partition("-")
    kind, _, size = rest.partition("-")
    family = FAMILIES.get(family_name)
    if family is None:
        return NoKey(f"the machine family of {machine} is not known; give a sheet")
    if family_name == "e2" and rest in SHARED_CORE_VCPU:
        return family, family.name, SHARED_CORE_VCPU[rest], SHARED_CORE_GIB[rest], Decimal(0)
    if machine == "a2-megagpu-16g":
        return family, family.name, Decimal(96), Decimal(1360), Decimal(0)
    accelerated = _accelerated(machine)
    if accelerated:
        each, count = accelerated
        return (
            family,
            family.name,
            Decimal(each.vcpus * count),
            Decimal(each.gib * count),
            Decimal(0),
        )
    per_vcpu = family.classes.get(kind)
    if not size.isdigit() or (per_vcpu is None and machine not in MEMORY_GIB):
        return NoKey(f"the machine type {machine} is not known; give a sheet")
    if machine in MEMORY_GIB:
        gib_of_type = Decimal(MEMORY_GIB[machine])
    else:
        gib_of_type = Decimal(per_vcpu or 0) * int(size)
    name = OWN_NAMES.get(machine, family.name)
    return family, name, Decimal(size), gib_of_type, Decimal(0)


def _custom(name: re.Match[str]) -> _Parts | NoKey:
    family_name, size, mib, ext = (
        name.group(1) or "n1",
        name.group(2)[:-1],
        name.group(3),
        name.group(4),
    )
    family = FAMILIES.get(family_name)
    if family is None or not family.custom:
        return NoKey(f"custom machines of the family {family_name} are not known; give a sheet")
    vcpus = Decimal(size) if size.isdigit() else SHARED_CORE_VCPU[size]
    gib = Decimal(mib) / 1024
    extended = Decimal(0)
    if ext:
        if not family.extended:
            return NoKey(f"extended memory of the family {family_name} is not known; give a sheet")
        limit = vcpus * Decimal(family.extended_above_gib_per_vcpu)
        gib, extended = min(gib, limit), max(gib - limit, Decimal(0))
    return family, family.custom, vcpus, gib, extended


def _accelerated(machine: str) -> tuple[Accelerated, int] | None:
    """The kind and the number of GPUs of a machine type like a2-highgpu-4g."""
    found = re.fullmatch(r"(a[23]-\w+)-([1248])g", machine)
    if not found or found.group(1) not in ACCELERATED:
        return None
    return ACCELERATED[found.group(1)], int(found.group(2))


def _gpu(key: LookupKey, machine: str, vcpus: int) -> tuple[str, int] | NoKey | None:
    if machine.startswith("g2-"):
        if vcpus not in G2_GPUS:
            return NoKey(f"the number of GPUs of {machine} is not known; give a sheet")
        return L4, G2_GPUS[vcpus]
    if machine == "a2-megagpu-16g":
        return ACCELERATED["a2-highgpu"].gpu, 16
    accelerated = _accelerated(machine)
    if accelerated:
        return accelerated[0].gpu, accelerated[1]
    if key.accelerator:
        if key.accelerator not in GPUS:
            return NoKey(f"the GPU {key.accelerator} is not known; give a sheet")
        return GPUS[key.accelerator], key.accelerator_count
    return None


def _need(
    component: ComponentKind,
    head: str,
    quantity: Decimal,
    unit: str,
    spot: bool,
    former: str = "",
) -> Need:
    heads = [head, f"{former} Ram"] if former else [head]
    if spot:  # "Preemptible …" until 2022
        heads = [
            f"{prefix} {name}" for prefix in ("Spot Preemptible", "Preemptible") for name in heads
        ]
    return Need(component, tuple(heads), quantity, unit, "Preemptible" if spot else "OnDemand")


def _gpu_need(gpu: str, count: int, *, spot: bool) -> Need:
    heads: tuple[str, ...] = (gpu,)
    if spot:
        heads = (
            f"{gpu} attached to Spot Preemptible VMs",
            f"{gpu} attached to preemptible VMs",
        )
    usage = "Preemptible" if spot else "OnDemand"
    return Need("gpu", heads, Decimal(count), CORE_HOUR, usage)


def _ssd_need(own: str, disks: int, *, spot: bool) -> Need:
    """Bundled local SSD, priced per GiB and month. `own` is the family's own SKU, if it has one."""
    if own:
        heads: tuple[str, ...] = (f"Spot Preemptible {own}",) if spot else (own,)
    elif spot:
        heads = (
            f"{LOCAL_SSD} attached to Spot Preemptible VMs",
            f"{LOCAL_SSD} attached to Preemptible VMs",
        )
    else:
        heads = (LOCAL_SSD,)
    months = (SSD_GIB * disks / HOURS_PER_MONTH).quantize(Decimal("1e-18"), ROUND_HALF_UP)
    # The catalogue calls the spot SKU of local SSD on demand.
    usage, others = ("Preemptible", ("OnDemand",)) if spot else ("OnDemand", ())
    return Need("disk", heads, months, GIB_MONTH, usage, others)
