import { isProblem, type Row } from "./rows.ts";

// Requests for the endpoints that OpenAI's clients use, whose fields this server's own document does not list.

const json = "Content-Type: application/json";

/** Values that none of the fields of that kind can have. */
const bad = {
  text: [null, 42, {}, []],
  texts: [42, true, "x"],
  flag: [42, "yes", {}, []],
  object: [42, "x", []],
  list: [42, "x", {}, [42], [null]],
  input: [null, 42, true, {}, [], "", [42], [null], [{}], [{ role: "nobody", content: "x" }], [{ role: "user" }]],
};

const responses: Record<string, readonly unknown[]> = {
  model: [...bad.text, "", "nobody", "x".repeat(10_000), "../echo", "__proto__"],
  input: bad.input,
  instructions: [42, {}, []],
  metadata: bad.object,
  stream: bad.flag,
  background: bad.flag,
  tools: bad.list,
  previous_response_id: [42, {}, "resp_nobody", "../resp", "resp_\u0000", "__proto__"],
  conversation: [42, []],
  text: [42, [], { format: 42 }, { format: { type: "yaml" } }],
};

const completions: Record<string, readonly unknown[]> = {
  model: responses.model ?? [],
  messages: [null, 42, "x", {}, [], [42], [{}], [{ role: "nobody", content: "x" }], [{ role: "tool", content: "x" }]],
  stream: bad.flag,
  tools: bad.list,
  response_format: [42, "json", { type: "yaml" }],
};

/** Bodies with one field that cannot be. */
export function v1FieldRows(auth: string): Row[] {
  const make = (path: string, good: object, fields: Record<string, readonly unknown[]>): Row[] =>
    Object.entries(fields).flatMap(([name, values]) =>
      values.map((value): Row => {
        const body = JSON.stringify({ ...good, [name]: value });
        return {
          what: `POST ${path} with ${body.slice(0, 120)}`,
          send: { method: "POST", path, headers: [auth, json], body },
          status: [400, 404, 422],
          also: isProblem,
        };
      }),
    );
  return [
    ...make("/v1/responses", { model: "echo", input: "x", background: true }, responses),
    ...make("/v1/chat/completions", { model: "echo", messages: [{ role: "user", content: "x" }] }, completions),
  ];
}

/** A response of somebody else, in each way it can be named. */
export function v1ForeignRows(id: string, auth: string): Row[] {
  const ask = (method: string, path: string, body?: object): Row => ({
    what: `${method} ${path} of another tenant`,
    send: { method, path, headers: [auth, json], ...(body ? { body: JSON.stringify(body) } : {}) },
    status: [400, 404],
    also: (answer) => (/secret-of-beta/.test(answer.all) ? "it tells what was asked" : isProblem(answer)),
  });
  return [
    ask("GET", `/v1/responses/${id}`),
    ask("GET", `/v1/responses/${id}?stream=true`),
    ask("GET", `/v1/responses/${id}?stream=true&starting_after=0`),
    ask("GET", `/v1/responses/${id}/input_items`),
    ask("POST", `/v1/responses/${id}/cancel`, {}),
    ask("DELETE", `/v1/responses/${id}`),
    ask("POST", "/v1/responses", { model: "echo", input: "x", background: true, previous_response_id: id }),
  ];
}
