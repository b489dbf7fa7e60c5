import type { Board, BoardCard, BoardSummary } from '../../contract/responses.js'
import { call } from './call.js'

/** A board as it is edited and saved. */
export interface BoardDraft {
  name: string
  cards: BoardCard[]
}

/** The boards of the project, by name. @throws CallError */
export async function listBoards(signal?: AbortSignal): Promise<BoardSummary[]> {
  return (await call<{ boards: BoardSummary[] }>('GET', '/public/boards', undefined, signal)).boards
}

/** @throws CallError `not_found` */
export async function readBoard(id: string, signal?: AbortSignal): Promise<Board> {
  return (await call<{ board: Board }>('GET', pathOf(id), undefined, signal)).board
}

/**
 * @param revision the one that is replaced, 0 for a new board; null replaces whatever there is
 * @throws CallError `revision_conflict` if somebody else has changed it meanwhile
 */
export async function saveBoard(id: string, { name, cards }: BoardDraft, revision: number | null): Promise<void> {
  await call('PUT', pathOf(id), { name, cards, revision })
}

export async function deleteBoard(id: string): Promise<void> {
  await call('DELETE', pathOf(id))
}

function pathOf(id: string): string {
  return `/public/boards/${encodeURIComponent(id)}`
}
