-- Whether no sender of a project has entries that wait.
local function holds_nothing(project)
  for _, key_class in ipairs({ 'page', 'secret' }) do
    if redis.call('HEXISTS', KEYS.held, key_class .. ':' .. project) == 1 then return false end
  end
  return true
end
