"""Checks files of OpenAI's batch API against the types of the `openai` package.

    python check.py --requests batch.jsonl --responses out/part-00000.openai.jsonl

Every response line has to be one that the package's types take, without a conversion of any value; members that the
types do not know have to be those of KNOWN. Exits with 1 and one line for each fault.
"""

import argparse
import base64
import json
import struct
import sys

import openai
from openai.types import Completion, CreateEmbeddingResponse, EmbeddingCreateParams
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as ChatParams
from openai.types.completion_create_params import CompletionCreateParamsNonStreaming as TextParams
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter

# Members that Quire writes and OpenAI does not: see docs/openai.md.
KNOWN = {
    "completion_tokens_by_choice", "token_ids", "prompt_token_ids", "prompt_logprobs", "reasoning", "reasoning_content"}
BODIES = {"chat.completion": ChatCompletion, "text_completion": Completion}
PARAMS = {"/v1/chat/completions": ChatParams, "/v1/completions": TextParams,
          "/v1/embeddings": EmbeddingCreateParams}


def unknown(value):
    """Yields the members of a parsed value that its types do not have."""
    if isinstance(value, BaseModel):
        yield from value.model_extra or {}
        for name in type(value).model_fields:
            yield from unknown(getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from unknown(item)


def faults_of_vectors(body, usage):
    for vector in body["data"]:
        if isinstance(vector["embedding"], str):  # which the package decodes
            raw = base64.b64decode(vector["embedding"], validate=True)
            vector["embedding"] = list(struct.unpack(f"<{len(raw) // 4}f", raw))
    parsed = CreateEmbeddingResponse.model_validate(body, strict=True)
    for name in unknown(parsed):
        yield f"{name} is no member of CreateEmbeddingResponse"
    if [v.index for v in parsed.data] != list(range(len(parsed.data))):
        yield "the vectors are not numbered in order"
    if parsed.usage.total_tokens != parsed.usage.prompt_tokens:
        yield "the usage does not add up"
    usage[0] += parsed.usage.prompt_tokens


def faults_of_body(body, usage):
    if body["object"] == "list":
        yield from faults_of_vectors(body, usage)
        return
    model = BODIES[body["object"]]
    parsed = model.model_validate(body, strict=True)
    for name in unknown(parsed):
        if name not in KNOWN:
            yield f"{name} is no member of {model.__name__}"
    if [c.index for c in parsed.choices] != list(range(len(parsed.choices))):
        yield "the choices are not numbered in order"
    u = parsed.usage
    if u.total_tokens != u.prompt_tokens + u.completion_tokens:
        yield "the usage does not add up"
    if len(parsed.choices) > 1 and sum(u.completion_tokens_by_choice) != u.completion_tokens:
        yield "the tokens of the choices do not add up"
    usage[0] += u.prompt_tokens
    usage[1] += u.completion_tokens


def faults_of_response(line, ids, usage):
    if set(line) != {"id", "custom_id", "response", "error"}:
        yield f"its members are {sorted(line)}"
        return
    if line["id"] in ids:
        yield f"the id {line['id']} is there twice"
    ids.add(line["id"])
    response = line["response"]
    if set(response) != {"status_code", "request_id", "body"} or line["error"] is not None:
        yield "its response has other members, or there is an error beside it"
    elif response["status_code"] == 200:
        yield from faults_of_body(response["body"], usage)
    else:
        error = ErrorObject.model_validate(response["body"]["error"], strict=True)
        if not error.message or error.type not in ("invalid_request_error", "server_error"):
            yield f"its error is {error}"


def faults_of_request(line):
    params = PARAMS.get(line["url"])
    if params:
        TypeAdapter(params).validate_python(line["body"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", nargs="*", default=[])
    parser.add_argument("--responses", nargs="*", default=[])
    args = parser.parse_args()
    faults, lines, ids, usage = 0, 0, set(), [0, 0]
    for name in args.requests + args.responses:
        for number, text in enumerate(open(name, encoding="utf-8"), 1):
            lines += 1
            try:
                line = json.loads(text)
                found = list(
                    faults_of_response(line, ids, usage) if name in args.responses else faults_of_request(line) or [])
            except Exception as e:
                found = [str(e)]
            for what in found:
                faults += 1
                print(f"{name} line {number}: {what}")
    print(
        f"{lines} lines, {usage[0]} tokens of prompts, {usage[1]} generated, {faults} faults; openai "
        f"{openai.__version__}")
    sys.exit(faults > 0)


main()
