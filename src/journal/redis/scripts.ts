import { INSERT_ID_BYTES } from '../../model/insert-id.js'
import {
  IDEMPOTENCY_BUCKET_MS,
  JOURNAL_BYTES,
  KEY_BYTES,
  OLD_BUCKETS,
  POSITION_BYTES,
  VALUE_BYTES,
} from '../idempotency-memory.js'
import { INSERT_ID_BUCKET_MS, INSERT_ID_MEMORY_MS, OLD_ID_BUCKETS } from '../insert-id-memory.js'
import { MAX_LIFT_MS, READING_MEMORY_MS } from '../journal.js'
import { SMALL_PART, WEIGHTS } from '../shares.js'
import { FORMAT } from './keys.js'
import { Script } from './script.js'

/*
 * The scripts of the Redis journal, with the keys and arguments of each, in order. Callers and scripts use the same
 * names: to add an argument, name it here, pass it, and read it in the script. The file of a script says what it does
 * and returns.
 */

/** Bytes of an idempotency key that choose the hash in which it is remembered. */
export const SHARD_BYTES = 2

/** An idempotency key: see shared/requests.lua; both are empty if there is none. */
export const REQUEST = ['shard', 'digest'] as const

/**
 * A write of new entries. `size` is the size of the body in bytes. `field` is "body" if `body` is the body itself, "at"
 * if it is the name of the key that holds it. `ids` are the ids of its events, see shared/insert-ids.lua. At the end come
 * the number of `requests` of its events, and a REQUEST for each.
 */
export const APPEND = [
  'type',
  'kind',
  'sender',
  'count',
  'size',
  'field',
  'body',
  ...REQUEST,
  'ids',
  'requests',
] as const

/** A write that only remembers an idempotency key. */
export const RESERVE = ['type', 'sender', ...REQUEST] as const

/** A write of a state and its row. `readAt` is when the expected version was read, ms. */
export const COMMIT = [
  'type',
  'kind',
  'stateKey',
  'expected',
  'readAt',
  'state',
  'row',
  'sender',
  ...REQUEST,
  'ids',
  // the key of a state that must not have changed; "" for none
  'fence',
  'fenceVersion',
  'fenceReadAt',
] as const

/** The name of a key that holds a body. */
export const BODY = ['name'] as const
/** Events of a project, or bytes that a sender holds. */
export const COUNT = ['name', 'amount'] as const
/** The version of a state that the store has. */
export const STORED_STATE = ['stateKey', 'version'] as const
/** A state that another journal has. */
export const KEPT_STATE = ['stateKey', 'version', 'state'] as const
/** An idempotency key that another journal remembers. */
export const KEPT_REQUEST = ['bucket', 'shard', 'fieldAndValue'] as const

/**
 * The fields of an entry of the stream. Instead of `body`, it has `at` if a key holds the body. The last ones are
 * optional.
 */
const ENTRY = ['kind', 'held', 'count', 'bytes', 'body', 'time', 'skip']

const NAMES = {
  records: { REQUEST, APPEND, RESERVE, COMMIT, BODY, COUNT, STORED_STATE, KEPT_STATE, KEPT_REQUEST, ENTRY },
  constants: {
    FORMAT,
    MAX_LIFT_MS,
    READING_MEMORY_MS,
    SMALL_PART,
    PAGE_WEIGHT: WEIGHTS.page,
    SECRET_WEIGHT: WEIGHTS.secret,
    IDEMPOTENCY_BUCKET_MS,
    OLD_BUCKETS,
    SHARD_BYTES,
    FIELD_BYTES: KEY_BYTES - SHARD_BYTES,
    POSITION_BYTES,
    VALUE_BYTES,
    JOURNAL_BYTES,
    INSERT_ID_BYTES,
    INSERT_ID_BUCKET_MS,
    INSERT_ID_MEMORY_MS,
    OLD_ID_BUCKETS,
    // Maximum bits of an id that choose its hash.
    MAX_ID_BITS: 24,
  },
}

function defineScript<const Key extends string, const Arg extends string>(
  file: string,
  order: { keys: readonly Key[]; args: readonly Arg[] },
): Script<Key, Arg> {
  return new Script(file, order, NAMES)
}

/** Followed by an APPEND, a RESERVE or a COMMIT for each write. */
export const WRITE = defineScript('write', {
  keys: ['stream', 'meta', 'pending', 'producer'],
  args: [
    'prefix',
    // The number of the producer's call.
    'sequence',
    'journalId',
    // "" if the history is unknown.
    'history',
    'layout',
    // Writes are refused if the journal is larger.
    'maxBytes',
    // The greatest position of this journal that the caller knows.
    'floorMs',
    'floorSeq',
    // The greatest position of other journals.
    'foreignMs',
    'foreignSeq',
    // How many requests and ids of a sender are remembered, by the class of its key.
    'maxPageRequests',
    'maxSecretRequests',
    'maxPageIds',
    'maxSecretIds',
  ],
})

export const CLAIM = defineScript('claim', {
  keys: ['stream', 'meta', 'lease', 'wanted', 'asked'],
  args: [
    'writer',
    'leaseMs',
    'journalId',
    'layout',
    // "home", "guest", or "" for the only lane.
    'place',
    // The entries that the writer has read or holds in memory, "<first> <last>", and how many were ever added before
    // them.
    'run',
    'addedBefore',
  ],
})

export const RENEW = defineScript('renew', { keys: ['lease'], args: ['writer', 'leaseMs'] })

export const RELEASE = defineScript('release', { keys: ['lease'], args: ['writer'] })

export const YIELD = defineScript('yield', { keys: ['lease', 'wanted', 'asked'], args: ['writer'] })

/** Blocks are "<first> <last>". */
export const SHRINK = defineScript('shrink', { keys: ['meta'], args: ['frozen', 'shrunk'] })

/**
 * Followed by the BODY of each entry that has one, a COUNT for each project and holder, and a STORED_STATE for each
 * state.
 */
export const ACKNOWLEDGE = defineScript('acknowledge', {
  keys: ['stream', 'meta', 'pending'],
  args: [
    'prefix',
    // "<first> <last>"
    'frozen',
    // The position after the last one of the block.
    'positionAfter',
    'bodyBytes',
    'stateBytes',
    // The time until the states expire.
    'stateMs',
    // Limit of all cached states.
    'cacheBytes',
    // How many of each follow.
    'bodies',
    'projects',
    'holders',
  ],
})

export const PROGRESS = defineScript('progress', {
  keys: ['meta', 'pending', 'deletions', 'held'],
  args: ['project', 'journalId', 'layout'],
})

export const LEVEL = defineScript('level', {
  keys: ['stream', 'meta', 'pending', 'deletions', 'held'],
  args: ['ms', 'seq', 'project', 'journalId', 'layout'],
})

export const DEPTH = defineScript('depth', {
  keys: ['stream', 'meta', 'expiries', 'held'],
  args: ['journalId', 'large'],
})

export const NOTE_DELETION = defineScript('note-deletion', { keys: ['deletions'], args: ['project'] })

export const TALLY = defineScript('tally', { keys: ['meta', 'pending', 'acknowledged', 'repeated'], args: [] })

/** Followed by the keys of the states. */
export const READ_STATES = defineScript('read-states', { keys: ['mark'], args: ['prefix', 'bytes'] })

export const MARK_STATES = defineScript('mark-states', {
  keys: ['stream', 'meta', 'mark'],
  args: ['journalId', 'layout', 'random'],
})

export const FIND_REQUEST = defineScript('find-request', { keys: ['meta'], args: ['prefix', 'shard', 'digest'] })

export const FIND_INSERT_IDS = defineScript('find-insert-ids', { keys: ['meta'], args: ['prefix', 'sender', 'ids'] })

/** Followed by the names of the senders. */
export const COUNT_INSERT_IDS = defineScript('count-insert-ids', { keys: ['meta'], args: ['prefix'] })

export const SWEEP = defineScript('sweep', {
  keys: ['meta'],
  args: [
    'prefix',
    'cursor',
    // How many senders to inspect.
    'senders',
    // Maximum number of hashes to remove.
    'hashes',
    // An upper bound of `remembered` that the caller knows, ms, or 0.
    'latest',
  ],
})

export const FORGET_INSERT_IDS = defineScript('forget-insert-ids', {
  keys: ['meta'],
  args: [
    'prefix',
    'sender',
    // "all", "oldest", or "" to only remove hashes.
    'which',
    // "oldest" needs at least this many ids.
    'least',
    // Maximum number of hashes to remove.
    'hashes',
  ],
})

export const LOOK = defineScript('look', { keys: ['meta'], args: [] })

export const INITIALISE = defineScript('initialise', {
  keys: ['meta', 'stream'],
  args: [
    // The id if a new journal is created.
    'journalId',
    'layout',
    'history',
    // How far the clock of the previous Redis may have been ahead.
    'toleranceMs',
    // The greatest position that the caller knows.
    'floorMs',
    'floorSeq',
  ],
})

export const IS_USED = defineScript('is-used', { keys: ['meta'], args: [] })

export const ADVANCE_PAST = defineScript('advance-past', {
  keys: ['stream', 'meta', 'cache', 'held'],
  args: ['ms', 'seq'],
})

export const LOOK_AT_LAYOUT = defineScript('look-at-layout', { keys: ['meta'], args: [] })

export const SET_LAYOUT = defineScript('set-layout', {
  keys: ['meta', 'mark'],
  args: [
    // "" for the current version.
    'version',
    // The version that the layout is being changed to, or "".
    'closedFor',
  ],
})

export const RAISE = defineScript('raise', { keys: ['stream', 'meta'], args: ['ms', 'seq'] })

export const READ_HASH = defineScript('read-hash', { keys: ['hash'], args: [] })

/** Followed by a KEPT_REQUEST for each. */
export const ADD_REQUESTS = defineScript('add-requests', { keys: ['meta'], args: ['prefix'] })

export const ADD_INSERT_IDS = defineScript('add-insert-ids', {
  keys: ['meta'],
  args: ['prefix', 'sender', 'bucket', 'ids'],
})

/** Followed by a KEPT_STATE for each. */
export const ADD_STATES = defineScript('add-states', { keys: ['meta'], args: ['prefix'] })

/** Followed by the keys of the states. */
export const REMOVE_STATES = defineScript('remove-states', {
  keys: ['mark'],
  args: [
    'prefix',
    // "<ms>-<seq>", or "" for states of any version
    'last',
  ],
})
