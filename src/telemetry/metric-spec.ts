// Beside attributes.ts the files `metric-*.ts` know names: of all metrics, and of what tells their series apart. Names that
// begin with `gen_ai.` are the GenAI conventions' (v0.1.0), `http.`, `process.` and `nodejs.` the general ones'; what has
// no convention is under `drover.`. A test pins every name; dashboards, alerts and the reference are made from this table.
//
// A label has few values, all from code or closed lists: never a run's id, nor what a model or a caller made up.

export type MetricKind = "counter" | "histogram" | "gauge" | "level";

/** `level`: goes up and down by steps of each process; the sum over processes is the value. */
export type MetricSpec = {
  name: string;
  kind: MetricKind;
  /** In UCUM's words: `s`, `By`, `{token}`. */
  unit: string;
  description: string;
  labels: readonly string[];
  /** Upper bounds of a histogram's buckets. */
  buckets?: readonly number[];
  /** `fleet`: of the whole installation, told by one process at a time; take the maximum over processes. */
  of: "process" | "fleet";
};

export const labels = {
  agent: "gen_ai.agent.name",
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  model: "gen_ai.request.model",
  serverAddress: "server.address",
  serverPort: "server.port",
  modality: "gen_ai.token.modality",
  tool: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  error: "error.type",
  status: "drover.status",
  stopReason: "drover.stop_reason",
  step: "drover.step.kind",
  reason: "drover.hold.reason",
  decision: "drover.approval.decision",
  queue: "drover.queue",
  queueState: "drover.queue.state",
  gateKind: "drover.gate.kind",
  gate: "drover.gate.name",
  gateState: "drover.gate.state",
  method: "http.request.method",
  route: "http.route",
  statusCode: "http.response.status_code",
  scheme: "url.scheme",
  cpuMode: "cpu.mode",
} as const;

const toWord = (name: string): string => name.replaceAll(/[^A-Za-z0-9_]/g, "_");

/** A metric's name in Prometheus. A histogram has it with `_bucket`, `_sum` and `_count`. */
export function prometheusName({ name, kind }: Pick<MetricSpec, "name" | "kind">): string {
  return kind === "counter" ? `${toWord(name)}_total` : toWord(name);
}

/** A label's name in Prometheus. */
export const prometheusLabel: (label: string) => string = toWord;
