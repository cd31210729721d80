import type { Limits } from "../../core/agent.ts";
import type { AuditEntry } from "../../core/audit.ts";
import type { TurnPage } from "../../core/report.ts";
import type { RunView } from "../../engine/run-view.ts";
import type { Caller } from "../types.ts";
import type { Html } from "./html.ts";

/** - `seq`: of the last committed event that this shows; - `limits`: in force, as far as they are known. */
export type RunData = {
  run: RunView;
  goal?: string | undefined;
  turns: TurnPage;
  pageSize: number;
  audit: AuditEntry[];
  seq: number;
  limits: Limits;
  deadlineAt?: number | undefined;
  traceUrl?: string | undefined;
  notice?: Html | undefined;
  caller: Caller;
  now: number;
};
