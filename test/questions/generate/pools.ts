/**
 * Few names, values and times, so that questions usually match something in the data. They include pairs that a
 * careless query would confuse.
 */

export const EVENTS = [
  'a',
  'b',
  'c',
  '$pageview',
  'page viewed',
  'A',
  '$session',
  'sign up',
  "'; DROP TABLE events; --",
  'ü\u{1f600}',
  '*',
]

/** The last two sort differently by UTF-16 and by UTF-8. */
export const NAMES = ['ada', 'bob', 'cyd', 'dan', 'eve', 'Ada', ' ', 'a"\\\'b', '\u{1f600}', '\uff5e']
export const NOBODY = '$anonymous'

/** Session ids, which are reused after days, and by other users. */
export const SESSIONS = ['s', 't', 'u', '"', '\u{1f600}', 's'.repeat(200)]

/** Contexts of events and sessions. */
export const SENDERS: Record<string, string | true>[] = [
  { browser: 'Chrome', os: 'Windows', device: 'desktop', country: 'AT', language: 'de-AT' },
  { browser: 'Firefox', country: 'DE' },
  { browser: '"\\\u{1f600}' },
  { language: 'de' },
  { bot: true },
  { country: 'AT', bot: true },
]

/** Addresses of pages, as JSON. */
export const URLS = [
  ...['"https://shop.example/"', '"https://www.shop.example/a?utm_source=x#y"', '"http://Shop.Example:8080/a"'],
  ...['"/a/b?c"', '"//cdn.example/x"', '"https://user:p@w@shop.example"', '"https://shop.example?q=1"', '""', '"5"'],
  ...['"https:\\/\\/shop.example\\/esc"', '"app://shop.example/\\u00fc"', '"2 pages"'],
  ...['"/?utm_source=Google&utm_medium=%63pc#?utm_campaign=x"', '"https://shop.example/?utm_campaign=a+b%2Bc"'],
  ...['"?xutm_source=x&utm_source=&utm_source=fb.example&utm_source=y"', '"/#?utm_medium=email"', '"/?utm_content"'],
  ...['"/?utm_term=%C3%BC%zz%4&utm_content=%FF%41"', '"/?a?utm_source=x&utm_campaign=%F0%9F%98%80%00%09\\u00e9"'],
  ...['"/?utm_source=a&utm_medium=email&utm_source=b&utm_medium=cpc"', '"/?gclid=a"', '"/?utm_source=bing&wbraid=a"'],
  ...[
    '"/?gclid=&a?gclid=b&msclkid=%00&gbraid=c#d"',
    '"/#?gclid=a"',
    '"/?%67clid=a&utm%5Fsource=b"',
    '"/?xgclid=a&gclid&GCLID=a"',
  ],
]
export const NO_TEXTS = ['5', 'null', '{"a":"b"}', '["https://x.example/"]', 'true', '-1', '""']
/** Where visitors came from, as JSON. */
export const REFERRERS = [
  ...['"https://www.google.com/"', '"https://google.co.uk/search?q=x"', '"https://www.google.at/"', '"$direct"'],
  ...['"https://m.facebook.com/x"', '"https://t.co/x"', '"https://chatgpt.com/"', '"https://www.youtube.com/watch"'],
  ...[
    '"https://mail.google.com/mail"',
    '"https://shop.example/b"',
    '"https://blog.example/x"',
    '"https://de.search.yahoo.com/"',
  ],
  ...['"android-app://com.google.android.gm/"', '"https://localhost:3000/"', '"https://m.bing.com/"'],
]
export const CONTEXTS = [
  '{"page":{"url":"https://segment.example/s?x","referrer":"https://www.bing.com/"}}',
  '{"campaign":{"source":"google","medium":"ppc","name":"n"},"page":{"title":"T"}}',
  '5',
  '{"page":"x"}',
  '{"page":["https://shop.example/","T"],"campaign":["google"]}',
]

/** Texts as JSON: the same one in several spellings, and some that look like other values. */
export const TEXTS = [
  ...['"pro"', '"free"', '"Pro"', '"proper"', '""', '"5"', '"5.0"', '"true"', '"null"', '"[]"', '"$other"', '" pro"'],
  ...['"\\u0070ro"', '"a/b"', '"a\\/b"', '"caf\\u00e9"', '"café"', '"cafe\\u0301"', '"\\ud83d\\ude00"', '"😀"', '"~"'],
  ...[
    '"a\\nb"',
    '"\u{10fffc}zz"',
    '"\\"\u{10fffd}1e400\\""',
    '"a\\u0000b"',
    '"\\\\"',
    '"\\""',
    '"%"',
    '"_"',
    '"2026-04-24"',
  ],
]

/** Numbers whose sums are exact in any order. */
export const NUMBERS = [
  '0',
  '1',
  '2',
  '5',
  '5.0',
  '5e0',
  '0.5e1',
  '-3',
  '-3.25',
  '10',
  '1E1',
  '100',
  '0.125',
  '-0',
  '1e3',
]

/** Numbers that always have a sum. */
export const INFINITE_NUMBERS = ['1e400', '5', '-2', '0.5', '"5"', '1e999', '-1e400']

/** Numbers that lose precision in careless code. */
export const ODD_NUMBERS = [
  ...['9007199254740993', '9007199254740992', '18446744073709551615', '123456789.12345678', '0.1'],
  ...['0.30000000000000004', '1e21', '1e-7', '5e-324', '1.7976931348623157e308', '4.0e15'],
]

export const OTHERS = [
  'true',
  'false',
  'null',
  '{}',
  '[]',
  '[null]',
  '["pro",5]',
  '[5.0,true,"free"]',
  '[["pro"]]',
  '[9007199254740993,-0]',
  '[9007199254740992,0]',
]
export const OBJECTS = [
  '{"x":1}',
  '{ "x" : 1.0 }',
  '{"x":"pro","y":[1,2]}',
  '{"x":{"y":5}}',
  '{"x":null}',
  '[{"x":1}]',
  '["pro"]',
  '{"x":18446744073709551615}',
]

/** Texts that simdjson refuses: half a surrogate pair, integers of more than 64 bits, and numbers beyond doubles. */
export const REFUSED_TEXTS = ['"\\ud83d"', '"a\\udc00b"', '"\\uD83Dx"']
export const REFUSED_NUMBERS = [
  ...['18446744073709551616', '-9223372036854775809', '123456789012345678901234567890', '1e400', '-1e400'],
]
export const REFUSED_OTHERS = ['[123456789012345678901234567890,"pro"]', '["\\ud83d","free"]', '[1e400,5]']
export const REFUSED_OBJECTS = ['{"x":1e400}', '{"x":"\\ud83d"}']

/** Regular expressions that RE2 and JavaScript read alike. */
export const PATTERNS = [
  '^pro',
  'o$',
  'p.o',
  '^$',
  '[a-c]',
  'a.b',
  '^\\d+(\\.0)?$',
  'caf.$',
  '(free|Pro)',
  'x?',
  '^.$',
  '\\\\',
]

interface Era {
  zone: string
  /** the time around which the events are; epoch ms */
  center: number
}

function era(zone: string, center: string): Era {
  return { zone, center: Date.parse(center) }
}

/** Every kind of change that clocks have had, with its time. */
export const ERAS: Era[] = [
  era('Africa/Cairo', '2026-04-23T22:00:00Z'),
  era('Africa/Cairo', '2026-10-29T21:00:00Z'),
  era('Australia/Lord_Howe', '2026-04-04T15:00:00Z'),
  era('Australia/Lord_Howe', '2026-10-03T15:30:00Z'),
  era('America/Sao_Paulo', '2018-11-04T03:00:00Z'),
  era('America/Sao_Paulo', '2018-02-18T02:00:00Z'),
  era('Asia/Kathmandu', '1985-12-31T18:30:00Z'),
  era('Pacific/Apia', '2011-12-30T10:00:00Z'),
  era('Pacific/Kiritimati', '1994-12-31T10:00:00Z'),
  era('America/St_Johns', '2005-10-30T02:31:00Z'),
  era('America/St_Johns', '2005-04-03T03:31:00Z'),
  era('Europe/Berlin', '2026-03-29T01:00:00Z'),
  era('America/New_York', '2026-11-01T06:00:00Z'),
  era('Antarctica/Troll', '2026-03-29T01:00:00Z'),
  era('Africa/Monrovia', '1972-01-07T00:44:30Z'),
  era('Asia/Kolkata', '2026-01-01T00:00:00Z'),
  era('UTC', '2026-03-01T00:00:00Z'),
]
