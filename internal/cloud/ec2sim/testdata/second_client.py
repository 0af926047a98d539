"""A second client of the stand-in: Debian's botocore.

It makes every call that the stand-in serves, with the answers checked by hand
where it matters and by botocore's own schema everywhere: every element of every
answer must be one that the schema knows, since clients drop others in silence.
"""

import re
import sys
import xml.etree.ElementTree as ET

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

url, key, secret = sys.argv[1:4]
session = botocore.session.Session()
session.set_credentials(key, secret)
config = Config(retries={"max_attempts": 0}, parameter_validation=True)
clients = {
    name: session.create_client(name, region_name="us-east-1", endpoint_url=url, config=config)
    for name in ("ec2", "service-quotas", "pricing", "sts")
}
ec2 = clients["ec2"]

# Elements that EC2 has and the oldest botocore that is tested with has not.
NEWER = {"reservationType", "availabilityZoneId"}
strange = []
served = set()


def check(element, shape, path):
    """Notes the elements below element that shape has no member for."""
    if shape.type_name == "structure":
        members = {}
        for name, member in shape.members.items():
            members[member.serialization.get("name", name)] = member
        for child in element:
            tag = re.sub(r"{.*}", "", child.tag)
            if path.count(".") == 0 and tag == "requestId":
                continue
            if tag not in members:
                if tag not in NEWER:
                    strange.append(path + "." + tag)
            else:
                check(child, members[tag], path + "." + tag)
    elif shape.type_name == "list":
        want = shape.member.serialization.get("name", "member")
        for child in element:
            tag = re.sub(r"{.*}", "", child.tag)
            if tag != want:
                strange.append(f"{path}: {tag} in place of {want}")
            else:
                check(child, shape.member, path + "." + tag)
    elif len(element):
        strange.append(path + " has elements and is " + shape.type_name)
    elif shape.type_name in ("integer", "long") and element.text is not None:
        int(element.text)
    elif shape.type_name in ("float", "double"):
        float(element.text)
    elif shape.type_name == "boolean" and element.text not in ("true", "false"):
        strange.append(f"{path} is {element.text}")


def watch(client):
    # There is no public hook that has the answer before it is read.
    make = client._endpoint.make_request

    def make_request(model, params):
        http, parsed = make(model, params)
        served.add(model.name)
        if http.status_code < 300 and model.output_shape and model.metadata["protocol"] == "ec2":
            check(ET.fromstring(http.content), model.output_shape, model.name)
        return http, parsed

    client._endpoint.make_request = make_request


for client in clients.values():
    watch(client)


def fails(code, status, call, **args):
    try:
        call(**args)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code, e
        assert e.response["ResponseMetadata"]["HTTPStatusCode"] == status, e
        return e.response["Error"]["Message"]
    raise AssertionError(f"no {code}")


A, B = "subnet-0a1b2c3d4e5f6000a", "subnet-0a1b2c3d4e5f6000b"
tags = [{"ResourceType": "instance", "Tags": [{"Key": "midair:cluster", "Value": "c1"}, {"Key": "midair:nodes", "Value": "n-[1-3]"}]}]
template = {"LaunchTemplateName": "midair", "Version": "$Default"}

run = dict(LaunchTemplate=template, InstanceType="p5.48xlarge", SubnetId=A, MinCount=3, MaxCount=3, ClientToken="t1", TagSpecifications=tags)
fails("DryRunOperation", 412, ec2.run_instances, DryRun=True, **run)
r = ec2.run_instances(**run)
ids = [i["InstanceId"] for i in r["Instances"]]
assert len(set(ids)) == 3
assert [i["InstanceId"] for i in ec2.run_instances(**run)["Instances"]] == ids
fails("IdempotentParameterMismatch", 400, ec2.run_instances, **{**run, "MaxCount": 4})
spot = ec2.run_instances(**{**run, "ClientToken": "t2", "InstanceMarketOptions": {"MarketType": "spot"}})["Instances"][0]
assert spot["InstanceLifecycle"] == "spot" and spot["SpotInstanceRequestId"].startswith("sir-")
ec2.run_instances(
    LaunchTemplate=template, InstanceType="p5.48xlarge", SubnetId=A, MinCount=1, MaxCount=1,
    CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-0a1b2c3d4e5f60001"}},
)

fleet = dict(
    Type="instant", ClientToken="f1", TagSpecifications=tags,
    LaunchTemplateConfigs=[{
        "LaunchTemplateSpecification": template,
        "Overrides": [{"InstanceType": t, "SubnetId": s, "Priority": float(n)} for n, (t, s) in enumerate([("p5.48xlarge", A), ("p5en.48xlarge", A), ("g5.xlarge", B)])],
    }],
    TargetCapacitySpecification={"TotalTargetCapacity": 1500, "DefaultTargetCapacityType": "on-demand"},
    OnDemandOptions={"AllocationStrategy": "prioritized"},
)
f = ec2.create_fleet(**fleet)
assert f["FleetId"].startswith("fleet-")
assert {e["ErrorCode"] for e in f["Errors"]} <= {"Unsupported", "VcpuLimitExceeded", "InsufficientInstanceCapacity"}, f["Errors"]
got = f["Instances"][0]
assert got["InstanceType"] == "p5.48xlarge" and got["Lifecycle"] == "on-demand"
assert got["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == 0.0
assert ec2.create_fleet(**fleet)["FleetId"] == f["FleetId"]
part = ec2.create_fleet(**{
    **fleet, "ClientToken": "f2", "TargetCapacitySpecification": {"TotalTargetCapacity": 10, "DefaultTargetCapacityType": "spot"},
    "SpotOptions": {"AllocationStrategy": "price-capacity-optimized", "SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": 10},
})
assert sum(len(i["InstanceIds"]) for i in part["Instances"]) == 10

ec2.create_tags(Resources=[ids[0]], Tags=[{"Key": "midair:node", "Value": "n-1"}, {"Key": "Name", "Value": "n-1"}])
d = ec2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"]
assert {t["Key"]: t["Value"] for t in d[0]["Tags"]}["midair:node"] == "n-1"
assert d[0]["PrivateIpAddress"] and d[0]["Placement"]["AvailabilityZone"] == "us-east-1a"
named = ec2.describe_tags(Filters=[{"Name": "key", "Values": ["midair:node"]}])["Tags"]
assert named == [{"Key": "midair:node", "ResourceId": ids[0], "ResourceType": "instance", "Value": "n-1"}], named
seen = set()
for page in ec2.get_paginator("describe_instances").paginate(
    Filters=[{"Name": "tag:midair:cluster", "Values": ["c1"]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}], PaginationConfig={"PageSize": 1000}
):
    for reservation in page["Reservations"]:
        for i in reservation["Instances"]:
            assert i["InstanceId"] not in seen
            seen.add(i["InstanceId"])
assert len(seen) == 3 + 3 + sum(len(i["InstanceIds"]) for i in f["Instances"]) + 10
fails("InvalidInstanceID.NotFound", 400, ec2.describe_instances, InstanceIds=["i-0123456789abcdef0"])

t = {x["InstanceType"]: x for page in ec2.get_paginator("describe_instance_types").paginate() for x in page["InstanceTypes"]}
p4 = t["p4d.24xlarge"]
assert p4["VCpuInfo"]["DefaultVCpus"] == 96 and p4["MemoryInfo"]["SizeInMiB"] == 1152 * 1024
assert p4["GpuInfo"]["Gpus"][0] == {"Name": "A100", "Manufacturer": "NVIDIA", "Count": 8, "MemoryInfo": {"SizeInMiB": 40960}}
assert p4["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 4
where = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["p5en.48xlarge"]}])
assert [o["Location"] for o in where["InstanceTypeOfferings"]] == ["us-east-1b"]
prices = ec2.describe_spot_price_history(InstanceTypes=["p5.48xlarge"], ProductDescriptions=["Linux/UNIX"], AvailabilityZone="us-east-1a")["SpotPriceHistory"]
assert float(prices[0]["SpotPrice"]) > 10 and prices[0]["Timestamp"] > prices[-1]["Timestamp"]
assert len(ec2.describe_subnets()["Subnets"]) == 3
assert ec2.describe_subnets(SubnetIds=[A])["Subnets"][0]["AvailabilityZone"] == "us-east-1a"
assert [z["ZoneId"] for z in ec2.describe_availability_zones()["AvailabilityZones"]] == ["use1-az1", "use1-az2", "use1-az3"]
assert "us-east-1" in [r["RegionName"] for r in ec2.describe_regions()["Regions"]]
assert len(ec2.describe_launch_templates(LaunchTemplateNames=["midair"])["LaunchTemplates"]) == 1
v = ec2.describe_launch_template_versions(LaunchTemplateName="midair-efa", Versions=["$Default"])["LaunchTemplateVersions"]
assert v[0]["LaunchTemplateData"]["NetworkInterfaces"][0]["InterfaceType"] == "efa", v
assert v[0]["LaunchTemplateData"]["Placement"]["GroupName"] == "midair"
ec2.describe_launch_template_versions(Versions=["$Latest"])
cr = ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0a1b2c3d4e5f60001"])["CapacityReservations"][0]
assert (cr["TotalInstanceCount"], cr["AvailableInstanceCount"], cr["State"]) == (4, 3, "active")
ec2.describe_capacity_reservations()
assert ec2.get_console_output(InstanceId=ids[0])["InstanceId"] == ids[0]
assert ec2.stop_instances(InstanceIds=[ids[1]])["StoppingInstances"][0]["CurrentState"]["Name"] in ("stopping", "stopped")
while ec2.describe_instances(InstanceIds=[ids[1]])["Reservations"][0]["Instances"][0]["State"]["Name"] != "stopped":
    pass
assert ec2.start_instances(InstanceIds=[ids[1]])["StartingInstances"][0]["CurrentState"]["Name"] == "pending"
gone = ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
assert {g["CurrentState"]["Name"] for g in gone} == {"shutting-down"}
d = ec2.describe_instances(InstanceIds=ids[:1])["Reservations"][0]["Instances"][0]
assert d["StateReason"]["Code"] == "Client.UserInitiatedShutdown" and d["StateTransitionReason"].startswith("User initiated")

q = clients["service-quotas"]
assert q.get_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]["Value"] == 1000000.0
assert len([x for p in q.get_paginator("list_service_quotas").paginate(ServiceCode="ec2") for x in p["Quotas"]]) == 18
assert q.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]["Value"] == 0.0
assert q.request_service_quota_increase(ServiceCode="ec2", QuotaCode="L-417A185B", DesiredValue=2000000)["RequestedQuota"]["Status"] == "PENDING"
fails("NoSuchResourceException", 400, q.get_service_quota, ServiceCode="ec2", QuotaCode="L-00000000")
products = clients["pricing"].get_products(ServiceCode="AmazonEC2", Filters=[{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "p5.48xlarge"}])
assert len(products["PriceList"]) == 1 and isinstance(products["PriceList"][0], str)
assert clients["sts"].get_caller_identity()["Account"] == "123456789012"

session.set_credentials("AKIAOTHER", "x")
other = session.create_client("ec2", region_name="us-east-1", endpoint_url=url, config=config)
fails("AuthFailure", 401, other.describe_regions)
session.set_credentials(key, "another")
for name, code, status, ask in (
    ("ec2", "AuthFailure", 401, "describe_regions"),
    ("sts", "SignatureDoesNotMatch", 403, "get_caller_identity"),
    ("pricing", "InvalidSignatureException", 400, "get_products"),
):
    wrong = session.create_client(name, region_name="us-east-1", endpoint_url=url, config=config)
    fails(code, status, getattr(wrong, ask), **({"ServiceCode": "AmazonEC2"} if name == "pricing" else {}))
session.set_credentials(key, secret)
far = session.create_client("ec2", region_name="eu-west-1", endpoint_url=url, config=config)
fails("AuthFailure", 401, far.describe_regions)

want = set(sys.argv[4:])
if strange:
    sys.exit("elements that the schema does not know:\n" + "\n".join(sorted(set(strange))))
if want - served:
    sys.exit("not called: " + ", ".join(sorted(want - served)))
