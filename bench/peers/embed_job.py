"""Texts to vectors with another engine: embed_job.py PEER FOLDER DTYPE TEXTS THREADS

PEER is sentence-transformers, onnx, infinity or vllm; FOLDER is a model of sentence-transformers; DTYPE is float32 or
bfloat16; TEXTS has one text a line. The model is loaded and warmed up first. Prints one JSON object as its last line:
seconds of the clock and of processors for all texts, and the first numbers of the first vector.
"""

import asyncio
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def sentence_transformers(folder, dtype, threads, backend="torch"):
    """Batches of 32 texts, which it sorts by length."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    options = {"model_kwargs": {"torch_dtype": dtype}}
    if backend == "onnx":
        import onnxruntime

        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = threads
        options = {"model_kwargs": {"export": True, "session_options": session}}
    model = SentenceTransformer(folder, device="cpu", backend=backend, **options)
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)


def infinity(folder, dtype, threads):
    """Its engine without its server."""
    import torch
    from infinity_emb import AsyncEmbeddingEngine, EngineArgs

    torch.set_num_threads(threads)
    engine = AsyncEmbeddingEngine.from_args(EngineArgs(
        model_name_or_path=folder, engine="torch", device="cpu", dtype=dtype, batch_size=32,
        bettertransformer=False, compile=False, model_warmup=False))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.astart())

    async def embed(texts):
        vectors, _ = await engine.embed(sentences=texts)
        return vectors
    return lambda texts: loop.run_until_complete(embed(texts))


def vllm(folder, dtype, threads):
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    from vllm import LLM

    llm = LLM(model=folder, runner="pooling", dtype=dtype, max_num_seqs=64)
    tokenizer = llm.get_tokenizer()
    limit = llm.llm_engine.model_config.max_model_len

    def run(texts):
        ids = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
        return [out.outputs.embedding for out in llm.embed([{"prompt_token_ids": i} for i in ids], use_tqdm=False)]
    return run


def main(peer, folder, dtype, path, threads):
    with open(path) as f:
        texts = [line.rstrip("\n") for line in f]
    run = {
        "sentence-transformers": sentence_transformers,
        "onnx": lambda *at: sentence_transformers(*at, backend="onnx"),
        "infinity": infinity,
        "vllm": vllm,
    }[peer](folder, dtype, threads)
    run(texts[:64])
    wall, cpu = time.perf_counter(), time.process_time()
    vectors = run(texts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"seconds": wall, "processor_seconds": cpu, "first": [float(x) for x in vectors[0][:4]]}),
        flush=True)
    os._exit(0)  # infinity's threads do not end


if __name__ == "__main__":
    folder, path = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[4])
    with tempfile.TemporaryDirectory() as work:  # for what an export leaves
        os.chdir(work)
        main(sys.argv[1], folder, sys.argv[3], path, int(sys.argv[5]))
