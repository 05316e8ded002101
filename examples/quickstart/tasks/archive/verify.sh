#!/usr/bin/env bash
set -euo pipefail
note="${TMPDIR:-/tmp}/gevals-quickstart/archive.md"
archive="${TMPDIR:-/tmp}/gevals-quickstart/archive"
if ! grep -q "kept" "$note"; then
  echo "the note does not say that it is kept" >&2
  exit 1
fi
mv "$note" "$archive/"
