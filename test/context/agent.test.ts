import t from 'tap'
import { type Agent, isPersonal, readAgent } from '../../src/context/agent.js'

const MAC = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'
const WEBKIT = 'AppleWebKit/605.1.15 (KHTML, like Gecko)'
const CHROME = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0'
const WINDOWS = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64)'

/** Real User-Agents: browser and its version, system and its version, device, and whether it is a bot. */
const AGENTS: [name: string, seen: string][] = [
  [`${WINDOWS} ${CHROME} Safari/537.36`, 'Chrome 131 | Windows 10 | desktop'],
  [`${WINDOWS} ${CHROME} Safari/537.36 Edg/131.0.2903.51`, 'Microsoft Edge 131 | Windows 10 | desktop'],
  [`${WINDOWS} ${CHROME} Safari/537.36 OPR/116.0.0.0`, 'Opera 116 | Windows 10 | desktop'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132.0',
    'Firefox 132 | Windows 10 | desktop',
  ],
  [
    'Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko',
    'Internet Explorer 11 | Windows 7 | desktop',
  ],
  [`${MAC} ${CHROME} Safari/537.36`, 'Chrome 131 | macOS 10.15 | desktop'],
  [`${MAC} ${WEBKIT} Version/17.5 Safari/605.1.15`, 'Safari 17.5 | macOS 10.15 | desktop'],
  ['Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0', 'Firefox 132 | Linux | desktop'],
  [`Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${CHROME} Safari/537.36`, 'Chrome 131 | Chrome OS | desktop'],
  [`Mozilla/5.0 (Linux; Android 10; K) ${CHROME} Mobile Safari/537.36`, 'Chrome 131 | Android 10 | mobile'],
  [`Mozilla/5.0 (Linux; Android 10; K) ${CHROME} Safari/537.36`, 'Chrome 131 | Android 10 | tablet'],
  ['Mozilla/5.0 (Android 14; Mobile; rv:132.0) Gecko/132.0 Firefox/132.0', 'Firefox 132 | Android 14 | mobile'],
  [
    'Mozilla/5.0 (Linux; Android 13; SAMSUNG SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Mobile Safari/537.36',
    'Samsung Internet 23 | Android 13 | mobile',
  ],
  [
    'Mozilla/5.0 (Linux; Android 9; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/112.4.1 like Chrome/112.0.5615.213 Safari/537.36',
    'Amazon Silk 112.4 | Android 9 | tablet',
  ],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${WEBKIT} Version/17.5 Mobile/15E148 Safari/604.1`,
    'Safari 17.5 | iOS 17.5 | mobile',
  ],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${WEBKIT} CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1`,
    'Chrome 131 | iOS 17.5 | mobile',
  ],
  [
    `Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) ${WEBKIT} Version/17.5 Mobile/15E148 Safari/604.1`,
    'Safari 17.5 | iOS 17.5 | tablet',
  ],
  [`${MAC} ${WEBKIT} CriOS/126.0.6478.54 Version/11.1.1 Safari/605.1.15`, 'Chrome 126 | iOS | tablet'],
  [`${MAC} ${WEBKIT} FxiOS/132.0 Safari/605.1.15`, 'Firefox 132 | iOS | tablet'],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 16_6 like Mac OS X) ${WEBKIT} Mobile/15E148 MicroMessenger/8.0.42(0x18002a2e) NetType/WIFI Language/zh_CN`,
    'WeChat 8 | iOS 16.6 | mobile',
  ],
  [
    'Mozilla/5.0 (SMART-TV; LINUX; Tizen 5.0) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/2.2 Chrome/63.0.3239.84 TV Safari/537.36',
    'Samsung Internet 2.2 | Tizen 5 | tv',
  ],
  [
    'Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.79 Safari/537.36 WebAppManager',
    'WebOS Browser | WebOS | tv',
  ],
  [
    'Mozilla/5.0 (Linux; Android 9; BRAVIA 4K UR2 Build/PTT1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/96.0.4664.45 Safari/537.36',
    'Chrome 96 | Android 9 | tv',
  ],
  [
    'Mozilla/5.0 (Linux; Android 7.1.2; AFTMM Build/NS6265; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/70.0.3538.110 Mobile Safari/537.36',
    'Chrome 70 | Android 7.1 | tv',
  ],
  [
    'Mozilla/5.0 (X11; Linux armv7l) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.225 Safari/537.36 CrKey/1.56.500000 DeviceType/Chromecast',
    'Chrome 90 | Linux | tv',
  ],
  [`Mozilla/5.0 (PlayStation; PlayStation 5/2.26) ${WEBKIT} Version/13.0 Safari/605.1.15`, 'Safari 13 | | console'],
  [
    'Mozilla/5.0 (PlayStation 4 3.11) AppleWebKit/537.73 (KHTML, like Gecko)',
    'PlayStation 4 | PlayStation 4 3.11 | console',
  ],
  [
    'Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/601.6 (KHTML, like Gecko) NF/4.0.0.5.10 NintendoBrowser/5.1.0.13343',
    'Safari | | console',
  ],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/48.0.2564.82 Safari/537.36 Edge/20.02',
    'Microsoft Edge 20.02 | Windows 10 | console',
  ],
  ['Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)', 'Googlebot 2.1 | | other bot'],
  [
    `Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) ${CHROME} Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)`,
    'Googlebot 2.1 | Android 6 | other bot',
  ],
  [
    'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.1; +https://openai.com/gptbot)',
    'GPTBot 1.1 | | other bot',
  ],
  [
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0 Safari/537.36',
    'Chrome 131 | Linux | desktop bot',
  ],
  ['node', '| |'],
  ['Deno/2.1.4', '| |'],
  ['curl/8.5.0', '| | other bot'],
  ['python-requests/2.31', '| | other bot'],
  ['okhttp/4.12.0', '| | other'],
  ['MyShop/3.1 CFNetwork/1494.0.7 Darwin/23.4.0', '| | other'],
  ['Dalvik/2.1.0 (Linux; U; Android 13; Pixel 6 Build/TQ3A.230901.001)', '| Android 13 | mobile'],
  ['Dalvik/2.1.0 (Linux; U; Android 13; SM-X700 Build/TP1A.220624.014)', '| Android 13 | tablet'],
  ['Mozilla/5.0 (X11; FreeBSD amd64; rv:132.0) Gecko/20100101 Firefox/132.0', 'Firefox 132 | | desktop'],
  ['Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)', '| | other bot'],
  ['', '| |'],
]

const plain = { brands: '', mobile: '', platform: '', platformVersion: '' }

function describe(agent: Agent): string {
  const { browser = '', browser_version = '', os = '', os_version = '', device = '', bot } = readAgent(agent)
  const parts = [`${browser} ${browser_version}`, `${os} ${os_version}`, `${device}${bot ? ' bot' : ''}`]
  return parts
    .map((part) => part.trim())
    .join(' | ')
    .replace(/\| {2}\|/, '| |')
    .trim()
}

t.test('a User-Agent gives the browser, system and device', async (t) => {
  for (const [name, seen] of AGENTS) t.equal(describe({ name, ...plain }), seen, name)
})

t.test('client hints are more exact than the User-Agent', async (t) => {
  const chrome = `${WINDOWS} ${CHROME} Safari/537.36`
  const rows: [Partial<Agent>, string][] = [
    [{ platform: '"Windows"', platformVersion: '"15.0.0"' }, 'Chrome 131 | Windows 11 | desktop'],
    [{ platform: '"Windows"', platformVersion: '"10.0.0"' }, 'Chrome 131 | Windows 10 | desktop'],
    [{ brands: '"Brave";v="131", "Chromium";v="131", "Not_A Brand";v="24"' }, 'Brave 131 | Windows 10 | desktop'],
    [
      {
        brands: '"Google Chrome";v="131", "Chromium";v="131", "Not_A Brand";v="24"',
        mobile: '?0',
        platform: '"Windows"',
      },
      'Chrome 131 | Windows 10 | desktop',
    ],
    [
      {
        name: `Mozilla/5.0 (Linux; Android 10; K) ${CHROME} Mobile Safari/537.36`,
        mobile: '?1',
        platform: '"Android"',
        platformVersion: '"14.0.0"',
      },
      'Chrome 131 | Android 14 | mobile',
    ],
    [
      { name: `Mozilla/5.0 (X11; Linux x86_64) ${CHROME} Safari/537.36`, mobile: '?0', platform: '"Android"' },
      'Chrome 131 | Android | tablet',
    ],
    [
      { name: `${MAC} ${CHROME} Safari/537.36`, platform: '"macOS"', platformVersion: '"15.1.0"' },
      'Chrome 131 | macOS 15.1 | desktop',
    ],
    [{ name: `${MAC} ${WEBKIT} CriOS/131.0 Safari/605.1.15`, mobile: '?0' }, 'Chrome 131 | iOS | tablet'],
    [{ platform: '"Chromium OS"' }, 'Chrome 131 | Chrome OS | desktop'],
    [{ platform: '"constructor"' }, 'Chrome 131 | constructor | desktop'],
    [{ platform: '"__proto__"' }, 'Chrome 131 | __proto__ | desktop'],
    [
      { brands: 'nonsense"";;;', mobile: 'x', platform: '"', platformVersion: '"x"' },
      'Chrome 131 | Windows 10 | desktop',
    ],
  ]
  for (const [hints, seen] of rows) t.equal(describe({ name: chrome, ...plain, ...hints }), seen, JSON.stringify(hints))
})

t.test('only browsers and apps describe a person', async (t) => {
  for (const name of [`${WINDOWS} x`, 'okhttp/4.12.0', 'posthog-ios/3.1', 'Dart/3.2 (dart:io)'])
    t.ok(isPersonal(name), name)
  for (const name of ['', 'node', 'axios/1.7', 'posthog-node/5.7.0', 'python-requests/2.31', 'Go-http-client/2.0']) {
    t.notOk(isPersonal(name), name)
  }
})
