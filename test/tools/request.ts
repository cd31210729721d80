import type { Logger, ToolRequest } from "../../src/ports.ts";

const ignore = (): void => undefined;
export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

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
