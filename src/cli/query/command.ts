import { readFile } from 'node:fs/promises'
import { text as readAll } from 'node:stream/consumers'
import { Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import { QUESTION_TIMEOUT_MS } from '../../client/tallyhouse.js'
import { formatExactJson } from '../../contract/exact-json.js'
import type { AnyAnswer } from '../../contract/questions.js'
import { checkService } from '../check-service.js'
import { type Command, type CommandIo, UsageError } from '../command.js'
import { printWarnings } from '../event-options.js'
import { counted } from '../progress.js'
import { READ_TARGET_USAGE, readTarget } from '../target.js'
import { flatTable, showAnswer } from './answers.js'
import { describeOptions, json, makeQuestion, readArguments } from './question.js'
import { csvText, tableText } from './table.js'

const USAGE = `Usage: tallyhouse query [options]
       tallyhouse query [options] QUESTION

Asks a running service a question about events and prints the answer, for example

  tallyhouse query --event "signed up" --metric users --interval week --breakdown properties.plan
  tallyhouse query --steps "signed up,activated,purchased" --window 14d
  tallyhouse query --start "signed up" --return "*" --unit week
  tallyhouse query --start "signed up" --steps 2

QUESTION is a question in JSON, or the name of a file that contains one; - is standard input.
docs/questions.md explains questions. Options are enough for simple ones; repeat --event for several
series, and --breakdown for a second field:

  --kind KIND        series, funnel, retention or paths (default: what the other options suggest)
${describeOptions()}

${READ_TARGET_USAGE}
  --format FORMAT    table (default on a terminal), csv or json (default otherwise), the answer as the
                     service sent it. CSV has one number per row and follows RFC 4180; cells that begin
                     with =, +, - or @ are not changed, so import it into a spreadsheet as text

Warnings about unknown names, such as a misspelled event, and ignored fields go to standard error.
The exit code is 0 for an answer, 1 if there is none or accepted events are missing from it, and 2
for a usage error.`

const FORMATS = ['table', 'csv', 'json']
/** Maximum number of problems shown for a question. */
const MAX_FAULTS = 20

export const command: Command = {
  summary: 'asks a running service a question about events',
  usage: USAGE,
  async run(args, io) {
    const { target, format = io.stdout.isTTY ? 'table' : 'json', parts, positionals } = readArguments(args)
    if (!FORMATS.includes(format)) throw new UsageError(`--format must be one of ${FORMATS.join(', ')}.`)
    const question = await readQuestion(positionals, parts, io)
    const { url, secretKey } = await readTarget(target, io)
    const connection = new Connection({ url, secretKey })
    await checkService(connection, url, 'read', io)
    const call = { method: 'POST', path: '/public/query', body: formatExactJson(question) } as const
    const { value, text } = await connection
      .call({ ...call, timeoutMs: QUESTION_TIMEOUT_MS }, { signal: io.signal })
      .catch(explain)
    const answer = value as unknown as AnyAnswer
    if (format === 'json') io.stdout.write(`${text}\n`)
    else if (format === 'csv') io.stdout.write(csvText(flatTable(answer)))
    else {
      const { tables, note } = showAnswer(answer)
      io.stdout.write(tables.map((table) => tableText(table)).join('\n'))
      io.stderr.write(note)
    }
    printWarnings(answer.warnings, io)
    if (answer.pending === 0) return 0
    io.stderr.write(`Not counted yet: ${counted(answer.pending, 'accepted event')}. Ask again.\n`)
    return 1
  },
}

async function readQuestion(
  positionals: string[],
  parts: Parameters<typeof makeQuestion>[0],
  { stdin }: CommandIo,
): Promise<unknown> {
  const [given, ...rest] = positionals
  if (given === undefined) return makeQuestion(parts)
  if (rest.length > 0) throw new UsageError('Put the question in quotes: it must be one argument.')
  const [part] = Object.keys(parts)
  if (part !== undefined) throw new UsageError(`--${part} belongs in the question: use either JSON or options.`)
  if (given.trimStart().startsWith('{')) return json('The question', given)
  return json('The question', given === '-' ? await readAll(stdin) : await readFile(given, 'utf8'))
}

/** @throws Error that lists what is wrong with a question */
function explain(error: unknown): never {
  if (!(error instanceof TallyhouseError) || error.details.length < 2) throw error
  const faults = error.details.slice(0, MAX_FAULTS).map(({ path, message }) => `${path} ${message}.`)
  throw new Error(faults.join('\n'), { cause: error })
}
