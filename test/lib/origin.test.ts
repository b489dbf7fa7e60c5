import t from 'tap'
import { isOrigin, originOf } from '../../src/lib/origin.js'

t.test('an origin is what browsers send in a header, to the letter', async (t) => {
  for (const sent of [
    'https://shop.example',
    'http://localhost:8080',
    'http://127.0.0.1:3000',
    'http://[::1]:3000',
    'https://xn--mnchen-3ya.example',
    'https://a_b.-c-.example',
    // A page that was opened with the final dot is of another origin.
    'https://shop.example.',
    'https://shop.example:80',
  ]) {
    t.ok(isOrigin(sent), sent)
    t.equal(originOf(sent), sent)
  }
})

t.test('what a browser would send instead is known, if it would send anything', async (t) => {
  for (const [text, sent] of [
    ['https://SHOP.example', 'https://shop.example'],
    ['HTTPS://shop.example', 'https://shop.example'],
    ['https://shop.example/', 'https://shop.example'],
    ['https://shop.example/cart?id=1#top', 'https://shop.example'],
    ['https://shop.example:443', 'https://shop.example'],
    ['http://shop.example:80', 'http://shop.example'],
    ['https://shop.example:', 'https://shop.example'],
    ['https://ada:secret@shop.example', 'https://shop.example'],
    ['https://münchen.example', 'https://xn--mnchen-3ya.example'],
    ['http://[2001:DB8:0::1]', 'http://[2001:db8::1]'],
    ['http://127.1', 'http://127.0.0.1'],
    [' https://shop.example', 'https://shop.example'],
    ['*', null],
    ['https://*', null],
    ['https://*.example', null],
    ['https://shop*.example', null],
    ['https://%2a.example', null],
    ['https://a.example,b.example', null],
    ['https://{shop}.example', null],
    ['https://$SHOP', null],
    ['https://"shop.example"', null],
    ['https://shop..example', null],
    ['https://.example', null],
    ['https://shop.example:70000', null],
    ['https://', null],
    ['shop.example', null],
    ['localhost:8080', null],
    ['//shop.example', null],
    ['null', null],
    ['file:///shop', null],
    ['ws://shop.example', null],
    ['', null],
  ] as const) {
    t.notOk(isOrigin(text), text)
    t.equal(originOf(text), sent, text)
  }
})
