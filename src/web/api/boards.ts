import type { Board, BoardCard, BoardSummary } from '../../contract/saved-schemas.js'
import { createId } from '../lib/new-id.js'
import { call, isConflict, toPath } from './call.js'

/** The part of a board that can be edited. */
export interface BoardDraft {
  name: string
  cards: BoardCard[]
  /** its controls; null for the usual ones */
  display: object | null
}

/** The boards of the project, by name. @throws CallError */
export async function listBoards(signal?: AbortSignal): Promise<BoardSummary[]> {
  return (await call<{ boards: BoardSummary[] }>('GET', '/public/boards', undefined, signal)).boards
}

/** @throws CallError `not_found` */
export async function readBoard(id: string, signal?: AbortSignal): Promise<Board> {
  return (await call<{ board: Board }>('GET', toPath('boards', id), undefined, signal)).board
}

/**
 * @param revision the revision to replace, 0 for a new board; null overwrites any
 * @throws CallError `revision_conflict` if someone else saved the board first
 */
export async function saveBoard(id: string, draft: BoardDraft, revision: number | null): Promise<void> {
  await call('PUT', toPath('boards', id), { ...draft, revision })
}

/** Attempts to save; another one is needed if someone else saves the board at the same time. */
const ADD_ATTEMPTS = 3

/** Appends a card to a board, keeping concurrent changes of others. @throws CallError */
export async function addCard(id: string, card: Omit<BoardCard, 'id'>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { name, cards, display, revision } = await readBoard(id)
    try {
      return await saveBoard(id, { name, cards: [...cards, { ...card, id: createId() }], display }, revision)
    } catch (error) {
      if (!isConflict(error) || attempt === ADD_ATTEMPTS) throw error
    }
  }
}

export async function deleteBoard(id: string): Promise<void> {
  await call('DELETE', toPath('boards', id))
}
