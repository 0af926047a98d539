-- midair: job_submit.lua for slurmctld (Lua 5.1 to 5.4, Slurm 22.05 and later).
--
-- What it does, by the job's QOS and the static table midair_tiers.lua, which
-- `midair slurmconf --tiers` writes:
--   * a job that asked for no partition gets its tier's partitions;
--   * a job whose tier may burst is made requeueable, unless its user said
--     --no-requeue, and says so;
--   * the admin comment names the tier: "midair: tier=p1";
--   * a job that asks for a cloud partition that its tier does not have is
--     refused, when it is submitted and when it is changed;
--   * a job whose QOS is in no tier is left alone.
--
-- slurmctld runs this under its locks, so nothing here reads a file, starts a
-- program or uses the network after the script is loaded.
--
-- Use it as it is: copy it to job_submit.lua beside slurm.conf, with
-- midair_tiers.lua beside it. Or call it from a job_submit.lua of your own:
--
--   local midair = dofile("/etc/slurm/midair_job_submit.lua")
--   function slurm_job_submit(job_desc, part_list, submit_uid)
--     local rc = midair.job_submit(job_desc, part_list, submit_uid)
--     if rc ~= slurm.SUCCESS then return rc end
--     -- yours
--     return slurm.SUCCESS
--   end
--   function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
--     return midair.job_modify(job_desc, job_rec, part_list, modify_uid)
--   end
--
-- slurmctld loads job_submit.lua again when its time stamp changes and keeps the
-- last good copy if loading fails; so `touch job_submit.lua` after every change
-- of midair_tiers.lua.

-- Where the tier table is; nil: midair_tiers.lua in the folder of this script.
local TIERS_FILE = nil

local function beside_this_script(name)
  local source = debug.getinfo(1, "S").source
  return (source:match("^@(.*/)") or "/etc/slurm/") .. name
end

-- Without its table the script must not load: jobs that may not leave the
-- premises would be let through.
local function read_tiers(file)
  local tiers = dofile(file)
  if type(tiers) ~= "table" or type(tiers.qos) ~= "table" or type(tiers.cloud) ~= "table" then
    error(file .. " is no tier table; write it anew with `midair slurmconf --tiers`", 0)
  end
  if tiers.version ~= 1 then
    error(file .. " is of version " .. tostring(tiers.version) .. " and this script reads version 1;"
      .. " install job_submit.lua and midair_tiers.lua of the same midair", 0)
  end
  return tiers
end

local tiers = read_tiers(TIERS_FILE or beside_this_script("midair_tiers.lua"))

local M = {}

-- The items of a list such as "a,b", without blanks.
local function items(list)
  local found = {}
  for item in (list or ""):gmatch("[^,%s]+") do
    found[#found + 1] = item
  end
  return found
end

-- The QOS that slurmctld will take for a new job: what the user asked for, else
-- the association's default, else its only one, else "normal"
-- (assoc_mgr_get_default_qos_info). From 24.05 on it can be a list.
local function qos_of(job_desc)
  if job_desc.qos and job_desc.qos ~= "" then
    return job_desc.qos
  end
  if job_desc.default_qos then
    return job_desc.default_qos
  end
  local allowed = items(job_desc.assoc_qos)
  if #allowed == 1 then
    return allowed[1]
  end
  return "normal"
end

-- The tiers of a QOS or list of QOSes: each entry of the table once, and the
-- names that led to them. Slurm takes P1 for p1.
local function tiers_of(qos)
  local entries, names, seen = {}, {}, {}
  for _, name in ipairs(items(qos)) do
    local entry = tiers.qos[name:lower()]
    if entry then
      names[#names + 1] = name
      if not seen[entry.tier] then
        seen[entry.tier] = true
        entries[#entries + 1] = entry
      end
    end
  end
  return entries, table.concat(names, ",")
end

-- The QOSes whose tier has all these partitions, for the message.
local function qos_with(partitions)
  local names = {}
  for name, entry in pairs(tiers.qos) do
    local all = true
    for _, p in ipairs(partitions) do
      all = all and entry.cloud[p]
    end
    if all then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return table.concat(names, " or ")
end

-- slurm.log_user reaches the user at submission in every version, and on a
-- change of a job from 23.02 on; 22.05 writes the latter to slurmctld's log.
local function refuse(message)
  slurm.log_user("%s", "midair: " .. message)
  return slurm.ESLURM_ACCESS_DENIED
end

local function two_tiers(qos, entries)
  return refuse("QOS list " .. qos .. " spans the tiers " .. entries[1].tier .. " and " .. entries[2].tier
    .. ", and a job belongs to one tier. Ask for QOSes of one tier only.")
end

-- Refuses cloud partitions that the tier does not have.
local function check(qos, entry, partitions)
  local wrong = {}
  for _, p in ipairs(items(partitions)) do
    if tiers.cloud[p] and not entry.cloud[p] then
      wrong[#wrong + 1] = p
    end
  end
  if #wrong == 0 then
    return slurm.SUCCESS
  end
  local why
  if next(entry.cloud) == nil then
    why = "jobs of QOS " .. qos .. " (tier " .. entry.tier .. ") stay on the premises, and "
  else
    why = "jobs of QOS " .. qos .. " (tier " .. entry.tier .. ") may not use every cloud partition, and "
  end
  local what = table.concat(wrong, ", ") .. (#wrong == 1 and " is a cloud partition" or " are cloud partitions")
    .. (next(entry.cloud) == nil and "" or " of other tiers")
  local instead = "Leave out --partition, or use --partition=" .. entry.partitions
  local other = qos_with(wrong)
  if other ~= "" then
    instead = instead .. ", or, if you may, --qos=" .. other
  end
  return refuse(why .. what .. ". " .. instead .. ".")
end

-- Call it from slurm_job_submit; gives what that has to return.
function M.job_submit(job_desc, _, _)
  local entries, qos = tiers_of(qos_of(job_desc))
  local entry = entries[1]
  if not entry then
    return slurm.SUCCESS
  end
  if entries[2] then
    return two_tiers(qos, entries)
  end
  if job_desc.partition == nil or job_desc.partition == "" then
    job_desc.partition = entry.partitions
  else
    local rc = check(qos, entry, job_desc.partition)
    if rc ~= slurm.SUCCESS then
      return rc
    end
  end
  if next(entry.cloud) ~= nil then
    -- NO_VAL16: the user said nothing. 0: --no-requeue.
    if job_desc.requeue == slurm.NO_VAL16 then
      job_desc.requeue = 1
    elseif job_desc.requeue == 0 then
      slurm.log_user("%s", "midair: you asked for --no-requeue: if a cloud node of this job fails, is taken back"
        .. " or cannot be had, the job ends and does not start again.")
    end
  end
  local comment = "midair: tier=" .. entry.tier
  if job_desc.admin_comment and job_desc.admin_comment ~= "" then
    comment = job_desc.admin_comment .. "; " .. comment
  end
  job_desc.admin_comment = comment
  return slurm.SUCCESS
end

-- Call it from slurm_job_modify; gives what that has to return. Looks only at
-- changes of partition or QOS, so holding, releasing and the like always work.
function M.job_modify(job_desc, job_rec, _, _)
  if job_desc.partition == nil and job_desc.qos == nil then
    return slurm.SUCCESS
  end
  local entries, qos = tiers_of(job_desc.qos or job_rec.qos)
  if entries[2] then
    return two_tiers(qos, entries)
  end
  if not entries[1] then
    return slurm.SUCCESS
  end
  return check(qos, entries[1], job_desc.partition or job_rec.partition)
end

-- When slurmctld loads this file itself, these are its entry points. A site's
-- own script defines its own, before or after calling this file.
if slurm_job_submit == nil then
  slurm_job_submit = M.job_submit
end
if slurm_job_modify == nil then
  slurm_job_modify = M.job_modify
end

return M
