import t from 'tap'
import { acceptedFormat } from '../../src/http/accept.js'

t.test('acceptedFormat returns the format that an Accept header prefers', async (t) => {
  const wanted: [accept: string | undefined, format: string][] = [
    [undefined, 'json'],
    ['', 'json'],
    ['*/*', 'json'],
    ['application/json', 'json'],
    ['application/*', 'json'],
    ['application/json, text/plain, */*', 'json'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8', 'json'],
    ['text/html', 'json'],
    ['nonsense', 'json'],
    [', ,;', 'json'],
    ['application/x-ndjson', 'ndjson'],
    ['application/ndjson', 'ndjson'],
    ['application/jsonl', 'ndjson'],
    ['APPLICATION/X-NDJSON ; charset=UTF-8', 'ndjson'],
    ['text/csv', 'csv'],
    ['text/csv; header=present', 'csv'],
    ['text/*', 'csv'],
    ['application/vnd.apache.parquet', 'parquet'],
    ['application/x-parquet', 'parquet'],
    ['text/csv, */*', 'csv'],
    ['text/csv, */*;q=0.1', 'csv'],
    ['text/csv;q=0.5, */*', 'json'],
    ['text/csv;q=0.5, application/x-ndjson;q=0.9, application/json;q=0.8', 'ndjson'],
    ['text/csv, application/json', 'csv'],
    ['application/json, text/csv', 'json'],
    ['application/json;q=0, */*', 'ndjson'],
    ['application/json;q=0', 'json'],
    ['text/csv;q=0, application/x-ndjson;q=0.001', 'ndjson'],
    ['text/csv;q=1.000, application/json;q=0.999', 'csv'],
    ['text/csv; Q = 0.2, application/json;q=0.1', 'csv'],
    ['text/csv;q=2, application/x-ndjson;q=x, application/vnd.apache.parquet;q=0.1', 'parquet'],
    ['text/*;q=0.9, text/csv;q=0.1, application/x-ndjson;q=0.5', 'ndjson'],
  ]
  for (const [accept, format] of wanted) t.equal(acceptedFormat(accept), format, accept ?? 'no header')
})
