-- Whether somebody has been identified by the name: only a call that knows may make it another name of somebody else. And
-- whether all that there is of a profile came from other names of its user: it goes with them.
ALTER TABLE profiles ADD COLUMN IF NOT EXISTS is_identified UInt8 DEFAULT 0 AFTER updated_at;
ALTER TABLE profiles ADD COLUMN IF NOT EXISTS is_derived UInt8 DEFAULT 0 AFTER is_identified;

-- `distinct_id` is whom a name leads to, as far as it was followed; empty for a user, who has other names. `said` is whose name
-- it was said to be, by which an alias can be taken back. The profile of `given_to` got the properties `given` of its own.
ALTER TABLE aliases ADD COLUMN IF NOT EXISTS said String DEFAULT distinct_id AFTER distinct_id;
ALTER TABLE aliases ADD COLUMN IF NOT EXISTS given_to String DEFAULT '' AFTER created_at;
ALTER TABLE aliases ADD COLUMN IF NOT EXISTS given Array(String) DEFAULT [] AFTER given_to;
ALTER TABLE aliases ADD COLUMN IF NOT EXISTS is_pending UInt8 DEFAULT 0 AFTER given;
-- Epoch ms. Other names may lead to a user that has become an alias, until they were made to lead to the user of both. Zero for
-- every other alias: nothing leads to it.
ALTER TABLE aliases ADD COLUMN IF NOT EXISTS step_at Int64 DEFAULT 0 AFTER is_pending;
