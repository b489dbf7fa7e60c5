import { type Static, Type } from '@sinclair/typebox'
import { KEY_CLASSES } from './key-class.js'
import { query } from './query-schemas.js'
import { withFields } from './schemas.js'

/** The schemas of the calls about remembered `insert_id`s. */

const Kind = Type.Union(
  KEY_CLASSES.map((kind) => Type.Literal(kind)),
  {
    description: 'The kind of key that sent them: `page` for write and public keys',
    message: 'must be page or secret',
  },
)

export const IdsQuery = query({ kind: Type.Optional(Kind) })

export const RememberedIds = Type.Object({
  kind: Kind,
  lane: Type.Integer(),
  ids: Type.Integer(),
  since: Type.Union([Type.Integer(), Type.Null()], {
    description: 'All ids sent since this time (ms) are remembered; null for the full seven days.',
  }),
})
export type RememberedIds = Static<typeof RememberedIds>

export const RememberedIdsList = withFields({ ids: Type.Array(RememberedIds) })
export const ForgottenIds = withFields({ forgotten: Type.Integer() })
