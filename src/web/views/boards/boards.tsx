import { useState } from 'preact/hooks'
import { listBoards } from '../../api/boards.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { navigate } from '../../lib/navigation.js'
import { linkTo } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import { NameDialog } from '../../ui/name-dialog.js'
import { Failure, Loading } from '../../ui/notice.js'
import type { ViewProps } from '../view-props.js'
import { createBoard, linkToBoard, WHY_SECRET } from './board-links.js'
import { BoardPage } from './board-page.js'
import * as styles from './boards.module.css'
import { Overview } from './overview.js'

/** The boards of a project, and the overview that every project has. */
export default function Boards({ access, route }: ViewProps) {
  const list = useLoaded('boards', listBoards)
  const [isNaming, setNaming] = useState(false)
  const canEdit = access.keyKind === 'secret'
  const routeId = route.view === 'board' ? route.rest[0] : undefined
  const failure = list.error && <Failure error={list.error} onRetry={list.reload} />
  // A board is shown even while the list is loading, because the list may reload while the board is being edited.
  if (!list.value && routeId === undefined) return failure ?? <Loading what="the boards" />
  const id = routeId ?? (route.view === 'overview' ? undefined : list.value?.[0]?.id)
  return (
    <>
      <div class={styles.bar}>
        <nav aria-label="Boards">
          <a href="#/overview" aria-current={id === undefined ? 'page' : undefined}>
            Overview
          </a>
          {list.value?.map((board) => (
            <a key={board.id} href={linkToBoard(board.id)} aria-current={board.id === id ? 'page' : undefined}>
              {board.name}
            </a>
          ))}
        </nav>
        <Button disabled={!canEdit} title={canEdit ? undefined : WHY_SECRET} onClick={() => setNaming(true)}>
          New board
        </Button>
      </div>
      {failure}
      {id === undefined ? (
        <Overview canEdit={canEdit} query={route.query} onSaved={list.reload} />
      ) : (
        <BoardPage
          key={id}
          id={id}
          canEdit={canEdit}
          query={route.query}
          onChanged={list.reload}
          onDeleted={() => {
            navigate(linkTo(['boards']), 'replace')
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
              await createBoard({ name, cards: [], display: null })
              list.reload()
            },
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  )
}
