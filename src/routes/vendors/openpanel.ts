import { openpanelMessages } from '../../vendors/openpanel.js'
import { type Answer, type SdkProtocol, vendorRoutes } from './protocol.js'

/**
 * OpenPanel makes ids of a visitor's device; here events without a profile have no id, so the SDK gets the same for all.
 * Without a session it would keep recordings for ever that it is to send with one.
 */
const TAKEN: Answer = { body: '{"deviceId":"$anonymous","sessionId":"$none"}' }

const protocol: SdkProtocol = {
  prefix: '/openpanel',
  keyPaths: [],
  calls: [{ methods: ['POST'], paths: ['/track'], messages: openpanelMessages, answer: () => TAKEN }],
  stubs: [{ method: 'GET', path: '/track/device-id', answer: () => TAKEN }],
  failure: ({ message, code, status: given }) => {
    // The SDKs retry on any other status, and retrying does not make a key valid.
    const status = code === 'wrong_key_kind' ? 401 : given
    return { status, body: JSON.stringify({ status, error: message, code }) }
  },
}

/** The SDKs of OpenPanel. */
export const openpanel = vendorRoutes(protocol)
