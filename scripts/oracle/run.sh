#!/bin/sh
# Make the tiny checkpoints and all goldens anew: run.sh [PYTHON] [SMOLLM2.gguf]
# See README.md for the Python environment and where the GGUF file comes from.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
testdata=$here/../../testdata
python=${1:-python}
gguf=${2:-${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}/models/SmolLM2-135M-Instruct.Q4_1.gguf}
if [ ! -f "$gguf" ]; then
	echo "run.sh: no file $gguf: run 'sample setup' first, or name the file as the second argument" >&2
	exit 1
fi
"$python" "$here/make_tiny_models.py" "$testdata/models"
"$python" "$here/logits_goldens.py" "$testdata/models" "$testdata/goldens"
"$python" "$here/smollm2_goldens.py" "$gguf" "$testdata/goldens"
"$python" "$here/config_goldens.py" "$here/../../models/testdata/configs.json"
"$python" "$here/gguf_goldens.py" "$testdata/models" "$gguf" "$here/../../models/testdata"
