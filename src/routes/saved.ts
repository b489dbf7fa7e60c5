import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import type { BoardBody } from '../contract/saved-schemas.js'
import { withWarnings } from '../http/field-warnings.js'
import { type JsonValue, readJson } from '../json/value.js'
import type { Catalog } from '../questions/catalog.js'
import { Faults } from '../questions/faults.js'
import { checkQuestion } from '../questions/parse.js'
import type { Questions } from '../questions/run.js'
import { wrapRows } from '../store/page.js'
import {
  deleteSaved,
  listSaved,
  MAX_SAVED,
  MAX_SAVED_BYTES,
  putSaved,
  readSaved,
  type SavedKind,
  type SavedValue,
} from '../store/saved.js'
import { CALLS } from './saved.calls.js'

export interface SavedOptions {
  shards: Shards
  questions: Pick<Questions, 'review'>
  catalog: Pick<Catalog, 'review'>
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

type App = Parameters<FastifyPluginAsyncTypebox>[0]

/** Maximum size of a body. */
const MAX_BYTES = 256 * 1024
const SAVED_ID = /^[A-Za-z0-9_-]{1,64}$/

/** Saves questions and boards of a project. Reads return exactly the bytes that were sent. */
export const saved: FastifyPluginAsyncTypebox<SavedOptions> = async (
  app,
  { shards, questions, catalog, now = Date.now },
) => {
  const bodyLimit = Math.min(MAX_BYTES, app.initialConfig.bodyLimit ?? MAX_BYTES)

  serveStored(app, 'question', { shards, now })
  serveStored(app, 'board', { shards, now })

  app.put(
    '/questions/:id',
    { ...CALLS.saveQuestion, bodyLimit },
    async ({ projectId, params: { id }, body, rawBody }) => {
      const faults = new Faults()
      checkQuestion(body.question, '/question', faults, now())
      faults.throwIfAny()
      const sent = readJson(rawBody)
      const content = withoutKey(sent?.member('question'))
      const value = { name: body.name, content, display: displayText(body, sent), cards: 0 }
      const done = await put({ projectId, kind: 'question', id }, value, body)
      return { ...done, ...(await warn(projectId, new Map([['/question', body.question]]))) }
    },
  )

  app.put('/boards/:id', { ...CALLS.saveBoard, bodyLimit }, async ({ projectId, params: { id }, body, rawBody }) => {
    checkCards(body.cards, now())
    const sent = readJson(rawBody)
    const sentCards = sent?.member('cards')?.elements() ?? []
    const content = `[${body.cards.map((card, i) => cardText(card, sentCards[i])).join(',')}]`
    const value = { name: body.name, content, display: displayText(body, sent), cards: body.cards.length }
    const done = await put({ projectId, kind: 'board', id }, value, body)
    const own = body.cards.map(({ question }, i) => [`/cards/${i}/question`, question] as const)
    const asked = own.filter(([, question]) => readSavedId(question) === undefined)
    return { ...done, ...(await warn(projectId, new Map(asked))) }
  })

  async function warn(projectId: string, bodies: ReadonlyMap<string, unknown>) {
    return withWarnings(await questions.review(projectId, bodies, catalog.review))
  }

  async function put(
    place: { projectId: string; kind: SavedKind; id: string },
    value: SavedValue,
    { revision }: { revision?: number | null },
  ) {
    const changed = await putSaved(shards, place, value, { expected: revision ?? undefined, now: now() })
    if (typeof changed === 'object') return { status: 1, error: null, revision: changed.revision }
    if (changed === 'full') {
      throw new ApiError('invalid_request', `A project has at most ${MAX_SAVED} ${place.kind}s. Delete one first.`, {
        limit: 'saved',
      })
    }
    if (changed === 'large') {
      const most = `${MAX_SAVED_BYTES >> 20} MiB`
      const message = `The ${place.kind}s of a project have at most ${most} in all. Delete some, or make them shorter.`
      throw new ApiError('invalid_request', message, { limit: 'saved' })
    }
    const message = `The ${place.kind} was changed in the meantime. Read it again, and repeat the change.`
    throw new ApiError('revision_conflict', message)
  }
}

/** The calls that list, read and delete, which are the same for both kinds. */
function serveStored(app: App, kind: SavedKind, { shards, now }: { shards: Shards; now: () => number }): void {
  const [path, list, read, remove] =
    kind === 'question'
      ? (['/questions', CALLS.readSavedQuestions, CALLS.readSavedQuestion, CALLS.deleteSavedQuestion] as const)
      : (['/boards', CALLS.readBoards, CALLS.readBoard, CALLS.deleteBoard] as const)
  app.get(path, list, async ({ projectId, signal }, reply) => {
    const rows = await listSaved(shards, { projectId, kind }, signal)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return wrapRows(rows, `{"status":1,"error":null,"${kind}s":[`, () => ']}')
  })

  app.get(`${path}/:id`, read, async ({ projectId, params: { id } }, reply) => {
    const text = await readSaved(shards, { projectId, kind, id })
    if (text === null) throw unknown(kind)
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return `{"status":1,"error":null,"${kind}":${text}}`
  })

  app.delete(`${path}/:id`, remove, async ({ projectId, params: { id } }) => {
    const changed = await deleteSaved(shards, { projectId, kind, id }, now())
    if (changed === 'missing') throw unknown(kind)
    return { status: 1, error: null } as const
  })
}

type Card = Static<typeof BoardBody>['cards'][number]

/** @throws ApiError `invalid_request` that names the invalid cards */
function checkCards(cards: Card[], now: number): void {
  const faults = new Faults()
  const ids = new Set<string>()
  for (const [i, { id, question }] of cards.entries()) {
    const path = `/cards/${i}`
    if (ids.has(id)) faults.add(`${path}/id`, 'must differ from the ids of the other cards')
    ids.add(id)
    const savedId = readSavedId(question)
    if (savedId === undefined) checkQuestion(question, `${path}/question`, faults, now)
    else if (typeof savedId !== 'string' || !SAVED_ID.test(savedId)) {
      faults.add(`${path}/question/saved`, 'must be the id of a saved question')
    }
  }
  faults.throwIfAny()
}

/** The id of the saved question that a card refers to; undefined if the card contains its question. */
function readSavedId(question: object): unknown {
  return 'saved' in question ? (question.saved ?? undefined) : undefined
}

/** A card without unknown fields. Its question and display stay exactly as they were sent. */
function cardText({ id, name, question, display, width, height }: Card, sent: JsonValue | undefined): string {
  const savedId = readSavedId(question)
  const asked = savedId === undefined ? withoutKey(sent?.member('question')) : JSON.stringify({ saved: savedId })
  const head = JSON.stringify({ id, name }).slice(0, -1)
  return `${head},"question":${asked},"display":${displayText({ display }, sent)},"width":${width},"height":${height ?? null}}`
}

/** The display of a question, board or card as it was sent; `null` if there is none. */
function displayText({ display }: { display?: object | null | undefined }, sent?: JsonValue | null): string {
  return (display && sent?.member('display')?.text) ?? 'null'
}

/** Removes the key, because a question may be saved as it was asked. */
function withoutKey(question: JsonValue | undefined): string {
  return question?.without((name) => name === 'apiKey') ?? '{}'
}

function unknown(kind: SavedKind): ApiError {
  return new ApiError('not_found', `There is no ${kind} with this id.`)
}
