import { Type } from '@sinclair/typebox'
import { AnyQuestion } from '../../contract/question-schemas.js'
import {
  Boards,
  OneBoard,
  OneSavedQuestion,
  Saved,
  SavedQuestionBody,
  SavedQuestions,
} from '../../contract/saved-schemas.js'
import { Done } from '../../contract/schemas.js'
import type { Call } from './call.js'

const updated_at = 1_733_788_800_000
const asked = { kind: 'series', series: [{ event: 'signed up', metric: 'users' }], interval: 'week' }
const question = { name: 'Sign-ups', question: asked, display: { chart: 'line' } }
const cards = [
  { id: 'a', name: 'Sign-ups', question: { saved: 'sign-ups' }, display: null, width: 2, height: null },
  { id: 'b', name: 'Visitors', question: asked, display: { chart: 'number' }, width: 1, height: null },
]
const display = { range: '30d', timezone: 'Europe/Vienna' }
const stored = { revision: 1, updated_at }
const board = { id: 'overview', name: 'Overview', ...stored }
const success = { status: 1, error: null }

const CHANGE =
  'Creates it, or replaces all of it. With `revision`, only if that is the stored one; 0 means that there is none yet. Without it, the last ' +
  'change wins. A project has at most 500, and a body at most 256 KiB. `warnings` says what asking would warn about, ' +
  'such as an event that nothing is called by.'
const parameters = { id: 'sign-ups' }
const done = { schema: Done, example: success }
const saved = { schema: Saved, example: { ...success, revision: 1 } }

/** The calls about saved questions and boards, by method and path. */
export const SAVED_CALLS: Record<string, Call> = {
  'GET /public/questions': {
    id: 'readSavedQuestions',
    tag: 'Questions',
    summary: 'List the saved questions, by name',
    access: 'read',
    response: {
      schema: SavedQuestions,
      example: { ...success, questions: [{ id: 'sign-ups', ...question, ...stored }] },
    },
    errors: ['invalid_request'],
  },
  'GET /public/questions/:id': {
    id: 'readSavedQuestion',
    tag: 'Questions',
    summary: 'Read one saved question',
    access: 'read',
    parameters,
    response: {
      schema: OneSavedQuestion,
      example: { ...success, question: { id: 'sign-ups', ...question, ...stored } },
    },
    errors: ['invalid_request', 'not_found'],
  },
  'PUT /public/questions/:id': {
    id: 'saveQuestion',
    tag: 'Questions',
    summary: 'Save a question',
    description: `${CHANGE} \`question\` is what \`POST /public/query\` takes; it and \`display\` are kept as they are sent.`,
    access: 'manage',
    parameters,
    body: Type.Object({ ...SavedQuestionBody.properties, question: AnyQuestion }),
    example: { ...question, revision: 0 },
    response: saved,
    errors: ['revision_conflict'],
  },
  'DELETE /public/questions/:id': {
    id: 'deleteSavedQuestion',
    tag: 'Questions',
    summary: 'Delete a saved question',
    description: 'Cards of boards that name it stay as they are.',
    access: 'manage',
    parameters,
    response: done,
    errors: ['invalid_request', 'not_found'],
  },
  'GET /public/boards': {
    id: 'readBoards',
    tag: 'Questions',
    summary: 'List the boards, by name',
    description: 'Without their cards; `count` is the number of cards.',
    access: 'read',
    response: { schema: Boards, example: { ...success, boards: [{ ...board, count: 2 }] } },
    errors: ['invalid_request'],
  },
  'GET /public/boards/:id': {
    id: 'readBoard',
    tag: 'Questions',
    summary: 'Read one board with its cards',
    access: 'read',
    parameters: { id: 'overview' },
    response: { schema: OneBoard, example: { ...success, board: { ...board, cards, display } } },
    errors: ['invalid_request', 'not_found'],
  },
  'PUT /public/boards/:id': {
    id: 'saveBoard',
    tag: 'Questions',
    summary: 'Save a board',
    description: `${CHANGE} A card has a question of its own, or names one that is saved, which need not exist. \`display\` is kept as it is sent.`,
    access: 'manage',
    parameters: { id: 'overview' },
    example: { name: 'Overview', cards, display, revision: 0 },
    response: saved,
    errors: ['revision_conflict'],
  },
  'DELETE /public/boards/:id': {
    id: 'deleteBoard',
    tag: 'Questions',
    summary: 'Delete a board',
    access: 'manage',
    parameters: { id: 'overview' },
    response: done,
    errors: ['invalid_request', 'not_found'],
  },
}
