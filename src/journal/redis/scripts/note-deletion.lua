#!lua flags=allow-oom
-- Notes a deletion of a project. A plain HINCRBY would be refused while Redis is out of memory.
return redis.call('HINCRBY', KEYS.deletions, ARGV.project, 1)
