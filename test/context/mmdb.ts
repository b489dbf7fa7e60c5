/** A value of a database: what MaxMind's format calls maps, strings, arrays and unsigned integers. */
type Value = string | number | Value[] | { [name: string]: Value }

const RECORD_BITS = 24
const BITS = 32

/** Makes an .mmdb file, as https://maxmind.github.io/MaxMind-DB/ describes it. @param places IPv4 address to record */
export function makeMmdb(places: Record<string, Value>): Buffer {
  const nodes: [left: number | null, right: number | null][] = [[null, null]]
  const data: Buffer[] = []
  let bytes = 0
  const leaves: { node: number; side: 0 | 1; offset: number }[] = []
  for (const [address, value] of Object.entries(places)) {
    const bits = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
    let node = 0
    for (let i = BITS - 1; i >= 0; i--) {
      const side = (Math.floor(bits / 2 ** i) % 2) as 0 | 1
      if (i === 0) {
        leaves.push({ node, side, offset: bytes })
        break
      }
      const pair = nodes[node] as [number | null, number | null]
      pair[side] ??= nodes.push([null, null]) - 1
      node = pair[side] as number
    }
    const encoded = encode(value)
    data.push(encoded)
    bytes += encoded.length
  }
  const tree = Buffer.alloc((nodes.length * 2 * RECORD_BITS) / 8)
  for (const [i, pair] of nodes.entries()) {
    for (const side of [0, 1] as const) {
      const leaf = leaves.find((one) => one.node === i && one.side === side)
      const record = leaf ? nodes.length + 16 + leaf.offset : (pair[side] ?? nodes.length)
      tree.writeUIntBE(record, i * 6 + side * 3, 3)
    }
  }
  const metadata = encode({
    node_count: nodes.length,
    record_size: RECORD_BITS,
    ip_version: 4,
    database_type: 'Test',
    languages: ['en'],
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1_700_000_000,
    description: {},
  })
  return Buffer.concat([
    tree,
    Buffer.alloc(16),
    ...data,
    Buffer.from('abcdef', 'hex'),
    Buffer.from('MaxMind.com'),
    metadata,
  ])
}

function encode(value: Value): Buffer {
  if (typeof value === 'string') {
    const text = Buffer.from(value)
    return Buffer.concat([control(2, text.length), text])
  }
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return Buffer.concat([control(6, 4), bytes])
  }
  if (Array.isArray(value)) return Buffer.concat([control(11, value.length), ...value.map(encode)])
  const entries = Object.entries(value)
  return Buffer.concat([control(7, entries.length), ...entries.flatMap(([name, one]) => [encode(name), encode(one)])])
}

/** The first bytes of a value: its type and size. */
function control(type: number, size: number): Buffer {
  if (size > 28) throw new RangeError('the test needs no longer values')
  return type <= 7 ? Buffer.from([(type << 5) | size]) : Buffer.from([size, type - 7])
}
