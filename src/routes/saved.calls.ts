import { Type } from '@sinclair/typebox'
import { NoQuery } from '../contract/query-schemas.js'
import { AnyQuestion } from '../contract/question-schemas.js'
import {
  BoardBody,
  Boards,
  NewSavedParams,
  OneBoard,
  OneSavedQuestion,
  Saved,
  SavedParams,
  SavedQuestionBody,
  SavedQuestions,
} from '../contract/saved-schemas.js'
import { Done } from '../contract/schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'

const asked = { kind: 'series', series: [{ event: 'signed up', metric: 'users' }], interval: 'week' }
const question = { name: 'Sign-ups', question: asked, display: { chart: 'line' } }
const cards = [
  { id: 'a', name: 'Sign-ups', question: { saved: 'sign-ups' }, display: null, width: 2, height: null },
  { id: 'b', name: 'Visitors', question: asked, display: { chart: 'number' }, width: 1, height: null },
]
const display = { range: '30d', timezone: 'Europe/Vienna' }
const stored = { revision: 1, updated_at: EXAMPLE_TIME }
const board = { id: 'overview', name: 'Overview', ...stored }

const CHANGE =
  'Creates it, or replaces it entirely. With `revision`, only if that is the stored revision; 0 means that there is none yet. Without `revision`, the last ' +
  'change wins. A project has at most 500, and a body at most 256 KiB. `warnings` contains the warnings that asking the question would cause, ' +
  'such as an event name that does not exist.'
const parameters = { id: 'sign-ups' }
const saved = { schema: Saved, example: { revision: 1 } }

export const CALLS = describeCalls('Questions', {
  readSavedQuestions: {
    schema: { querystring: NoQuery },
    summary: 'List the saved questions, by name',
    response: { schema: SavedQuestions, example: { questions: [{ id: 'sign-ups', ...question, ...stored }] } },
  },
  readSavedQuestion: {
    schema: { params: SavedParams, querystring: NoQuery },
    summary: 'Read one saved question',
    parameters,
    response: { schema: OneSavedQuestion, example: { question: { id: 'sign-ups', ...question, ...stored } } },
    errors: ['not_found'],
  },
  saveQuestion: {
    schema: { params: NewSavedParams, body: SavedQuestionBody },
    summary: 'Save a question',
    description: `${CHANGE} \`question\` is what \`POST /public/query\` takes; it and \`display\` are kept as they are sent.`,
    parameters,
    body: Type.Object({ ...SavedQuestionBody.properties, question: AnyQuestion }),
    example: { ...question, revision: 0 },
    response: saved,
    errors: ['revision_conflict'],
  },
  deleteSavedQuestion: {
    schema: { params: SavedParams, querystring: NoQuery, response: { 200: Done } },
    summary: 'Delete a saved question',
    description: 'Cards of boards that name it stay as they are.',
    parameters,
    errors: ['not_found'],
  },
  readBoards: {
    schema: { querystring: NoQuery },
    summary: 'List the boards, by name',
    description: 'Without their cards; `count` is the number of cards.',
    response: { schema: Boards, example: { boards: [{ ...board, count: 2 }] } },
  },
  readBoard: {
    schema: { params: SavedParams, querystring: NoQuery },
    summary: 'Read one board with its cards',
    parameters: { id: 'overview' },
    response: { schema: OneBoard, example: { board: { ...board, cards, display } } },
    errors: ['not_found'],
  },
  saveBoard: {
    schema: { params: NewSavedParams, body: BoardBody },
    summary: 'Save a board',
    description: `${CHANGE} A card contains a question, or names a saved one, which need not exist. \`display\` is kept as it is sent.`,
    parameters: { id: 'overview' },
    example: { name: 'Overview', cards, display, revision: 0 },
    response: saved,
    errors: ['revision_conflict'],
  },
  deleteBoard: {
    schema: { params: SavedParams, querystring: NoQuery, response: { 200: Done } },
    summary: 'Delete a board',
    parameters: { id: 'overview' },
    errors: ['not_found'],
  },
})
