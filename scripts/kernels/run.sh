#!/bin/sh
# Makes the embedded payloads and the goldens again: run.sh PYTHON. Takes about an hour on one core.
set -eu
cd "$(dirname "$0")"
python=$1
common=$(mktemp)
trap 'rm -f "$common"' EXIT
"$python" common.py >"$common"
zstd -q -19 --long=27 -f "$common" -o ../../backend/xla/mosaic/payloads/common.zst
"$python" goldens.py
"$python" goldens_update.py
"$python" arrays.py
