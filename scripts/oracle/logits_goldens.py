"""Compute transformers' results for the tiny checkpoints: last-position logits and greedy tokens in float32.

    python logits_goldens.py ../../testdata/models ../../testdata/goldens

Writes <name>.json.gz for each folder of models:

    {"model", "transformers", "torch", "eos_token_ids",
     "cases": [{"prompt": ids, "logits": [vocab] at the last prompt position,
                "tokens": greedy ids that ignore end-of-sequence, "logprobs": raw log-softmax of each of them,
                "min_gap": least difference of best and second logit over these steps,
                "finish_at": number of tokens up to and with the first end-of-sequence id, only where there is one}]}

Numbers are float32 written with enough digits to come back exactly. A file is only written if the goldens can tell
right from wrong: see check_case and check_ablations.
"""

import gzip
import json
import sys
import zlib
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.granitemoehybrid import modeling_granitemoehybrid

from ablations import ablations

# One token; around pages of 8, 16 and 32; one past a prefill chunk of 64; the longest that leaves room for as many
# more tokens as are generated.
LENGTHS = [1, 2, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96]
NEW = 64
# Checkpoints whose rope differs for sequences up to 32: transformers chooses by the length so far, Quire by the
# longest length that the model is run with.
LONG = {"phi4-mini"}
LONG_LENGTHS = [33, 34, 36, 39, 40, 41, 47, 48, 49, 55, 56, 63, 64, 65, 71, 72, 80, 88, 95, 96]
# Checkpoints with the features of another checkpoint, with which they are tested.
SAME = {"gemma3-vision", "gemma4-vision"}
# A gap this wide is hundreds of times the f32 rounding error of these models, so equal tokens may be demanded.
MIN_GAP = 2e-3


LIMITS = [0.0, float("inf")]  # of the steps of Granite 4's layers
update_state = modeling_granitemoehybrid.mamba2_selective_state_update


def update_limited(state, x, dt, *args, dt_bias, dt_softplus, **kwargs):
    """A token with a cache: transformers leaves out time_step_limit here, and has it in prompts."""
    assert dt_softplus
    dt = torch.nn.functional.softplus(dt + dt_bias).clamp(*LIMITS)
    return update_state(state, x, dt, *args, **kwargs)


modeling_granitemoehybrid.mamba2_selective_state_update = update_limited


def load(folder, config=None):
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager"
    )
    if model.config.model_type == "granitemoehybrid":
        LIMITS[:] = model.config.time_step_limit
    return model.eval()


def logits_of(model, ids):
    """Logits [len(ids), vocab] of one forward pass without a cache."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt, new):
    with torch.no_grad():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=new,
            do_sample=False,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[0, len(prompt) :].tolist()


def check_case(model, length, new, seed):
    """One golden case, or None if a greedy step is too close to call or the continuation is too dull."""
    gen = torch.Generator().manual_seed(seed)
    prompt = torch.randint(0, model.config.get_text_config().vocab_size, (length,), generator=gen).tolist()
    tokens = greedy(model, prompt, new)
    full = logits_of(model, prompt + tokens)
    steps = full[length - 1 : -1]
    if steps.argmax(-1).tolist() != tokens:
        raise SystemExit(f"greedy with and without cache differ for a prompt of {length}")
    top = steps.topk(2, dim=-1).values
    gap = (top[:, 0] - top[:, 1]).min().item()
    if gap < MIN_GAP or len(set(tokens)) < 10:
        return None
    logprobs = steps.log_softmax(-1)[torch.arange(new), torch.tensor(tokens)]
    last = logits_of(model, prompt)[-1]
    # The same positions seen by two differently shaped passes: the rounding noise a test has to allow for.
    noise = (last - steps[0]).abs().max().item()
    assert noise < 2e-5, f"rounding noise {noise}"
    case = dict(
        prompt=prompt,
        logits=[f32(x) for x in last.tolist()],
        tokens=tokens,
        logprobs=[f32(x) for x in logprobs.tolist()],
        min_gap=f32(gap),
    )
    eos = eos_of(model)
    hits = [i for i, t in enumerate(tokens) if t in eos]
    if hits:
        case["finish_at"] = hits[0] + 1
    return case


def f32(x):
    """The shortest decimal that reads back as the same float32."""
    for digits in range(6, 10):
        y = float(f"{x:.{digits}g}")
        if torch.tensor(y, dtype=torch.float32).item() == x:
            return y
    return x


def eos_of(model):
    eos = model.generation_config.eos_token_id
    return [] if eos is None else eos if isinstance(eos, list) else [eos]


def check_ablations(model, folder, cases):
    """Exit unless every feature moves the logits of the longest prompt by far more than a test's tolerance, and changes
    greedy tokens."""
    longest, tokens = cases[-1]["prompt"], cases[-1]["tokens"]
    want = logits_of(model, longest)[-1]
    report = []
    def again(settings):
        config = AutoConfig.from_pretrained(folder)
        for key, value in settings.items():
            setattr(config, key, value)
        return load(folder, config)

    for what, other in ablations(model, again):
        got = logits_of(other, longest + tokens)[len(longest) - 1 : -1]
        moved = (got[0] - want).abs().max().item()
        # Where a token differs, all before it are the same: the tokens that the other model generates differ, too.
        differ = (got.argmax(-1) != torch.tensor(tokens)).sum().item()
        report.append(f"{what} {moved:.2g}")
        if moved < 1e-2:
            raise SystemExit(f"{folder.name}: leaving out {what} moves the logits by {moved:.2g} only")
        # The largest logit stays it by these.
        if differ == 0 and what not in ("logits_scaling", "soft cap of logits"):
            raise SystemExit(f"{folder.name}: leaving out {what} changes no token")
    return report


def goldens(folder, out):
    model = load(folder)
    cases = []
    lengths, new = LONG_LENGTHS if folder.name in LONG else LENGTHS, NEW
    for length in lengths:
        for attempt in range(400):
            seed = zlib.crc32(f"{folder.name.removesuffix('-sharded')}/{length}/{attempt}".encode())
            case = check_case(model, length, new, seed)
            if case:
                cases.append(case)
                break
        else:
            raise SystemExit(f"{folder.name}: no prompt of {length} tokens passes; give the model another seed")
    # A model that generates the same for every prompt would pass too easily.
    assert len({tuple(c["tokens"][-8:]) for c in cases}) > len(cases) // 2, folder.name
    doc = dict(
        model=folder.name,
        transformers=transformers.__version__,
        torch=torch.__version__,
        eos_token_ids=eos_of(model),
        cases=cases,
    )
    text = json.dumps(doc, separators=(",", ":")) + "\n"
    (out / f"{folder.name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    spread = torch.tensor([c["logits"] for c in cases]).std().item()
    distinct = sum(len(set(c["tokens"])) for c in cases) / len(cases)
    gap = min(c["min_gap"] for c in cases)
    finish = sum("finish_at" in c for c in cases)
    print(f"{folder.name}: logits std {spread:.2f}, {distinct:.0f} distinct of {new}, gap {gap:.2g}, {finish} finish")
    if folder.name not in SAME:
        print("   without: " + ", ".join(check_ablations(model, folder, cases)), flush=True)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for folder in sorted(root.iterdir()):
        if (folder / "config.json").exists() and (not sys.argv[3:] or folder.name in sys.argv[3:]):
            goldens(folder, out)


if __name__ == "__main__":
    main()
