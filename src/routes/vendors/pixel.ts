import type { Answer } from './protocol.js'

/** A transparent GIF of one pixel, for calls that a mail or a page makes by showing an image. */
export const PIXEL: Answer = {
  type: 'image/gif',
  body: Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64'),
}
