// Expressions of PromQL. Names of metrics and labels come from src/telemetry, so that none asks for what is not there.
import { type MetricKey, metrics } from "../src/telemetry/metric-names.ts";
import { labels, prometheusLabel, prometheusName } from "../src/telemetry/metric-spec.ts";

export type Query = { expr: string; legend?: string };
export type Panel = { title: string; about: string; unit: string; queries: Query[]; stat?: boolean };
export type Row = { title: string; panels: Panel[] };

export const of = (key: MetricKey): string => prometheusName(metrics[key]);
export const by = (...keys: (keyof typeof labels)[]): string =>
  keys.map((key) => prometheusLabel(labels[key])).join(", ");
export const shown = (key: keyof typeof labels): string => `{{${prometheusLabel(labels[key])}}}`;

/** The agents that are chosen at the top. */
export const chosen = `${by("agent")}=~"$agent"`;

export const rate = (key: MetricKey, filter = ""): string => `rate(${of(key)}{${filter}}[$__rate_interval])`;
export const sum = (inner: string, ...keys: (keyof typeof labels)[]): string =>
  keys.length > 0 ? `sum by (${by(...keys)}) (${inner})` : `sum(${inner})`;
/** Of the fleet: whichever process tells, and once if several do. */
export const fleet = (key: MetricKey, ...keys: (keyof typeof labels)[]): string =>
  keys.length > 0 ? `max by (${by(...keys)}) (${of(key)})` : `max(${of(key)})`;
export const part = (key: MetricKey, name: "bucket" | "sum" | "count", filter = ""): string =>
  `rate(${of(key)}_${name}{${filter}}[$__rate_interval])`;
export const quantile = (share: number, key: MetricKey, filter = "", ...keys: (keyof typeof labels)[]): string =>
  `histogram_quantile(${share}, sum by (${["le", ...keys.map((name) => by(name))].join(", ")}) (${part(key, "bucket", filter)}))`;
export const quantiles = (key: MetricKey, filter = ""): Query[] =>
  [0.5, 0.9, 0.99].map((share) => ({ expr: quantile(share, key, filter), legend: `p${share * 100}` }));
export const errors = `${by("error")}!=""`;
export const share = (key: MetricKey, filter: string, name: keyof typeof labels, outside = ""): string =>
  `${sum(part(key, "count", [filter, outside].filter(Boolean).join(",")), name)} / ${sum(part(key, "count", outside), name)}`;
