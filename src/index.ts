// The public surface, by name. A test pins it.
export type { BreakerPolicy, Effect, FleetLimits, Limits, RateLimit, RetryPolicy, ToolSpec } from "./core/agent.ts";
export type { AuditEntry } from "./core/audit.ts";
export type { DescribedCall } from "./core/described.ts";
export type { Durability } from "./core/durability.ts";
export { DroverError, type ErrorCode, PermanentError, RetryableError } from "./core/errors.ts";
export type { FeedEntry } from "./core/event.ts";
export type { RunFeedEvent } from "./core/feed.ts";
export type { OperatorLimits } from "./core/fleet-limits.ts";
export type { PauseAllOptions } from "./core/fleet-pause.ts";
export type { Content, ContentPart, InputMessage, Message, ToolCall } from "./core/message.ts";
export type { Policy, PolicyRule } from "./core/policy.ts";
export type { TurnPage, TurnView } from "./core/report.ts";
export type { Retention } from "./core/retention.ts";
export type { RunStatus, StopReason, Usage } from "./core/run.ts";
export { type Agent, type AgentOptions, defineAgent } from "./define-agent.ts";
export {
  createDrover,
  type Drover,
  type DroverOptions,
  type MetricsOptions,
  type RunList,
  type WorkerHandle,
  type WorkerHealth,
  type WorkOptions,
} from "./drover.ts";
export type { StartOptions } from "./engine/client.ts";
export type { PausedFleet } from "./engine/fleet-pause.ts";
export type { FollowOptions } from "./engine/follow.ts";
export type { RunHandle, RunResult } from "./engine/run-handle.ts";
export type { OpenCallView, RunView } from "./engine/run-view.ts";
export type { SessionHandle } from "./engine/session-handle.ts";
export { type OpenAIOptions, openai } from "./openai/openai.ts";
export type { FleetView, Logger, ModelSpec } from "./ports.ts";
export type { RedactionOptions } from "./redaction/redaction.ts";
export { type AgentToolOptions, agentTool } from "./tools/agent-tool.ts";
export {
  type AnsweredToolOptions,
  defineTool,
  type Tool,
  type ToolContext,
  type ToolOptions,
} from "./tools/define-tool.ts";
export {
  type FilePartOptions,
  filePart,
  type ImagePartOptions,
  imagePart,
  type PartSource,
  textPart,
} from "./tools/parts.ts";
export { type AskPersonOptions, askPerson } from "./tools/stock/ask-person.ts";
export { calculator } from "./tools/stock/calculator.ts";
export { currentTime } from "./tools/stock/current-time.ts";
export { type HttpFetchOptions, httpFetch } from "./tools/stock/http-fetch.ts";
export { type ReadFileOptions, readFile } from "./tools/stock/read-file.ts";
export { type RunCommandOptions, runCommand } from "./tools/stock/run-command.ts";
export { type WriteFileOptions, writeFile } from "./tools/stock/write-file.ts";
