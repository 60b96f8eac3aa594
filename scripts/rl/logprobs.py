"""Compares the log-probabilities of an output of Quire with those that a trainer computes: docs/rl.md.

    logprobs.py OUT MODEL [--dtype float32] [--temperature T] [--within 2e-5]

OUT has the columns logprobs and prompt_token_ids, and processed_logprobs if --temperature is given. The exit code is 1
if one differs by more than --within.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM

import quire


def load(folder, dtype=torch.float32):
    """A model as the comparison needs it: the weights' dtype given, attention that adds up in float32, no dropout."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def token_logits(model, prompt, tokens):
    """Logits f32[tokens, vocabulary] that the tokens of a completion are sampled from: one pass, without a cache."""
    ids = torch.tensor([prompt + tokens], device=model.device)
    return model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()


def token_logprobs(model, prompt, tokens, temperature=1.0):
    """What Quire has in logprobs or, with the row's temperature and no filter, in processed_logprobs."""
    logits = token_logits(model, prompt, tokens) / temperature
    chosen = torch.tensor(tokens, device=logits.device)[:, None]
    return logits.log_softmax(-1).gather(1, chosen)[:, 0]


def main():
    args = argparse.ArgumentParser(description="Compares log-probabilities of an output with PyTorch's.")
    args.add_argument("output")
    args.add_argument("model", help="the folder of the checkpoint")
    args.add_argument("--dtype", default="float32", help="of weights and activations in PyTorch")
    args.add_argument("--temperature", type=float, help="compare processed_logprobs of a job with this temperature")
    args.add_argument("--within", type=float, default=2e-5)
    o = args.parse_args()
    column = "processed_logprobs" if o.temperature else "logprobs"
    rows = quire.read(o.output).select(["prompt_token_ids", "token_ids", column]).to_pylist()
    model = load(o.model, getattr(torch, o.dtype))
    differences = []
    with torch.no_grad():
        for row in rows:
            mine = token_logprobs(model, row["prompt_token_ids"], row["token_ids"], o.temperature or 1.0)
            differences.append((mine - torch.tensor(row[column])).abs())
    all_of_them = torch.cat(differences)
    print(f"{len(all_of_them)} tokens: {column} differ by {all_of_them.max():.2g} at most, {all_of_them.mean():.2g} on "
          f"average")
    raise SystemExit(int(not all_of_them.max() <= o.within))


if __name__ == "__main__":
    main()
