import { metrics } from "../../src/telemetry/metric-names.ts";
import { type MetricSpec, prometheusLabel, prometheusName } from "../../src/telemetry/metric-spec.ts";

const kinds = { counter: "counter", histogram: "histogram", gauge: "gauge", level: "up-down counter" } as const;

/** Every metric: its name for OpenTelemetry and for Prometheus, what it is, and the labels of its series. */
export function makeMetricsTable(): string {
  const rows = Object.values<MetricSpec>(metrics).map((metric) => {
    const { name, kind, unit, description, of, labels } = metric;
    const scope = of === "fleet" ? ", fleet" : "";
    const names = labels.map((label) => `\`${prometheusLabel(label)}\``).join(" ");
    return `| \`${name}\`<br>\`${prometheusName(metric)}\` | ${kinds[kind]}, ${unit}${scope} | ${description} | ${names} |`;
  });
  return ["| OpenTelemetry, Prometheus | Kind, unit | Meaning | Labels |", "| --- | --- | --- | --- |", ...rows].join(
    "\n",
  );
}
