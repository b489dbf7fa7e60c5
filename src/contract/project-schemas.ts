import { Type } from '@sinclair/typebox'
import type * as responses from './responses.js'
import { apiKey, ErasedUsers, fieldsOf, messages, Name, withFields } from './schemas.js'

/** The schemas of calls about a project as a whole. */

export const EraseProjectBody = Type.Object(
  { apiKey, project: { ...Name, description: 'The project of the key, so that no other one is erased by mistake.' } },
  { message: messages.object },
)

const { unreadable_dead_letters, gone_at, purge_error } = ErasedUsers.properties

export const ProjectErased = withFields(
  fieldsOf<responses.ProjectErased>({
    erased: Type.Object(
      fieldsOf<responses.ErasedProject>({
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
