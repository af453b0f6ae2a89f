"""Which key a node is looked up under, and why some nodes have none."""

from decimal import Decimal

import pytest
from price_pages import node

from kubetally.prices.key import LookupKey, NoKey, lookup_key

AZURE_NODE = {
    "node.kubernetes.io/instance-type": "Standard_D2s_v3",
    "topology.kubernetes.io/region": "eastus",
    "kubernetes.io/os": "linux",
}
GCP_NODE = {
    "node.kubernetes.io/instance-type": "n1-standard-4",
    "topology.kubernetes.io/region": "us-central1",
    "kubernetes.io/os": "linux",
}
T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}


@pytest.mark.parametrize(
    ("facts", "provider", "text"),
    [
        pytest.param(
            {"provider_id": "azure:///subscriptions/s/x", "labels": AZURE_NODE},
            "",
            "azure/eastus/standard_d2s_v3/linux/on_demand",
            id="providerID says azure",
        ),
        pytest.param(
            {"provider_id": "gce://p/us-central1-a/n", "labels": GCP_NODE},
            "azure",
            "gcp/us-central1/n1-standard-4/linux/on_demand",
            id="providerID before configuration",
        ),
        pytest.param(
            {"labels": {**AZURE_NODE, "kubernetes.azure.com/scalesetpriority": "spot"}},
            "",
            "azure/eastus/standard_d2s_v3/linux/spot",
            id="label hint and spot label",
        ),
        pytest.param(
            {"labels": AZURE_NODE}, "", "azure/eastus/standard_d2s_v3/linux/on_demand", id="name"
        ),
        pytest.param(
            {"labels": {**GCP_NODE, "node.kubernetes.io/instance-type": "m5.large"}},
            "",
            "aws/us-central1/m5.large/linux/on_demand",
            id="shape of an AWS name",
        ),
        pytest.param(
            {"instance_type": "D2s_v3", "region": "West Europe", "os": "Windows"},
            "azure",
            "azure/westeurope/standard_d2s_v3/windows/on_demand",
            id="infracost #1298: D2s_v3 without Standard_; spaces and case",
        ),
        pytest.param(
            {"provider_id": "gce://p/us-central1-a/n", "instance_type": "e2-small", "os": "linux"},
            "",
            "gcp/us-central1/e2-small/linux/on_demand",
            id="region from the zone in the providerID",
        ),
        pytest.param(
            {"provider_id": "aws:///eu-west-1a/i-0", "instance_type": "m5.large", "os": "linux"},
            "",
            "aws/eu-west-1/m5.large/linux/on_demand",
            id="AWS region from the zone",
        ),
        pytest.param(
            {"labels": {**GCP_NODE, **T4, "cloud.google.com/gke-accelerator-count": "2"}},
            "gcp",
            "gcp/us-central1/n1-standard-4+2xnvidia-tesla-t4/linux/on_demand",
            id="attached GPUs are part of the key",
        ),
        pytest.param(
            {
                "labels": {
                    **GCP_NODE,
                    **T4,
                    "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
                },
                "gpu_capacity": Decimal(8),
            },
            "gcp",
            "gcp/us-central1/n1-standard-4+2xnvidia-tesla-t4/linux/on_demand",
            id="time-shared GPUs are counted once",
        ),
    ],
)
def test_a_node_has_one_stable_key(facts, provider, text):
    found = lookup_key(node(**facts), provider=provider)
    assert isinstance(found, LookupKey)
    assert found.text == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kubernetes.azure.com/scalesetpriority", "spot"),
        ("karpenter.sh/capacity-type", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),  # opencost #2066: upper case
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/gke-preemptible", "true"),
        ("cloud.google.com/gke-provisioning", "preemptible"),
        ("cloud.google.com/gke-provisioning", "spot"),
    ],
)
def test_every_spot_marker_is_recognised(name, value):
    assert node(labels={name: value}).market == "spot"
    assert node(labels={name: "no"}).market == "on_demand"


@pytest.mark.parametrize(
    ("facts", "provider", "reason"),
    [
        ({"labels": {}}, "", "which provider"),
        ({"labels": {}}, "azure", "no instance type"),
        ({"instance_type": "Standard_D2s_v3", "os": "linux"}, "azure", "no region"),
        ({"instance_type": "Standard_D2s_v3", "region": "eastus"}, "azure", "operating system"),
        ({"labels": AZURE_NODE}, "custom", "sheet or an hourly_rate"),
        ({"provider_id": "k3s://n", "labels": GCP_NODE}, "", "k3s://"),
        ({"labels": {**GCP_NODE, **T4}}, "gcp", "how many GPUs"),
        ({"labels": GCP_NODE, "gpu_capacity": Decimal(1)}, "gcp", "says which"),
    ],
)
def test_a_node_without_a_key_says_why(facts, provider, reason):
    found = lookup_key(node(**facts), provider=provider)
    assert isinstance(found, NoKey)
    assert reason in found.reason


def test_the_cluster_s_region_counts_where_nodes_say_none():
    found = lookup_key(
        node(instance_type="Standard_D2s_v3", os="linux"), provider="azure", region="eastus"
    )
    assert isinstance(found, LookupKey)
    assert found.region == "eastus"


def test_keys_that_differ_in_case_only_are_one_key_but_keep_the_spelling():
    one = lookup_key(node(labels=AZURE_NODE))
    two = lookup_key(
        node(labels={**AZURE_NODE, "node.kubernetes.io/instance-type": "standard_D2S_v3"})
    )
    assert one == two
    assert isinstance(two, LookupKey)
    assert two.spelling == "standard_D2S_v3"


@pytest.mark.parametrize(
    ("facts", "provider", "expected"),
    [
        (
            {"provider_id": "aws:///us-east-1a/x/fargate-ip-10", "region": "us-east-1"},
            "",
            "aws/us-east-1/pod-fargate/linux/on_demand",
        ),
        ({"region": "asia-southeast2"}, "gcp", "gcp/asia-southeast2/pod-autopilot/linux/on_demand"),
        ({"region": "eastus", "os": "windows"}, "azure", "azure/eastus/pod-aci/windows/on_demand"),
    ],
)
def test_the_pods_of_a_virtual_node_have_a_key_of_their_own(facts, provider, expected):
    found = lookup_key(node(is_virtual=True, **facts), provider=provider)
    assert isinstance(found, LookupKey)
    assert found.text == expected


def test_the_gpu_model_is_read_from_the_labels_of_the_usual_operators():
    for name in ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"):
        assert node(labels={name: "T4"}).stated_gpu_model == "T4"
    assert node(labels={"nvidia.com/gpu.product": "T4"}, gpu_model="L4").stated_gpu_model == "L4"
