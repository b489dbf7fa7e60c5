import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ApiError } from '../contract/errors.js'
import { EventsQuery, PropertiesQuery, ValuesQuery } from '../contract/query-schemas.js'
import { AnyQuestionOutline } from '../contract/question-schemas.js'
import { Name } from '../contract/schemas.js'
import { QUERY_DESCRIPTION } from './instructions.js'
import type { EventsWanted, ProjectData, ValuesWanted } from './project-data.js'

export interface Tool {
  name: string
  title: string
  description: string
  schema: TObject
  /** how to narrow down a result that is too long */
  narrower: string
  /** @param given arguments that match the schema, with defaults */
  read(data: ProjectData, given: Record<string, unknown>, signal: AbortSignal): Promise<string>
}

const MAX_EVENTS = 200

/** Unknown arguments are refused: a mistyped filter must not return everything. */
const args = <T extends TProperties>(properties: T) => Type.Object(properties, { additionalProperties: false })

/** For the model only. `readQuestion` checks the question, because its errors say more. */
const Question = Type.Any({
  anyOf: AnyQuestionOutline.anyOf,
  description: 'The question, a JSON object.',
  message: 'must be a JSON object, such as {"kind":"series","series":[{"event":"*"}]}',
})

/** The tools of an assistant. All of them only read. */
export const TOOLS: readonly Tool[] = [
  {
    name: 'list_events',
    title: 'List events',
    description:
      'The names of all events with their counts, and when the first and the last one happened (first_seen, last_seen: ' +
      'milliseconds since 1970); the most frequent first. Call it before you write a question.',
    schema: args({}),
    narrower: 'The most frequent names come first.',
    read: (data, _, signal) => data.eventNames(signal),
  },
  {
    name: 'list_properties',
    title: 'List properties',
    description:
      'The properties of the newest events (of one name, or of all): the share of events that have each, the types of its ' +
      'values and examples. A property that is an object has "properties" of its own: properties.<name>.<name within it>. ' +
      '"sampled" says how many events were read.',
    schema: args({ event: describe(PropertiesQuery.properties.event, 'Only properties of events with this name.') }),
    narrower: 'Name one event.',
    read: (data, given, signal) => data.propertyNames(given, signal),
  },
  {
    name: 'list_values',
    title: 'List values of a field',
    description:
      'The values of a field in the newest events with their counts, the most frequent first, to find the exact spelling for a filter. ' +
      'The counts are of a sample: for numbers that you report, use query with a breakdown.',
    schema: args({
      ...ValuesQuery.properties,
      event: describe(ValuesQuery.properties.event, 'Only in events with this name.'),
    }),
    narrower: 'Use `search`, or a lower `limit`.',
    read: (data, given, signal) => data.values(given as unknown as ValuesWanted, signal),
  },
  {
    name: 'query',
    title: 'Ask about events',
    description: QUERY_DESCRIPTION,
    schema: args({ question: Question }),
    narrower: 'Ask about a shorter range, with a longer interval, or with fewer breakdown values (limit).',
    read: (data, given, signal) => data.ask(unwrapQuestion(given.question), signal),
  },
  {
    name: 'get_user',
    title: 'Get a user',
    description:
      'The profile of one user, by its distinct_id or an alias. Personal data: ask for it only if the person wants to know about this user.',
    schema: args({ distinct_id: describe(Name, 'The distinct_id, or an alias of it.') }),
    narrower: 'This profile is too long to show whole.',
    read: (data, given, signal) => data.user(given.distinct_id as string, signal),
  },
  {
    name: 'recent_events',
    title: 'Read recent events',
    description:
      'Single events with their properties, newest first: to see what an event looks like, or what one user did. Never to count: use query. ' +
      'If hasMore is true, the `next` of the result as `cursor` continues with older ones.',
    schema: args({
      ...Type.Pick(EventsQuery, ['event', 'distinct_id', 'from', 'to']).properties,
      cursor: describe(EventsQuery.properties.cursor, 'The `next` of an earlier result with the same filters.'),
      limit: Type.Integer({
        minimum: 1,
        maximum: MAX_EVENTS,
        default: 20,
        message: `must be a whole number from 1 to ${MAX_EVENTS}`,
        description: 'Maximum number of events.',
      }),
    }),
    narrower:
      'Ask for fewer events (limit), or of one name or user: `next` continues after all events of this page, including those left out.',
    read: (data, given, signal) => readEvents(data, given as unknown as EventsWanted, signal),
  },
]

/** Reads events, and if there are none, whether any event has the name. */
async function readEvents(data: ProjectData, wanted: EventsWanted, signal: AbortSignal): Promise<string> {
  const body = await data.events(wanted, signal)
  const { event } = wanted
  const page = JSON.parse(body) as { events: unknown[] }
  if (event === undefined || page.events.length > 0) return body
  const { warnings } = JSON.parse(await data.propertyNames({ event }, signal)) as { warnings?: unknown }
  return warnings === undefined ? body : JSON.stringify({ ...page, warnings })
}

/** Unwraps a question that a model wrote as a string with JSON. */
function unwrapQuestion(given: unknown): unknown {
  if (typeof given !== 'string') return given
  try {
    return JSON.parse(given)
  } catch {
    throw new ApiError('invalid_request', `question ${Question.message}.`)
  }
}

function describe<T extends TSchema>(schema: T, description: string): T {
  return { ...schema, description }
}
