import { openpanelMessages } from '../../vendors/openpanel.js'
import { type Answer, type SdkProtocol, vendorRoutes } from './protocol.js'

/**
 * OpenPanel derives ids from a visitor's device. Here, events without a profile have no id, so all SDKs get the same
 * one. Without a session id, the SDK would keep recordings forever, waiting to send them with one.
 */
const TAKEN: Answer = { body: '{"deviceId":"$anonymous","sessionId":"$none"}' }

const protocol: SdkProtocol = {
  prefix: '/openpanel',
  keyPaths: [],
  calls: [{ methods: ['POST'], paths: ['/track'], messages: openpanelMessages, answer: () => TAKEN }],
  stubs: [{ method: 'GET', path: '/track/device-id', answer: () => TAKEN }],
  failure: ({ message, code, status: given }) => {
    // The SDKs would retry after any other status, but retrying does not make a key valid.
    const status = code === 'wrong_key_kind' ? 401 : given
    return { status, body: JSON.stringify({ status, error: message, code }) }
  },
}

/** The SDKs of OpenPanel. */
export const openpanel = vendorRoutes(protocol)
