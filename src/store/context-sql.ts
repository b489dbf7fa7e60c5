import { CONTEXT_TEXTS } from '../contract/context.js'

/** The columns for contexts in `events` and `sessions`, in order. */
export const CONTEXT_COLUMNS: readonly string[] = [...CONTEXT_TEXTS, 'bot']

/** The types of the columns, for reading rows of JSON. */
export const CONTEXT_TYPES = {
  ...(Object.fromEntries(CONTEXT_TEXTS.map((field) => [field, 'String'])) as Record<
    (typeof CONTEXT_TEXTS)[number],
    string
  >),
  bot: 'UInt8',
}

const IS_EMPTY = [...CONTEXT_TEXTS.map((field) => `${field} = ''`), 'bot = 0'].join(' AND ')
const MEMBERS = [
  ...CONTEXT_TEXTS.map((field) => `if(${field} = '', '', concat(',"${field}":', toJSONString(${field})))`),
  `if(bot = 0, '', ',"bot":true')`,
].join(', ')
/** The members as an object, without the comma before the first one. */
const OBJECT = `concat('{', substring(concat(${MEMBERS}), 2), '}')`

/** SQL expression for the context as JSON; empty if there is none. */
export const CONTEXT_JSON: string = `if(${IS_EMPTY}, '', ${OBJECT})`

/** SQL expression for the last member of an object: the context with its comma; empty if there is none. */
export const CONTEXT_MEMBER: string = `if(${IS_EMPTY}, '', concat(',"context":', ${OBJECT}))`
