-- Imitates what slurmctld 22.05.8 gives to job_submit.lua (slurm_lua.c and
-- job_submit_lua.c): the constants it has, fields that are nil or a NO_VAL until
-- set, "" as the way to clear a text, and messages that go through
-- string.format. Used by job_submit_test.go.

local unpack = table.unpack or unpack

slurm = {
  SUCCESS = 0,
  ERROR = -1,
  FAILURE = -1,
  ESLURM_ACCESS_DENIED = 2002,
  NO_VAL16 = 65534,
  NO_VAL = 4294967294,
}

local H = { said = {} }

function slurm.log_user(...)
  H.said[#H.said + 1] = string.format(unpack({ ... }))
end

local texts = { partition = true, qos = true, admin_comment = true, features = true, comment = true }
local computed = { default_qos = true, assoc_qos = true }
local numbers = { requeue = slurm.NO_VAL16, user_id = 1000 }

-- A job description as sbatch or scontrol would have sent it.
function H.job_desc(given)
  local values = {}
  for k, v in pairs(given or {}) do
    assert(texts[k] or computed[k] or numbers[k], "no such field: " .. k)
    values[k] = v
  end
  return setmetatable({}, {
    __index = function(_, k)
      if values[k] ~= nil then
        return values[k]
      end
      return numbers[k]
    end,
    __newindex = function(_, k, v)
      if texts[k] then
        assert(type(v) == "string", k .. " wants a string")
        values[k] = v ~= "" and v or nil
      elseif numbers[k] then
        assert(type(v) == "number", k .. " wants a number")
        values[k] = v
      else
        error("slurmctld does not let a script set " .. k)
      end
    end,
  })
end

-- A job record is read only.
function H.job_rec(values)
  return setmetatable({}, {
    __index = values,
    __newindex = function()
      error("a job record cannot be written")
    end,
  })
end

-- From now on, whatever would block slurmctld or read a file is an error.
function H.seal()
  local function no(name)
    return function()
      error(name .. " was called while slurmctld holds its locks")
    end
  end
  for _, f in ipairs({ "open", "popen", "lines", "input", "output", "read", "write", "tmpfile" }) do
    io[f] = no("io." .. f)
  end
  for _, f in ipairs({ "execute", "remove", "rename", "tmpname", "exit", "getenv" }) do
    os[f] = no("os." .. f)
  end
  dofile, loadfile, require = no("dofile"), no("loadfile"), no("require")
end

return H
