#!/bin/sh
# Builds the parts of dist/ that are named: `service`, `clients`. npm runs it.
set -e
# npm passes a signal on to its own child only, which is this shell. A background job ignores Ctrl-C.
stop() { kill $! 2>/dev/null || :; trap - "$1"; kill -s "$1" $$; }
trap 'stop INT' INT
trap 'stop TERM' TERM
run() { "$@" & wait $!; }

for part; do
  case $part in
    service)
      run tsc -p tsconfig.build.json --noCheck
      cp -R src/journal/redis/scripts dist/journal/redis/
      chmod +x dist/cli.js
      run node src/web/build.mjs
      ;;
    clients) run node packages/build.mjs ;;
  esac
done
