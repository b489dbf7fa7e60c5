import { type BoardDraft, saveBoard } from '../../api/boards.js'
import { go } from '../../lib/navigation.js'
import { newId } from '../../lib/new-id.js'
import { linkTo } from '../../lib/route.js'

/** Why somebody cannot change boards. */
export const WHY_SECRET = 'Changing boards needs a secret key: sign in with one.'

/** @param isEditing whether its cards can be changed */
export function boardLink(id: string, isEditing = false): string {
  return linkTo(['board', id], { edit: isEditing ? '1' : '' })
}

/** Saves a new board, and opens it for editing. @throws CallError */
export async function createBoard(draft: BoardDraft): Promise<void> {
  const id = newId()
  await saveBoard(id, draft, 0)
  go(boardLink(id, true))
}
