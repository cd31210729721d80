import type { Creation } from "./create.ts";
import { badField, type V1Error } from "./errors.ts";
import { tailOfItem, toFinalId } from "./ids.ts";
import { type Called, type InputEntry, type Reference, readInput, type Said } from "./input.ts";
import { type Format, findAgent, wantsJson } from "./models.ts";
import { type Asking, readVisible } from "./plan.ts";
import { readProgress } from "./progress.ts";
import { responsePrefix } from "./record.ts";
import { callerToolsOf, type ResponseBody } from "./request.ts";
import type { OutputItem } from "./wire.ts";

/** What the body of `POST /v1/responses` asks for. @throws V1Error naming the field that cannot be honoured */
export async function toCreation(asking: Asking, body: ResponseBody): Promise<Creation> {
  const agent = await findAgent(asking.deps, body.model);
  const format = body.text?.format as Format | null | undefined;
  const tools = callerToolsOf(body, agent.tools);
  const previous = body.previous_response_id ?? undefined;
  return {
    kind: "response",
    body,
    entries: await resolve(asking, readInput(body.input), previous !== undefined),
    items: toItems(body.input),
    wantsJson: wantsJson(agent, format, "text.format"),
    instructions: body.instructions || undefined,
    previous,
    conversation: conversationOf(body),
    tools,
    metadata: body.metadata ?? {},
    echo: toEcho(body),
  };
}

function conversationOf({ conversation }: ResponseBody): string | undefined {
  return typeof conversation === "string" ? conversation : conversation?.id;
}

function toEcho(body: ResponseBody): Creation["echo"] {
  const conversation = conversationOf(body);
  return {
    background: body.background ?? false,
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? {},
    model: body.model,
    previous_response_id: body.previous_response_id ?? null,
    conversation: conversation === undefined ? null : { id: conversation },
    text: { format: body.text?.format ?? { type: "text" } },
    tools: body.tools ?? [],
    tool_choice: body.tool_choice ?? "auto",
  };
}

/** Input items as they are listed: text as a user's message, and a message's text as its only part. */
function toItems(input: ResponseBody["input"]): Record<string, unknown>[] {
  const items = typeof input === "string" ? [{ role: "user", content: input }] : input;
  return items.map((item): Record<string, unknown> => {
    const { type = "message", role, content } = item;
    if (type !== "message" || typeof content !== "string") return { type, ...item };
    const part =
      role === "assistant"
        ? { type: "output_text", text: content, annotations: [] }
        : { type: "input_text", text: content };
    return { status: "completed", ...item, type, content: [part] };
  });
}

/** References to items of earlier responses are replaced by these. After a previous response they are known already. */
async function resolve(asking: Asking, entries: InputEntry[], isKnown: boolean): Promise<InputEntry[]> {
  const found = new Map<string, OutputItem[]>();
  const resolved: InputEntry[] = [];
  for (const entry of entries) {
    if (entry.type !== "reference") resolved.push(entry);
    else if (!isKnown) resolved.push(await findItem(asking, entry, found));
  }
  return resolved;
}

async function findItem(
  asking: Asking,
  { id, param }: Reference,
  found: Map<string, OutputItem[]>,
): Promise<Said | Called> {
  const notFound = badField(param, `Item with id '${id}' not found.`);
  const responseId = responsePrefix + (tailOfItem(id) ?? "");
  const output = found.get(responseId) ?? (await readOutput(asking, responseId, () => notFound));
  found.set(responseId, output);
  const item = output.find((other) => other.id === toFinalId(id));
  if (!item) throw notFound;
  if (item.type === "function_call")
    return { type: "call", id: item.call_id, name: item.name, arguments: item.arguments };
  const content = item.content.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join("");
  return { type: "message", role: "assistant", content };
}

async function readOutput(asking: Asking, id: string, notFound: () => V1Error): Promise<OutputItem[]> {
  const { response } = await readProgress(asking.deps, await readVisible(asking, id, notFound));
  return response.output;
}
