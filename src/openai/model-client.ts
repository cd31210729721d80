import type { ModelClient } from "../ports.ts";
export type ModelClientOptions = Record<string, unknown>;
export function createModelClient(_options: ModelClientOptions): ModelClient {
  throw new Error("not here yet");
}
