"""A loop of reinforcement learning: Quire generates, PyTorch trains, and Quire takes the new weights while it runs.

    grpo.py MODEL FOLDER [--steps 8]

MODEL is the folder of a checkpoint, FOLDER is where the checkpoints go that the loop trains. The reward is a function
of a completion's tokens, the loss is GRPO's. docs/rl.md describes what the columns are for.
"""

import argparse
import random
import threading
from pathlib import Path

import torch
from logprobs import load, token_logprobs

import quire

COLUMNS = ["prompt_token_ids", "weights_version"]
CLIP = 0.2


def reward(tokens):
    """The share of small tokens: what a tiny random model can learn in a few steps."""
    return sum(token < 64 for token in tokens) / len(tokens)


def publish(policy, folder, step):
    """Hands weights over: the folder first, then the empty file that tells that it is whole."""
    policy.save_pretrained(folder / f"step-{step}")
    (folder / f"step-{step}.ready").touch()


def loss_of(policy, group):
    """GRPO's loss of the completions of one prompt, and how far the ratios are from 1."""
    rewards = torch.tensor([reward(row["token_ids"]) for row in group])
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    losses, off = [], 0.0
    for row, advantage in zip(group, advantages):
        mine = token_logprobs(policy, row["prompt_token_ids"], row["token_ids"])
        ratio = (mine - torch.tensor(row["logprobs"])).exp()  # to the weights that generated the tokens, whichever
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        losses.append(-torch.minimum(ratio * advantage, clipped * advantage).mean())
        off = max(off, (ratio - 1).abs().max().item())
    return torch.stack(losses).mean(), rewards.mean().item(), off


def train(model, folder, *, steps=8, prompts=8, n=8, tokens=16, rate=1e-2, **flags):
    """Trains, and yields for each step the mean reward, how far ratios were from 1, and the versions of the weights."""
    policy = load(model).train()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=rate)
    draw = random.Random(1)
    go = threading.Semaphore(1)

    def rows():  # the prompts of a step, as soon as the weights of the last one are there
        for step in range(steps):
            go.acquire()
            for i in range(prompts):
                yield {"id": f"{step}/{i}", "prompt_token_ids": [draw.randrange(6, 256) for _ in range(8)]}

    rollouts = quire.stream(rows(), lazy=True, model=model, watch=folder, on_swap="finish", n=n, max_tokens=tokens,
                            ignore_eos=True, temperature=1, columns=COLUMNS, **flags)
    groups, step = {}, 0
    for row in rollouts:
        groups.setdefault(row["id"], []).append(row)
        if len(groups) < prompts or any(len(group) < n for group in groups.values()):
            continue
        found = [loss_of(policy, group) for group in groups.values()]
        optimizer.zero_grad()
        torch.stack([loss for loss, _, _ in found]).mean().backward()
        optimizer.step()
        step += 1
        publish(policy, folder, step)
        versions = {row["weights_version"] for group in groups.values() for row in group}
        yield sum(mean for _, mean, _ in found) / prompts, max(off for _, _, off in found), versions
        groups = {}
        go.release()


def main():
    args = argparse.ArgumentParser(description="Trains a model with rollouts of Quire.")
    args.add_argument("model")
    args.add_argument("folder", type=Path)
    args.add_argument("--steps", type=int, default=8)
    o = args.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    for step, (mean, off, versions) in enumerate(train(o.model, o.folder, steps=o.steps)):
        print(f"step {step}: reward {mean:.3f}, ratios within {off:.2g} of 1, weights {', '.join(sorted(versions))}")


if __name__ == "__main__":
    main()
