"""What a Google Cloud machine type is made of, and which catalogue descriptions bill it.

The name decides the quantities, not the node's capacity: a 16 GiB machine reports about 15.6 GiB
and an e2-micro two CPUs. Sizes: cloud.google.com/compute/docs/machine-resource; descriptions: the
Cloud Billing catalogue, service 6F81-5844-456A.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from kubetally.prices.key import LookupKey, NoKey
from kubetally.prices.quote import ComponentKind

CORE_HOUR = "h"
GIB_HOUR = "GiBy.h"
WINDOWS_LICENCE = "Licensing Fee for Windows Server 2022 Datacenter Edition on VM"


@dataclass(frozen=True)
class Need:
    """So much of one SKU. `heads` are its descriptions up to " running in …", newest first."""

    component: ComponentKind
    heads: tuple[str, ...]
    quantity: Decimal
    unit: str
    usage_type: str = "OnDemand"
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
    "g2": Family("G2 Instance", {"standard": "4"}),
    "a2": Family("A2 Instance", {}),
}

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
A100_40 = "Nvidia Tesla A100 GPU"

# Bundled local disks are a SKU of their own; a price without them would be too low.
BUNDLES_LOCAL_SSD = re.compile(r"-lssd$|^(a3|a4|z3|h4d|g4|a2-ultragpu)(-|$)")


def needs(key: LookupKey) -> list[Need] | NoKey:
    """The SKUs that make up `key`'s machine, with their quantities, or why that is not known."""
    machine = key.instance_type
    spot = key.capacity_type == "spot"
    if BUNDLES_LOCAL_SSD.search(machine):
        return NoKey(f"{machine} bundles local SSD, which is not priced yet; give a sheet")
    if machine in WHOLE_MACHINES:
        return [_need("node", WHOLE_MACHINES[machine], Decimal(1), CORE_HOUR, spot)]
    for former, present in FORMER_NAMES.items():
        machine = machine.replace(former, present)
    custom = re.fullmatch(r"(?:(\w+)-)?custom-(micro-|small-|medium-|\d+-)(\d+)(-ext)?", machine)
    parts = _custom(custom) if custom else _predefined(machine)
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
    if key.os == "windows":
        found.append(
            Need("cpu", (WINDOWS_LICENCE,), Decimal(int(vcpus) or 1), CORE_HOUR, is_global=True)
        )
    return found


_Parts = tuple[Family, str, Decimal, Decimal, Decimal]


def _predefined(machine: str) -> _Parts | NoKey:
    family_name, _, rest = machine.partition("-")
    kind, _, size = rest.partition("-")
    family = FAMILIES.get(family_name)
    if family is None:
        return NoKey(f"the machine family of {machine} is not known; give a sheet")
    if family_name == "e2" and rest in SHARED_CORE_VCPU:
        return family, family.name, SHARED_CORE_VCPU[rest], SHARED_CORE_GIB[rest], Decimal(0)
    if family_name == "a2":
        gpus = _a2_gpus(machine)
        if gpus is None:
            return NoKey(f"the machine type {machine} is not known; give a sheet")
        vcpus, gib = (96, 1360) if gpus == 16 else (12 * gpus, 85 * gpus)
        return family, family.name, Decimal(vcpus), Decimal(gib), Decimal(0)
    per_vcpu = family.classes.get(kind)
    if not size.isdigit() or (per_vcpu is None and machine not in MEMORY_GIB):
        return NoKey(f"the machine type {machine} is not known; give a sheet")
    if machine in MEMORY_GIB:
        gib_of_type = Decimal(MEMORY_GIB[machine])
    else:
        gib_of_type = Decimal(per_vcpu or 0) * int(size)
    return family, family.name, Decimal(size), gib_of_type, Decimal(0)


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


def _a2_gpus(machine: str) -> int | None:
    found = re.fullmatch(r"a2-(?:highgpu-([1248])|megagpu-(16))g", machine)
    return int(found.group(1) or found.group(2)) if found else None


def _gpu(key: LookupKey, machine: str, vcpus: int) -> tuple[str, int] | NoKey | None:
    if machine.startswith("g2-"):
        if vcpus not in G2_GPUS:
            return NoKey(f"the number of GPUs of {machine} is not known; give a sheet")
        return L4, G2_GPUS[vcpus]
    if machine.startswith("a2-"):
        return A100_40, _a2_gpus(machine) or 0
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
