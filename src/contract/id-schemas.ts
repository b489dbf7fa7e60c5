import { Type } from '@sinclair/typebox'
import { KEY_CLASSES } from './key-class.js'
import { query } from './query-schemas.js'
import type * as responses from './responses.js'
import { defineFields, withFields } from './schemas.js'

/** The schemas of the calls about remembered `insert_id`s. */

const Kind = Type.Union(
  KEY_CLASSES.map((kind) => Type.Literal(kind)),
  {
    description: 'The kind of key that sent them: `page` for write and public keys',
    message: 'must be page or secret',
  },
)

export const IdsQuery = query({ kind: Type.Optional(Kind) })

export const RememberedIds = withFields(
  defineFields<{ ids: responses.RememberedIds[] }>({
    ids: Type.Array(
      Type.Object(
        defineFields<responses.RememberedIds>({
          kind: Kind,
          lane: Type.Integer(),
          ids: Type.Integer(),
          since: Type.Union([Type.Integer(), Type.Null()], {
            description: 'All ids sent since this time (ms) are remembered; null for the full seven days.',
          }),
        }),
      ),
    ),
  }),
)

export const ForgottenIds = withFields(defineFields<responses.ForgottenIds>({ forgotten: Type.Integer() }))
