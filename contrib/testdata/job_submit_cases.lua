-- The cases of job_submit_test.go; arguments: this folder, the script's path.
local here, script = arg[1], arg[2]
local H = dofile(here .. "/slurm.lua")
local print_line, finish = print, os.exit

local function submit(given)
  H.said = {}
  local job = H.job_desc(given)
  return slurm_job_submit(job, {}, 1000), job, table.concat(H.said, "\n")
end

local function modify(given, rec)
  H.said = {}
  local job = H.job_desc(given)
  return slurm_job_modify(job, H.job_rec(rec), {}, 1000), job, table.concat(H.said, "\n")
end

local function equal(want, got, what)
  if want ~= got then
    error((what or "value") .. ": want " .. tostring(want) .. ", got " .. tostring(got), 2)
  end
end

local DENIED = slurm.ESLURM_ACCESS_DENIED

local cases = {
  { "a job without a partition gets its tier's", function()
    local rc, job, said = submit({ qos = "p2" })
    equal(0, rc)
    equal("onprem,a100-spot", job.partition)
    equal("midair: tier=p2", job.admin_comment)
    equal(1, job.requeue, "requeue")
    equal("", said)
  end },
  { "a tier that stays on the premises is not made requeueable", function()
    local rc, job = submit({ qos = "p0" })
    equal(0, rc)
    equal("onprem", job.partition)
    equal("midair: tier=p0", job.admin_comment)
    equal(slurm.NO_VAL16, job.requeue, "requeue")
  end },
  { "a partition that the user chose stays", function()
    local rc, job = submit({ qos = "p2", partition = "a100-spot" })
    equal(0, rc)
    equal("a100-spot", job.partition)
    rc, job = submit({ qos = "p0", partition = "debug,onprem" })
    equal(0, rc)
    equal("debug,onprem", job.partition)
  end },
  { "--no-requeue stays and its user is told what that means", function()
    local rc, job, said = submit({ qos = "p1", requeue = 0 })
    equal(0, rc)
    equal(0, job.requeue, "requeue")
    equal("midair: you asked for --no-requeue: if a cloud node of this job fails, is taken back"
      .. " or cannot be had, the job ends and does not start again.", said)
  end },
  { "an admin comment that is there stays", function()
    local _, job = submit({ qos = "p1", admin_comment = "ticket 17" })
    equal("ticket 17; midair: tier=p1", job.admin_comment)
  end },
  { "p0 in a cloud partition is refused with reason and way out", function()
    local rc, job, said = submit({ qos = "p0", partition = "onprem,a100-spot" })
    equal(DENIED, rc)
    equal("midair: jobs of QOS p0 (tier p0) stay on the premises, and a100-spot is a cloud partition."
      .. " Leave out --partition, or use --partition=onprem, or, if you may, --qos=p2.", said)
    equal("onprem,a100-spot", job.partition)
    equal(nil, job.admin_comment)
  end },
  { "a cloud partition of another tier is refused", function()
    local rc, _, said = submit({ qos = "p2", partition = "a100-od" })
    equal(DENIED, rc)
    equal("midair: jobs of QOS p2 (tier p2) may not use every cloud partition, and a100-od is a cloud partition of"
      .. " other tiers. Leave out --partition, or use --partition=onprem,a100-spot, or, if you may, --qos=p1 or urgent.", said)
  end },
  { "several cloud partitions are all named", function()
    local rc, _, said = submit({ qos = "p0", partition = "a100-spot,a100-od" })
    equal(DENIED, rc)
    equal("midair: jobs of QOS p0 (tier p0) stay on the premises, and a100-spot, a100-od are cloud partitions."
      .. " Leave out --partition, or use --partition=onprem.", said)
  end },
  { "P0 is p0", function()
    equal(DENIED, (submit({ qos = "P0", partition = "a100-od" })))
  end },
  { "without --qos the association's default decides", function()
    local _, job = submit({ default_qos = "p1", assoc_qos = "p0,p1" })
    equal("onprem,a100-od", job.partition)
    equal(DENIED, (submit({ default_qos = "p0", partition = "a100-od" })))
  end },
  { "without a default the only QOS decides, and else normal", function()
    local _, job = submit({ assoc_qos = "p0" })
    equal("onprem", job.partition)
    _, job = submit({ assoc_qos = "p0,p1" })
    equal(nil, job.partition)
    equal(nil, job.admin_comment)
  end },
  { "a QOS in no tier is left alone", function()
    local rc, job, said = submit({ qos = "normal", partition = "a100-spot" })
    equal(0, rc)
    equal("a100-spot", job.partition)
    equal(nil, job.admin_comment)
    equal(slurm.NO_VAL16, job.requeue)
    equal("", said)
    equal(0, (submit({})))
  end },
  { "a QOS list of one tier is that tier", function()
    local rc, job = submit({ qos = "urgent,p1,normal" })
    equal(0, rc)
    equal("onprem,a100-od", job.partition)
  end },
  { "a QOS list of two tiers is refused", function()
    local rc, _, said = submit({ qos = "p1,p0" })
    equal(DENIED, rc)
    equal("midair: QOS list p1,p0 spans the tiers p1 and p0, and a job belongs to one tier."
      .. " Ask for QOSes of one tier only.", said)
  end },
  { "a waiting p0 job cannot be moved to a cloud partition", function()
    local rc, _, said = modify({ partition = "a100-spot" }, { qos = "p0", partition = "onprem" })
    equal(DENIED, rc)
    equal(1, (select(2, said:gsub("stay on the premises", ""))))
  end },
  { "a waiting job in the cloud cannot become p0", function()
    equal(DENIED, (modify({ qos = "p0" }, { qos = "p2", partition = "a100-spot" })))
    equal(0, (modify({ qos = "p0", partition = "onprem" }, { qos = "p2", partition = "a100-spot" })))
  end },
  { "changes of other things always work", function()
    equal(0, (modify({ comment = "x" }, { qos = "p0", partition = "a100-spot" })))
    equal(0, (modify({ requeue = 1 }, {})))
  end },
  { "changes within the tier and of QOSes in no tier work", function()
    equal(0, (modify({ partition = "a100-spot" }, { qos = "p2", partition = "onprem" })))
    equal(0, (modify({ partition = "a100-spot" }, { qos = "normal", partition = "onprem" })))
    equal(0, (modify({ partition = "a100-spot" }, { partition = "onprem" })))
    equal(0, (modify({ partition = "debug" }, { qos = "p0", partition = "onprem" })))
  end },
}

-- slurmctld runs the script as a chunk and wants no number but 0 back.
local chunk = assert(loadfile(script))
equal(nil, tonumber(chunk()), "what the script returns")
equal("function", type(slurm_job_submit))
equal("function", type(slurm_job_modify))

-- A site's script that defines its own functions before or after keeps them.
local function mine() end
slurm_job_submit, slurm_job_modify = mine, nil
local midair = dofile(script)
equal(mine, slurm_job_submit, "the site's slurm_job_submit")
equal(midair.job_modify, slurm_job_modify, "slurm_job_modify")
slurm_job_submit = function(job_desc, part_list, submit_uid)
  return midair.job_submit(job_desc, part_list, submit_uid)
end

H.seal()
local failed = 0
for _, case in ipairs(cases) do
  local ok, message = pcall(case[2])
  if ok then
    print_line("ok\t" .. case[1])
  else
    failed = failed + 1
    print_line("FAIL\t" .. case[1] .. "\t" .. tostring(message))
  end
end
finish(failed == 0 and 0 or 1)
