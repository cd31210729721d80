import type { ContentPart } from "../../core/message.ts";
import { isAttachment, problemsOfPart } from "../../core/parts.ts";
import { misfit, type Path, readContent } from "./content.ts";
import type { Creation } from "./create.ts";
import type { InputEntry } from "./input.ts";
import { type Format, findAgent, wantsJson } from "./models.ts";
import type { Asking } from "./plan.ts";
import { type ChatBody, chatToolsOf, toParam } from "./request.ts";

/** What the body of `POST /v1/chat/completions` asks for. @throws V1Error naming the field that cannot be honoured */
export async function toChatCreation({ deps }: Pick<Asking, "deps">, body: ChatBody): Promise<Creation> {
  const agent = await findAgent(deps, body.model);
  const given = body.response_format;
  const format: Format | undefined = given ? { type: given.type, schema: given.json_schema?.schema } : undefined;
  const tools = chatToolsOf(body, agent.tools);
  const metadata = body.metadata ?? {};
  return {
    kind: "chat",
    body,
    entries: body.messages.flatMap((message, index) => readMessage(message, ["messages", index])),
    items: [],
    wantsJson: wantsJson(agent, format, "response_format"),
    tools,
    metadata: { ...(body.user ? { user: body.user } : {}), ...metadata },
    includeUsage: body.stream_options?.include_usage === true,
    // Without tools of any kind an agent has one turn, and what it says is its answer as it comes.
    live: agent.tools.length === 0 && tools.length === 0 && !agent.output,
    echo: {
      background: false,
      instructions: null,
      metadata,
      model: body.model,
      previous_response_id: null,
      conversation: null,
      text: { format: { type: "text" } },
      tools: [],
      tool_choice: "auto",
    },
  };
}

type Message = ChatBody["messages"][number];
const roles = ["system", "developer", "user"] as const;

function readMessage(message: Message, path: Path): InputEntry[] {
  const { role, content } = message;
  if (role === "assistant") return readAssistant(message, path);
  if (role === "tool") {
    const id = text(message.tool_call_id, [...path, "tool_call_id"]);
    return [{ type: "result", id, value: readContent(content, [...path, "content"], readPart), param: toParam(path) }];
  }
  const known = roles.find((other) => other === role);
  if (!known) throw misfit([...path, "role"], "must be system, developer, user, assistant or tool");
  return [{ type: "message", role: known, content: readContent(content, [...path, "content"], readPart) }];
}

function readAssistant({ content, refusal, tool_calls: calls, ...more }: Message, path: Path): InputEntry[] {
  // Else what the assistant did would be left out of its history.
  if (more.function_call) throw misfit([...path, "function_call"], "is not taken; give tool_calls");
  if (more.audio) throw misfit([...path, "audio"], "sound is not kept here; give its text as content");
  const said = content ?? refusal;
  const says = said !== undefined && said !== null && said !== "";
  const list = Array.isArray(calls) ? (calls as unknown[]) : [];
  if (!says && list.length === 0) return [];
  return [
    ...(says
      ? [
          {
            type: "message" as const,
            role: "assistant" as const,
            content: readContent(said, [...path, "content"], readPart),
          },
        ]
      : []),
    ...list.map((call, index) => readCall(call, [...path, "tool_calls", index])),
  ];
}

function readCall(given: unknown, path: Path): InputEntry {
  const call = asRecord(given);
  const inner = asRecord(call.function);
  if (call.type !== undefined && call.type !== "function") throw misfit([...path, "type"], "must be function");
  return {
    type: "call",
    id: text(call.id, [...path, "id"]),
    name: text(inner.name, [...path, "function", "name"]),
    arguments: typeof inner.arguments === "string" ? inner.arguments : JSON.stringify(inner.arguments ?? {}),
  };
}

function readPart(given: unknown, path: Path): ContentPart {
  const part = asRecord(given);
  const type = String(part.type);
  const known = { ...part, type };
  if (type !== "text" && type !== "refusal" && !isAttachment(known)) {
    throw misfit([...path, "type"], `parts of type ${JSON.stringify(part.type)} are not taken`);
  }
  if (asRecord(part.file).file_id)
    throw misfit([...path, "file", "file_id"], "files are not kept here; give file_data");
  const [problem] = problemsOfPart(known);
  if (problem) throw misfit([...path, ...problem.path], problem.message);
  return known;
}

function text(value: unknown, path: Path): string {
  if (typeof value !== "string" || value === "") throw misfit(path, "must be text");
  return value;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
