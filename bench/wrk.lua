-- Sends the requests of a file in order, again and again, over all connections of one thread. Arguments: the file (for
-- each request a line with its length in bytes, then its bytes), and how many to skip at first. Prints one line of JSON
-- at the end; times are in microseconds.

local requests, nextRequest = {}, 0

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  nextRequest = tonumber(args[2])
  while true do
    local length = file:read('*l')
    if not length then break end
    requests[#requests + 1] = file:read(tonumber(length))
  end
  file:close()
end

function request()
  local bytes = requests[nextRequest % #requests + 1]
  nextRequest = nextRequest + 1
  return bytes
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"us":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d,"p50":%f,"p99":%f}\n',
    summary.requests, summary.duration, errors.connect, errors.read, errors.write, errors.timeout, errors.status,
    latency:percentile(50), latency:percentile(99)
  ))
end
