#!/bin/sh
# Run before `npm start`: builds what changed since the last start, wherever the compiler is installed.
if [ -x node_modules/.bin/tsc ]; then exec npm run --silent build:service; fi
if [ ! -f dist/main.js ]; then
  echo 'There is no dist/main.js. Run npm ci && npm run build first.' >&2
  exit 1
fi
