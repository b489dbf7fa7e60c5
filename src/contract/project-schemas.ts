import { Type } from '@sinclair/typebox'
import type * as responses from './responses.js'
import { defineFields, ErasedUsers, Name, withFields } from './schemas.js'

/** The schemas of calls about a project as a whole. */

export const ProjectParams = Type.Object({ project: Name })

const { unreadable_dead_letters, gone_at, purge_error } = ErasedUsers.properties

export const ProjectErased = withFields(
  defineFields<responses.ProjectErased>({
    erased: Type.Object(
      defineFields<responses.ErasedProject>({
        events: Type.Integer(),
        sessions: Type.Integer(),
        profiles: Type.Integer(),
        aliases: Type.Integer(),
        dead_letters: Type.Integer(),
      }),
      { description: 'What this call has removed.' },
    ),
    complete: Type.Boolean({ description: 'False if the call ended before everything was removed: repeat it.' }),
    unreadable_dead_letters,
    gone_at,
    purge_error,
  }),
)

export const KeyDescription = withFields(
  defineFields<responses.DescribedKey>({
    key: Type.Object({
      kind: Type.Union([Type.Literal('secret'), Type.Literal('read')]),
      project: Type.String(),
    }),
  }),
)
