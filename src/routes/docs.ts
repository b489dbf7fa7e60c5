import swaggerUi from '@fastify/swagger-ui'
import type { FastifyPluginAsync } from 'fastify'
import { protectPages } from '../http/page-headers.js'

/**
 * Hash of the style sheet that Swagger UI's script inlines. The browser test fails if a new
 * version inlines another.
 */
const INLINE_STYLE = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

/** The five strokes of a tally, as in the icon of the page (src/web/index.html). */
const STROKES = `<path d='M2 3v10M5 3v10M8 3v10M11 3v10M1 11 13 4' stroke='#4466dd' stroke-width='1.6' fill='none'/>`
const ICON = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>${STROKES}</svg>`
/** For the dark bar at the top of the page. */
const LOGO = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 84 16'>${STROKES.replace('#4466dd', '#fff')}<text x='19' y='12' font-family='sans-serif' font-size='12' fill='#fff'>Tallyhouse</text></svg>`
const SVG = 'image/svg+xml'

/** The OpenAPI document, and a page to try the API. */
export const docs: FastifyPluginAsync = async (app) => {
  // One copy for all responses: a client without a key may ask for it often and read it slowly.
  let document: Buffer | undefined
  app.get('/openapi.json', async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()))
    reply.type('application/json; charset=utf-8')
    return document
  })

  // Use a separate scope, because only these routes serve pages to browsers.
  app.register(async (page) => {
    await protectPages(page, [INLINE_STYLE])
    await page.register(swaggerUi, {
      routePrefix: '/docs',
      theme: {
        title: 'Tallyhouse API',
        favicon: [{ filename: 'icon.svg', rel: 'icon', sizes: 'any', type: SVG, content: ICON }],
      },
      logo: { type: SVG, content: LOGO },
    })
  })
}
