"""Compute transformers' results for SmolLM2-135M-Instruct (the GGUF file Quire's demo runs), in float32.

    python smollm2_goldens.py SmolLM2-135M-Instruct.Q4_1.gguf ../../testdata/goldens

transformers reads the GGUF file and dequantizes it; before anything is run, every tensor is compared with what the
gguf package makes of the same bytes. Writes smollm2.json.gz:

    {"model", "transformers", "torch", "weights_sha256", "eos_token_ids",
     "cases": [{"text" as fed to the tokenizer, "messages" (chat prompts only: text is their rendered form),
                "prompt": ids, "top_ids" and "top_logits": the 20 highest at the last prompt position,
                "tokens": 64 greedy ids that ignore end-of-sequence, "logprobs": raw log-softmax of each of them,
                "min_gap": least difference of best and second logit over the 64 steps,
                "finish_at": number of tokens up to and with the first end-of-sequence id, only where there is one}]}
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import gguf
import jinja2
import numpy as np
import tokenizers
import torch
import transformers
from transformers import AutoModelForCausalLM

NEW = 64
TOP = 20
# Greedy steps closer than this are not required of an engine that sums in a different order. About ten times the
# largest difference seen between transformers' own cached and uncached passes.
MIN_GAP = 5e-3

# Exact prompt lengths, around pages of 8, 16 and 32 and prefill chunks of 64, 128 and 256; the last is many chunks.
PLAIN = [1, 7, 8, 9, 15, 16, 17, 31, 63, 65, 127, 255]
CHAT = [32, 33, 64, 128, 129, 256, 257, 600]
# Chats whose reply must end (in an end-of-sequence id) within the golden tokens.
ENDING = [64, 256]
# A continuation that only repeats itself would test little.
MIN_DISTINCT = 16

# Prose, code, digits, lists, other scripts, odd white space: the pieces that prompts are cut from.
TEXTS = [
    "Once upon a time there was a lighthouse keeper who had never seen the sea. Every evening she climbed the stairs, "
    "lit the lamp and listened to the waves, for the fog in that bay was so thick that nothing else could be known of "
    "the water. The sailors sent her letters. They thanked her for the light and asked what the village looked like, "
    "because they had never seen the land.\n\nOne winter the fog went away for a single day, and",
    "def fibonacci(n: int) -> int:\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n        return "
    "n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n\ndef is_prime(n: int) -> bool:\n    \"\"\"Report whether "
    "n is a prime number.\"\"\"\n    for d in range(2, int(n ** 0.5) + 1):\n        if n % d == 0:\n            "
    "return False\n    return n > 1\n\n\ndef factorial(n: int) -> int:\n",
    "The Treaty of Westphalia was signed in 1648 and ended the Thirty Years' War. The population of Münster was then "
    "about 10,500; 375 years later it is 317,713. Prices: $3.99, €12.50, £1,024.00. Temperatures of -40 °C equal -40 "
    "°F. The first 20 digits of pi are 3.1415926535897932384, and those of e are 2.7182818284590452353. In summary,",
    "To make a good vegetable soup you need:\n\n1. Two onions, chopped\n2. Three carrots\n3. A stick of celery\n"
    "4. One litre of stock\n5. Salt, pepper and thyme\n\nHeat the oil in a large pot. Add the onions and cook them "
    "slowly for ten minutes, until they are soft but not brown. Then",
    "Bonjour, je m'appelle Claire et j'habite à Lyon. 我喜欢在早上喝茶。 Guten Morgen! ¿Dónde está la biblioteca? "
    "こんにちは、元気ですか。 Привет, как дела? 😀🚀 Each of these sentences is written in a different language. The first "
    "one is in French, the second one is in",
    "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n\tif len(os.Args) < 2 {\n\t\tfmt.Fprintln(os."
    "Stderr, \"usage: hello NAME\")\n\t\tos.Exit(2)\n\t}\n\tfmt.Printf(\"Hello, %s!\\n\", os.Args[1])\n}\n\n// The "
    "program above",
    "Water boils when its vapour pressure equals the pressure of the air around it. On a high mountain the air is "
    "thin, so water boils at a lower temperature there, and food takes longer to cook. In a pressure cooker the "
    "opposite happens: steam cannot leave, the pressure rises, and the water grows hotter than it could in an open "
    "pot. This is why beans that need two hours",
    "Dear Ms. Okafor,\n\nThank you for your letter of 14 March. We have looked into the delay of your order (no. "
    "2024-00731) and found that the parcel was sent to our depot in Leeds by mistake. It left there this morning and "
    "should reach you by Friday. As an apology we",
]

QUESTIONS = [
    "What is the capital of France, and what is it known for?",
    "Explain in simple words why the sky is blue.",
    "Write a short poem about a robot that learns to paint.",
    "Give me three tips for sleeping better.",
    "Summarize the following text in one sentence.",
    "Translate the sentence 'Where is the train station?' into French.",
    "What does the following text talk about? Answer with a list.",
    "Rewrite this so that a child of eight understands it.",
]


def read_gguf(path):
    """Metadata and dequantized tensors, in Hugging Face names and orientation, by the gguf package alone."""
    reader = gguf.GGUFReader(path)
    meta = {k: f.contents() for k, f in reader.fields.items()}
    heads = {"attn_q": meta["llama.attention.head_count"], "attn_k": meta["llama.attention.head_count_kv"]}
    names = {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    tensors = {}
    for t in reader.tensors:
        data = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        stem = t.name.removesuffix(".weight")
        layer = ""
        if stem.startswith("blk."):
            _, index, stem = stem.split(".")
            layer = f"model.layers.{index}."
        if stem in heads:
            # GGUF interleaves each head's rotary pairs; Hugging Face keeps the two halves separate.
            rows, cols = data.shape
            data = data.reshape(heads[stem], rows // heads[stem] // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)
        tensors[f"{layer}{names[stem]}.weight"] = data
    return meta, tensors


def make_tokenizer(meta):
    """SmolLM2's tokenizer: digits one by one, byte-level BPE, no space put in front."""
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    tok = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tok.decoder = tokenizers.decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == gguf.TokenType.CONTROL]
    tok.add_special_tokens(control)
    assert tok.get_vocab_size() == len(tokens)
    return tok


def check_weights(model, tensors):
    state = model.state_dict()
    state.pop("lm_head.weight")  # tied
    assert state.keys() == tensors.keys(), state.keys() ^ tensors.keys()
    digest = hashlib.sha256()
    for name in sorted(tensors):
        assert np.array_equal(state[name].numpy(), tensors[name]), f"{name} differs from the gguf package's"
        digest.update(np.ascontiguousarray(tensors[name], "<f4"))
    return digest.hexdigest()


def check_sense(model, tok):
    """Exit unless the model predicts English well: a wrong rotary layout or tokenizer would not."""
    ids = tok.encode(TEXTS[6]).ids
    with torch.no_grad():
        loss = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.item()
    print(f"loss on a paragraph of English: {loss:.2f} nats a token", flush=True)
    if loss > 4:
        raise SystemExit("the model does not understand English: its weights or tokens were read wrongly")


def plain_prompts(tok, length):
    """Texts of exactly so many tokens, one after another. Each length starts with another of TEXTS."""
    first = PLAIN.index(length)
    for turn in range(4 * len(TEXTS)):
        pieces = TEXTS[(turn + first) % len(TEXTS) :] + TEXTS
        ids = tok.encode("\n\n".join(pieces)).ids[:length]
        text = tok.decode(ids, skip_special_tokens=False)
        if turn >= len(TEXTS):
            # Later turns start further into the text.
            text = text[text.find(" ", 20 * (turn // len(TEXTS))) :]
        ids = tok.encode(text).ids
        if len(ids) == length and "\ufffd" not in text:
            yield dict(text=text, prompt=ids)


def chat_prompts(tok, template, length):
    """Chats whose rendered form has exactly so many tokens: a question, and text to make up the length."""
    first = CHAT.index(length)
    for turn in range(4 * len(QUESTIONS)):
        question = QUESTIONS[(turn + first) % len(QUESTIONS)]
        messages = [dict(role="user", content=question)]
        if turn % 3 == 1 or length < 40:
            messages.insert(0, dict(role="system", content="Be brief."))
        if turn % 3 == 2 and length > 100:
            messages = [
                dict(role="user", content="Hello!"),
                dict(role="assistant", content="Hello! How can I help you today?"),
            ] + messages
        filler = tok.encode("\n\n".join(TEXTS[(turn + 3 * first) % len(TEXTS) :] + TEXTS)).ids
        have = len(tok.encode(template.render(messages=messages, add_generation_prompt=True)).ids)
        for more in range(max(0, length - have - 4), length - have + 1):
            content = question + ("\n\n" + tok.decode(filler[:more]) if more else "")
            chat = messages[:-1] + [dict(role="user", content=content)]
            text = template.render(messages=chat, add_generation_prompt=True)
            ids = tok.encode(text).ids
            if len(ids) == length and "\ufffd" not in text:
                yield dict(text=text, messages=chat, prompt=ids)
                break


def greedy_case(model, eos, case):
    """The case with its goldens, or None if a greedy step is too close to call or the continuation too dull."""
    prompt = case["prompt"]
    with torch.no_grad():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=NEW,
            do_sample=False,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        tokens = out.sequences[0, len(prompt) :].tolist()
        steps = torch.cat(out.logits)
        top = steps.topk(2, dim=-1).values
        gap = (top[:, 0] - top[:, 1]).min().item()
        hits = [i for i, t in enumerate(tokens) if t in eos]
        if gap < MIN_GAP or len(set(tokens)) < MIN_DISTINCT or (len(prompt) in ENDING and not hits):
            return None
        full = model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    if full.argmax(-1).tolist() != tokens:
        raise SystemExit(f"greedy with and without cache differ for a prompt of {len(prompt)}")
    logprobs = steps.log_softmax(-1)[torch.arange(NEW), torch.tensor(tokens)]
    best = steps[0].topk(TOP)
    case |= dict(
        top_ids=best.indices.tolist(),
        top_logits=best.values.tolist(),
        tokens=tokens,
        logprobs=logprobs.tolist(),
        min_gap=gap,
    )
    if hits:
        case["finish_at"] = hits[0] + 1
    noise = (full - steps).abs().max().item()
    return case, noise


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    meta, tensors = read_gguf(path)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    digest = check_weights(model, tensors)
    tok = make_tokenizer(meta)
    check_sense(model, tok)
    template = jinja2.Template(meta["tokenizer.chat_template"])
    eos = [meta["tokenizer.ggml.eos_token_id"]]
    cases = []
    for length in sorted(PLAIN + CHAT):
        prompts = plain_prompts(tok, length) if length in PLAIN else chat_prompts(tok, template, length)
        for prompt in prompts:
            found = greedy_case(model, eos, prompt)
            if found:
                case, noise = found
                cases.append(case)
                print(
                    f"{length:4d} gap {case['min_gap']:.3f} noise {noise:.1e} finish {case.get('finish_at')} "
                    f"{tok.decode(case['tokens'])!r:.100}",
                    flush=True,
                )
                break
            print(f"{length:4d} next text", flush=True)
        else:
            raise SystemExit(f"no prompt of {length} tokens will do")
    doc = dict(
        model=path.name,
        transformers=transformers.__version__,
        torch=torch.__version__,
        weights_sha256=digest,
        eos_token_ids=eos,
        cases=cases,
    )
    text = json.dumps(doc, separators=(",", ":"), ensure_ascii=False) + "\n"
    (out / "smollm2.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
