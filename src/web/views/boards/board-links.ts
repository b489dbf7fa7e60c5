import { type BoardDraft, saveBoard } from '../../api/boards.js'
import { navigate } from '../../lib/navigation.js'
import { createId } from '../../lib/new-id.js'
import { linkTo } from '../../lib/route.js'

/** Tooltip of disabled buttons. */
export const WHY_SECRET = 'Changing boards needs a secret key: sign in with one.'

/** @param query of its controls; @param isEditing whether to open the editor */
export function linkToBoard(id: string, query: Record<string, string> = {}, isEditing = false): string {
  return linkTo(['board', id], { ...query, edit: isEditing ? '1' : '' })
}

/** Saves a new board and opens it in the editor. @throws CallError */
export async function createBoard(draft: BoardDraft): Promise<void> {
  const id = createId()
  await saveBoard(id, draft, 0)
  navigate(linkToBoard(id, {}, true))
}
