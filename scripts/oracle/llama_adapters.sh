#!/bin/sh
# Writes testdata/gguf-adapters/NAME.gguf as llama.cpp's own converter makes them of the folders:
# llama_adapters.sh LLAMA.CPP [PYTHON]. "bench/peers/setup.sh llama" fetches LLAMA.CPP, the source.
set -eu
llama=$(cd "$1" && pwd)
python=${2:-python}
cd "$(dirname "$0")/../.."
for name in llama3 phi3 glm4 gemma3; do
	PYTHONPATH=$llama/gguf-py:$llama "$python" "$llama/convert_lora_to_gguf.py" --base "testdata/models/$name" \
		--outtype f32 --outfile "testdata/gguf-adapters/$name.gguf" "testdata/adapters/$name"
done
