// Loaded before each test: what a test starts is started as users start it. tap would load its own modules into every
// Node.js process below the test, to learn which files it reads: half of the CPU time of a command, and of use for coverage
// only, which `npm run coverage` measures with c8.
globalThis[Symbol.for('process-on-spawn@*:singletonId')]?.unwrap()
// A forked process would get these, too.
process.execArgv.splice(0)
