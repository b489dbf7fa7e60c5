import { useState } from 'preact/hooks'
import { listBoards } from '../../api/boards.js'
import { linkTo } from '../../lib/link.js'
import { go } from '../../lib/route.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { NameDialog } from '../../ui/name-dialog.js'
import { Failure, Loading } from '../../ui/notice.js'
import type { ViewProps } from '../view-props.js'
import { BoardPage } from './board-page.js'
import { boardLink, createBoard, WHY_SECRET } from './links.js'
import { Overview } from './overview.js'

/** The boards of a project, and one that every project has by itself. */
export default function Boards({ signIn, route }: ViewProps) {
  const list = useLoaded('boards', listBoards)
  const [isNaming, setNaming] = useState(false)
  const canEdit = signIn.kind === 'secret'
  const wanted = route.view === 'board' ? route.rest[0] : undefined
  const failure = list.error && <Failure error={list.error} onRetry={list.reload} />
  // A board that is named is there without the list: somebody may be editing it while that is read again.
  if (!list.value && wanted === undefined) return failure ?? <Loading what="the boards" />
  const id = wanted ?? (route.view === 'overview' ? undefined : list.value?.[0]?.id)
  return (
    <>
      <div class="board-bar">
        <nav aria-label="Boards">
          <a href="#/overview" aria-current={id === undefined ? 'page' : undefined}>
            Overview
          </a>
          {list.value?.map((board) => (
            <a key={board.id} href={boardLink(board.id)} aria-current={board.id === id ? 'page' : undefined}>
              {board.name}
            </a>
          ))}
        </nav>
        <button
          type="button"
          disabled={!canEdit}
          title={canEdit ? undefined : WHY_SECRET}
          onClick={() => setNaming(true)}
        >
          New board
        </button>
      </div>
      {failure}
      {id === undefined ? (
        <Overview canEdit={canEdit} onSaved={list.reload} />
      ) : (
        <BoardPage
          key={id}
          id={id}
          canEdit={canEdit}
          isEditing={canEdit && route.query.get('edit') === '1'}
          onChanged={list.reload}
          onDeleted={() => {
            go(linkTo(['']), 'replace')
            list.reload()
          }}
        />
      )}
      {isNaming && (
        <NameDialog
          title="New board"
          action={{
            text: 'Create board',
            act: async (name) => {
              await createBoard({ name, cards: [] })
              list.reload()
            },
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  )
}
