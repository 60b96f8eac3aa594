"""Tests of contexts with a stand-in for the command, and with the real one."""

import threading
from typing import Any

import numpy as np
import pytest

import quire
from quire import _context


@pytest.mark.usefixtures("fake")
def test_tree() -> None:
    with quire.Contexts(model="m", contexts=4, max_model_len=64) as contexts:
        assert contexts.page_size == 16
        root = contexts.new("ab")
        assert root.append([99]) == [99]
        with root.fork() as branch:
            assert branch.append("d") == [100]
            assert branch.generate(max_tokens=1)[0]["text"] == "abcd 0"
            branch.truncate(2)
            assert branch.tokens == [97, 98]
            assert len(branch) == 2
        assert root.tokens == [97, 98, 99]
        root.save("r")
        assert contexts.snapshots() == ["r"]
        assert contexts.load("r").tokens == root.tokens
        assert contexts.new()
        with pytest.raises(quire.ContextError, match="too long") as wrong:
            root.append("x" * 99)
        assert wrong.value.code == "too_long"
        assert root.tokens == [97, 98, 99]  # an error ends neither the context nor the process
    root.close()
    with pytest.raises(quire.ContextError, match="closed"):
        root.append("a")


@pytest.mark.usefixtures("fake")
def test_what_is_sent() -> None:
    with quire.Contexts(model="m") as contexts:
        root = contexts.new()
        assert root._ask("flush", name=None)["asked"] == {"op": "flush", "context": 1}
        sent = root._ask("generate", messages=[{"role": "user", "content": "é"}], stop=["\n"])["asked"]
        assert sent["messages"] == [{"role": "user", "content": "é"}] and sent["stop"] == ["\n"]
        mask = np.tri(2, 3, dtype=bool)
        logits = root.forward(np.array([1, 2]), positions=np.array([0, 5]), mask=mask)
        assert logits.dtype == np.float32 and logits.tolist() == [[0.5, -np.inf]]
        assert root.score([3, 4]).tolist() == [-3.0, -4.0]
        keys, values = root.materialize(0)
        assert keys.shape == (1, 1, 1) and values.tolist() == [[[2.0]]]


@pytest.mark.usefixtures("fake")
def test_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_context, "np", None)
    with quire.Contexts(model="m") as contexts:
        root = contexts.new("a")
        assert root.forward([1], mask=[[True]]) == [[0.5, float("-inf")]]
        assert root.score("a") == [-97.0]


@pytest.mark.usefixtures("fake")
def test_threads() -> None:
    with quire.Contexts(model="m") as contexts:
        all_contexts = [contexts.new(str(i)) for i in range(8)]

        def work(c: quire.Context, text: str) -> None:
            for _ in range(20):
                c.append(text)

        threads = [threading.Thread(target=work, args=(c, str(i))) for i, c in enumerate(all_contexts)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert [bytes(c.tokens).decode() for c in all_contexts] == [str(i) * 21 for i in range(8)]


@pytest.mark.usefixtures("fake")
def test_errors_of_the_process() -> None:
    with pytest.raises(quire.UsageError, match="did you mean --max-tokens"):
        quire.Contexts(model="unknown-flag")
    with pytest.raises(quire.QuireError, match="model.gguf"):
        quire.Contexts(model="broken")
    with pytest.raises(quire.QuireError, match="SIGKILL"):
        quire.Contexts(model="killed")
    contexts = quire.Contexts(model="dies-later")
    with pytest.raises(quire.QuireError, match="^the device is gone$"):
        contexts.new("a")
    contexts.close()
    with pytest.warns(quire.QuireWarning, match="temprature"), quire.Contexts(model="warns"):
        pass


@pytest.mark.usefixtures("fake")
def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    quire.Contexts(model="m", progress=lines.append).close()
    assert lines == ["opening m"]
    assert capfd.readouterr().err == ""


def test_real_contexts(model: str) -> None:
    rows = [{"id": "sky", "prompt": "The sky is blue, and"}]
    flags: dict[str, Any] = {"max_tokens": 8, "seed": 1, "n": 2}
    # In fewer bits forward, which is computed without kernels, rounds in other places than score.
    engine: dict[str, Any] = {"max_model_len": 256, "weights": "f32", "dtype": "f32", "kv_dtype": "f32"}
    want = quire.generate(rows, model=model, progress=False, prompt_as="raw", **engine, **flags)
    with quire.Contexts(model=model, **engine) as contexts:
        root = contexts.new("The sky is blue, and")
        got = root.generate(id="sky", **flags)
        for name in ("text", "token_ids", "finish_reason", "prompt_tokens"):
            assert [c[name] for c in got] == want[name].to_pylist()
        for c, logprobs in zip(got, want["logprobs"].to_pylist(), strict=True):
            assert np.array_equal(np.float32(c["logprobs"]), np.float32(logprobs))
        length = len(root)
        first = got[0]["token_ids"]
        scores = root.score(first)
        assert np.allclose(scores, got[0]["logprobs"], atol=1e-4)
        branch = root.fork()
        logits = branch.forward(first, logits=range(len(first)))
        assert logits.shape[0] == len(first)
        logsoftmax = logits[0] - np.log(np.exp(logits[0] - logits[0].max()).sum()) - logits[0].max()
        assert np.allclose(logsoftmax[first[1]], scores[1], atol=1e-3)
        assert branch.pages()["working_tokens"] == (length + len(first)) % contexts.page_size
        keys, values = branch.materialize(0)
        assert keys.shape == values.shape and keys.shape[0] == length + len(first)
        branch.truncate_committed(len(first))
        assert branch.tokens == root.tokens
        root.save("root")
        again = contexts.load("root").generate(id="sky", **flags)
        assert again == got
        with pytest.raises(quire.ContextError) as wrong:
            root.commit_working_pages(1)
        assert wrong.value.code == "partial_page"
        with pytest.raises(quire.ContextError, match="did you mean max_tokens"):
            root.generate(max_token=3)
