#!/bin/sh
# Makes the tiny checkpoints, all goldens and the fixtures made by other tools again: run.sh [PYTHON] [SMOLLM2.gguf]
# See README.md for the Python environment and where the GGUF file comes from.
set -eu
python=$(command -v "${1:-python}") || {
	echo "run.sh: no Python at ${1:-python}: make the environment that README.md describes" >&2
	exit 1
}
gguf=${2:-${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}/models/SmolLM2-135M-Instruct.Q4_1.gguf}
if [ ! -f "$gguf" ]; then
	echo "run.sh: no file $gguf: run 'sample setup' first, or name the file as the second argument" >&2
	exit 1
fi
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
gguf=$(cd "$(dirname "$gguf")" && pwd)/$(basename "$gguf")
cd "$(dirname "$0")/../.."
oracle() {
	script=$1
	shift
	"$python" "scripts/oracle/$script" "$@"
}
oracle make_tiny_models.py testdata/models
oracle tiny_encoders.py testdata/encoders
oracle tiny_late.py testdata/encoders
oracle tiny_gte.py testdata/encoders
oracle tiny_classifiers.py testdata/classifiers
oracle logits_goldens.py testdata/models testdata/goldens
oracle smollm2_goldens.py "$gguf" testdata/goldens
oracle adapter_goldens.py testdata/models testdata/adapters testdata/goldens/adapters.json.gz
oracle experts_goldens.py testdata/models testdata/goldens
oracle hidden_goldens.py testdata/models testdata/goldens
oracle trainer_goldens.py testdata/models testdata/goldens
oracle config_goldens.py models/testdata/configs.json
oracle gguf_goldens.py testdata/models "$gguf" models/testdata
oracle clip_goldens.py testdata/models testdata/goldens models/testdata/olmoe-clip.json
oracle rounded_goldens.py testdata/models models/testdata
oracle quantized_goldens.py testdata/quantized
oracle sampling_goldens.py ops/sampling/testdata/huggingface.json
oracle processors_goldens.py ops/sampling/testdata/processors.json
oracle norepeat_goldens.py ops/sampling/testdata/norepeat.json
oracle typical_goldens.py ops/sampling/testdata/typical.txt
oracle rows_goldens.py ops/sampling/testdata/rows.txt
oracle tokenizer_goldens.py "$gguf"
oracle tokenizer_more_goldens.py
oracle pair_goldens.py text/tokenizer/testdata
oracle span_goldens.py text/tokenizer/testdata
oracle chat_goldens.py
oracle jinja_goldens.py
oracle parquet_fixtures.py
oracle arrow_fixtures.py
oracle collect_templates.py
oracle template_goldens.py
