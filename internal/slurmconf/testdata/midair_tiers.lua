-- midair: the tiers. Made from /etc/midair/midair.yaml by "midair slurmconf --tiers".
-- Keep it beside job_submit.lua. slurmctld reads both again when job_submit.lua
-- has a new time stamp, so after a change here: touch job_submit.lua.
return {
  version = 1,
  cluster = "gpu1",
  cloud = {
    ["a100-spot"] = true,
    ["a100-od"] = true,
    ["cpu"] = true,
  },
  qos = {
    ["p0"] = { tier = "p0", partitions = "onprem", cloud = {} },
    ["p1"] = { tier = "p1", partitions = "onprem,a100-od", cloud = { ["a100-od"] = true } },
    ["urgent"] = { tier = "p1", partitions = "onprem,a100-od", cloud = { ["a100-od"] = true } },
    ["p2"] = { tier = "p2", partitions = "onprem,a100-spot,a100-od", cloud = { ["a100-spot"] = true, ["a100-od"] = true } },
  },
}
