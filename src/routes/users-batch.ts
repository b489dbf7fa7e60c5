import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { describeNameFault, describeTimestampFault, isName, isTimestamp } from '../contract/limits.js'
import { deepProperties } from '../contract/property-depth.js'
import { Changed, ChangesBody } from '../contract/schemas.js'
import { canLink, isGroupName, isReserved } from '../contract/user-names.js'
import type { Admission } from '../http/admission/admission.js'
import { getSender } from '../http/admission/authenticate.js'
import { readBodyInTurns } from '../http/admission/body.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'
import { MAX_BATCH_WEIGHT } from '../json/complexity.js'
import type { JsonValue } from '../json/value.js'
import { type PeopleParts, PeoplePlan, type PersonMessage, takePeople } from '../users/people.js'
import type { SdkAlias } from '../vendors/message.js'

export interface UsersBatchOptions extends PeopleParts {
  admission: Pick<Admission, 'turn'>
  /** bytes */
  bodyLimit: number
  /** levels of objects and arrays that the properties of a profile may have */
  maxDepth: number
}

type Message = PersonMessage & { index: number }

/** A change that is refused; the message says why. */
class ChangeFault extends Error {
  override readonly name = 'ChangeFault'
}

/** The fields that say what a change does; the first three may be combined. */
const KINDS = ['operations', 'identified', 'clear', 'alias', 'delete']
const NOTHING = 'The change must have operations, identified, clear, alias or delete.'

const CALLS = describeCalls('Users', {
  changeUsers: {
    schema: { body: ChangesBody, response: { 200: Changed } },
    config: { maxWeight: MAX_BATCH_WEIGHT },
    summary: 'Apply 1 to 1000 changes of profiles and aliases, in order',
    description:
      'For imports: a change with a `timestamp` does not overwrite a property that was set or removed later. A change ' +
      'that is refused does not affect the others; `rejected` names it by its index. An alias without `merge` is made only if it is ' +
      'not a user itself, and one that already names another user is left as it is. Profile changes may name groups (`$group:…`).',
    example: {
      changes: [
        { distinct_id: 'ada', alias: 'device-7' },
        {
          distinct_id: 'ada',
          identified: true,
          operations: { $set: { plan: 'pro' } },
          timestamp: EXAMPLE_TIME,
          insert_id: 'c-1',
        },
      ],
    },
    response: { example: { accepted: 2, rejected: [] } },
    errors: ['overloaded'],
  },
})

/**
 * Applies many changes of profiles and aliases in order, as `tallyhouse import` sends them. Each takes effect as of its
 * own time, and a refused change does not affect the others.
 */
export const usersBatch: FastifyPluginAsyncTypebox<UsersBatchOptions> = async (app, options) => {
  const { admission, bodyLimit, maxDepth, ...parts } = options
  app.post('/users/batch', { ...CALLS.changeUsers, bodyLimit }, async (request) => {
    const { body, rawBody } = request
    const takeTurn = () => admission.turn(request)
    const json = request.json ?? (await readBodyInTurns(rawBody, MAX_BATCH_WEIGHT, request, takeTurn))
    const values = json?.member('changes')?.elements() ?? []
    const rejected: { index: number; message: string }[] = []
    const understood: Message[] = []
    for (const [index, change] of (body.changes as unknown[]).entries()) {
      const turn = takeTurn()
      if (turn) await turn
      try {
        const message = readChange(change, values[index]?.member('operations'), index)
        checkDepth((change as Record<string, unknown>).operations, maxDepth)
        understood.push(message)
      } catch (error) {
        if (!(error instanceof ChangeFault)) throw error
        rejected.push({ index, message: error.message })
      }
    }
    const plan = new PeoplePlan(understood)
    for (const message of understood) plan.add(message)
    const { projectId, keyClass } = getSender(request)
    const rights = { keyClass, mayDelete: true, mayMerge: true, byTime: true, reportsConflicts: true }
    const { faults, refused } = await takePeople(parts, projectId, plan.messages, rights)
    for (const { index = 0, reason } of [...plan.faults, ...plan.refused, ...faults, ...refused]) {
      rejected.push({ index, message: reason })
    }
    rejected.sort((a, b) => a.index - b.index)
    return { status: 1, error: null, accepted: values.length - rejected.length, rejected } as const
  })
}

/** @throws ChangeFault */
function readChange(value: unknown, operations: JsonValue | undefined, index: number): Message {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ChangeFault('A change must be an object.')
  const fields = value as Record<string, unknown>
  const distinctId = nameIn(fields, 'distinct_id')
  const given = KINDS.filter((field) => (fields[field] ?? null) !== null)
  if (given.length === 0) throw new ChangeFault(NOTHING)
  if (given.length > 1 && given.some((field) => field === 'alias' || field === 'delete')) {
    throw new ChangeFault(`A change cannot have both ${given.join(' and ')}. Send two changes.`)
  }
  if (given[0] === 'alias') return { ...readAlias(fields, distinctId), index }
  if (given[0] === 'delete') {
    if (flagIn(fields, 'delete') && !isReserved(distinctId)) return { type: 'delete', distinctId, index }
    throw new ChangeFault('delete must be true, and distinct_id the name of a user.')
  }
  const insertId = fields.insert_id ?? null
  if (insertId !== null && !isName(insertId)) throw new ChangeFault(`insert_id ${describeNameFault(insertId)}.`)
  return {
    type: 'change',
    distinctId,
    isGroup: isGroupName(distinctId),
    identifies: flagIn(fields, 'identified'),
    operations: textsIn(operations),
    clears: flagIn(fields, 'clear'),
    insertId: insertId ?? undefined,
    time: timeIn(fields),
    index,
  }
}

/** @throws ChangeFault if the operations would nest properties too deeply */
function checkDepth(operations: unknown, maxDepth: number): void {
  for (const each of Array.isArray(operations) ? operations : [operations]) {
    const [deep] = deepProperties({ operations: each }, { operations: each }, maxDepth)
    if (deep) throw new ChangeFault(`operations ${deep.message}.`)
  }
}

/** The texts of the elements of a list, or of the only one. */
function textsIn(operations: JsonValue | undefined): string[] {
  if (!operations || operations.isNull) return []
  return (operations.isArray ? operations.elements() : [operations]).map(({ text }) => text)
}

function readAlias(fields: Record<string, unknown>, distinctId: string): SdkAlias {
  const alias = nameIn(fields, 'alias')
  if (alias === distinctId) throw new ChangeFault('alias must differ from distinct_id.')
  if (!canLink(distinctId) || !canLink(alias)) {
    throw new ChangeFault('A reserved name or placeholder cannot be linked to a user.')
  }
  const isSaid = flagIn(fields, 'said')
  return { type: 'alias', distinctId, alias, link: flagIn(fields, 'merge') ? 'merge' : isSaid ? 'said' : 'inferred' }
}

function nameIn(fields: Record<string, unknown>, field: string): string {
  const name = fields[field]
  if (!isName(name)) throw new ChangeFault(`${field} ${describeNameFault(name)}.`)
  return name
}

function flagIn(fields: Record<string, unknown>, field: string): boolean {
  const flag = fields[field] ?? false
  if (typeof flag !== 'boolean') throw new ChangeFault(`${field} must be true or false.`)
  return flag
}

/** Epoch ms; undefined for a change that is made now. */
function timeIn({ timestamp }: Record<string, unknown>): number | undefined {
  if ((timestamp ?? null) === null) return undefined
  if (isTimestamp(timestamp)) return timestamp
  throw new ChangeFault(`timestamp ${describeTimestampFault(timestamp)}.`)
}
