import type { Logger, ToolOutcome, ToolRequest } from "../../src/ports.ts";
import type { Tool } from "../../src/tools/define-tool.ts";
import { createToolCaller } from "../../src/tools/tool-caller.ts";

const ignore = (): void => undefined;
const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/** A request to execute one call, as the engine would make it. */
export function makeRequest(name: string, text: string, fields: Partial<ToolRequest> = {}): ToolRequest {
  return {
    runId: "run-a",
    call: { callId: "call-2-1", id: "abc", name, arguments: text },
    turn: 2,
    attempt: 1,
    idempotencyKey: "run-a-call-2-1",
    metadata: {},
    signal: new AbortController().signal,
    logger: silentLogger,
    onProgress: ignore,
    ...fields,
  };
}

/** Runs one tool with these arguments, through the caller, as a worker would. */
export function callTool(tool: Tool, args: unknown, fields: Partial<ToolRequest> = {}): Promise<ToolOutcome> {
  return createToolCaller([tool]).execute(makeRequest(tool.name, JSON.stringify(args), fields));
}

/** The text of a successful call. */
export async function textFrom(tool: Tool, args: unknown): Promise<string> {
  const outcome = await callTool(tool, args);
  if (outcome.type !== "ok" || typeof outcome.content !== "string") throw new Error(JSON.stringify(outcome));
  return outcome.content;
}
