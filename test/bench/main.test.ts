import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'

t.test('the benchmarks can be compiled and started', async (t) => {
  // Without the build before it, which other tests use at the same time.
  const command = ['run', '--silent', '--ignore-scripts', 'bench', '--', '--help']
  const { stdout } = await promisify(execFile)('npm', command)
  t.match(stdout, /^npm run bench -- \[track\|batch/)
})
