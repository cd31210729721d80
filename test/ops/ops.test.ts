// What ships for operators: the dashboard, rules, and examples of deployments. Grafana, Prometheus and Kubernetes are not
// run here; promtool and parsers say what they would say of the text.
import { existsSync, readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { z } from "zod";
import { settings } from "../../src/config.ts";
import { metrics } from "../../src/telemetry/metric-names.ts";
import { labels, type MetricSpec, prometheusLabel, prometheusName } from "../../src/telemetry/metric-spec.ts";
import { promtool } from "../support/promtool.ts";
import { namesIn, problemsOf } from "./promql.ts";
import { renderEverything } from "./render-everything.ts";

const read = (file: string): string => readFileSync(file, "utf8");
const targetSchema = z.object({ expr: z.string(), legendFormat: z.string().optional() });
const panelSchema = z.object({
  type: z.string(),
  title: z.string(),
  description: z.string().optional(),
  datasource: z.unknown().optional(),
  targets: z.array(targetSchema).optional(),
});
const dashboardSchema = z.object({
  uid: z.literal("drover"),
  panels: z.array(panelSchema),
  templating: z.object({ list: z.array(z.object({ name: z.string(), type: z.string() })) }),
});
const dashboard = dashboardSchema.parse(JSON.parse(read("ops/grafana/drover.json")));
const panels = dashboard.panels.filter(({ type }) => type !== "row");
const ruleSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          record: z.string().optional(),
          alert: z.string().optional(),
          expr: z.string(),
          labels: z.record(z.string(), z.string()).optional(),
          annotations: z.object({ summary: z.string(), description: z.string(), runbook_url: z.string() }).optional(),
        }),
      ),
    }),
  ),
});
const rulesOf = (file: string) => ruleSchema.parse(parse(read(file))).groups.flatMap(({ rules }) => rules);
const alerts = rulesOf("ops/prometheus/alerts.yml");
const recorded = rulesOf("ops/prometheus/recording.yml");

const knownLabels = new Set([...Object.values(labels).map(prometheusLabel), "le", "instance"]);
let served: Set<string>;
beforeAll(async () => {
  const text = await renderEverything();
  served = new Set([...text.matchAll(/^([a-z0-9_]+)[{ ]/gm)].map(([, name = ""]) => name));
});

/** What is wrong with an expression, in words. */
function troubleOf(expr: string): string[] {
  const { metrics: names, labels: used } = namesIn(expr);
  const recordedNames = recorded.map(({ record }) => record);
  return [
    ...problemsOf(expr),
    ...names
      .filter((name) => !served.has(name) && !recordedNames.includes(name))
      .map((name) => `nobody serves ${name}`),
    ...used.filter((label) => !knownLabels.has(label)).map((label) => `nobody has the label ${label}`),
    ...(names.length === 0 ? ["asks for no metric"] : []),
  ];
}

test("every metric of the table is served by a process that has something to tell of each", () => {
  const missing = Object.values<MetricSpec>(metrics)
    .map((metric) => prometheusName(metric))
    .filter((name) => !served.has(name) && !served.has(`${name}_count`));
  expect(missing).toEqual([]);
});

describe("the dashboard", () => {
  test("every query parses and asks for what is served", () => {
    const troubles = panels.flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr }) => troubleOf(expr).map((trouble) => `${title}: ${trouble}`)),
    );
    expect(troubles).toEqual([]);
    expect(panels.length).toBeGreaterThan(30);
  });

  test("every panel says what it shows, and takes the chosen data source", () => {
    for (const { title, description, datasource, targets } of panels) {
      expect({ title, description, datasource, asks: (targets?.length ?? 0) > 0 }).toEqual({
        title,
        description: expect.stringMatching(/\w/),
        datasource: { type: "prometheus", uid: "${datasource}" },
        asks: true,
      });
    }
    expect(dashboard.templating.list.map(({ name, type }) => [name, type])).toEqual([
      ["datasource", "datasource"],
      ["agent", "query"],
    ]);
    expect(dashboard.panels.filter(({ type }) => type === "row").map(({ title }) => title)).toEqual([
      "Health",
      "Agents",
      "Tools",
      "Internals",
      "HTTP",
    ]);
  });

  test("labels in legends are ones that the query keeps", () => {
    for (const { targets = [] } of panels) {
      for (const { expr, legendFormat = "" } of targets) {
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          expect(label === "instance" || namesIn(expr).labels.includes(label)).toBe(true);
        }
      }
    }
  });
});

describe("rules", () => {
  test("promtool finds nothing wrong, and their own tests pass", () => {
    const files = ["ops/prometheus/alerts.yml", "ops/prometheus/recording.yml"];
    expect(promtool(["check", "rules", ...files])).toMatchObject({ ok: true });
    expect(promtool(["test", "rules", "ops/prometheus/tests.yml"])).toMatchObject({ ok: true });
    expect(promtool(["check", "config", "--syntax-only", "ops/prometheus/prometheus.yml"])).toMatchObject({ ok: true });
  });

  test("they ask for what is served", () => {
    expect([...alerts, ...recorded].flatMap(({ expr }) => troubleOf(expr))).toEqual([]);
  });

  test("every alert is explained where it says, and nothing is explained that is no alert", () => {
    const headings = [...read("docs/operations.md").matchAll(/^### (Drover\w+)$/gm)].map(([, name]) => name);
    expect(headings).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert = "", labels: own, annotations } of alerts) {
      expect(["warning", "critical"]).toContain(own?.severity);
      expect(annotations?.runbook_url).toBe(`docs/operations.md#${alert.toLowerCase()}`);
    }
  });
});

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string() }),
});
const manifests = (file: string) =>
  parseAllDocuments(read(file)).map((document) => {
    expect(document.errors).toEqual([]);
    return manifestSchema.parse(document.toJS());
  });

const workerSchema = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.object({ annotations: z.record(z.string(), z.string()) }),
      spec: z.object({
        terminationGracePeriodSeconds: z.number(),
        containers: z.array(
          z.looseObject({
            env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })),
            ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
          }),
        ),
      }),
    }),
  }),
});

describe("examples of deployments", () => {
  test("a worker has longer to stop than it takes, and its metrics are where they are looked for", () => {
    const [worker] = manifests("ops/kubernetes/worker.yaml");
    const { template } = workerSchema.parse(worker).spec;
    const env = Object.fromEntries(template.spec.containers[0]?.env.map(({ name, value }) => [name, value]) ?? []);
    const known = [...settings.map(({ name }) => name), "REDIS_URL"];
    expect(Object.keys(env).filter((name) => !known.includes(name))).toEqual([]);
    // Its own grace, two seconds in which steps go back, two in which telemetry is sent, and some room.
    const needed = Number(env.DROVER_STOP_GRACE_MS) / 1_000 + 4;
    expect(template.spec.terminationGracePeriodSeconds).toBeGreaterThan(needed);
    expect(template.metadata.annotations["prometheus.io/port"]).toBe(env.DROVER_METRICS_PORT);
    expect(String(template.spec.containers[0]?.ports[0]?.containerPort)).toBe(env.DROVER_METRICS_PORT);
  });

  test("both autoscalers scale that deployment by the age of the oldest step", () => {
    const [worker] = manifests("ops/kubernetes/worker.yaml");
    const [keda] = manifests("ops/kubernetes/keda.yaml");
    const [hpa] = manifests("ops/kubernetes/hpa.yaml");
    const target = { kind: "Deployment", name: worker?.metadata.name };
    expect(keda).toMatchObject({ kind: "ScaledObject", spec: { scaleTargetRef: target } });
    expect(hpa).toMatchObject({ kind: "HorizontalPodAutoscaler", spec: { scaleTargetRef: target } });
    const { triggers } = z
      .object({ triggers: z.array(z.object({ metadata: z.looseObject({ query: z.string() }) })) })
      .parse(keda?.spec);
    expect(triggers.flatMap(({ metadata }) => troubleOf(metadata.query))).toEqual([]);
    expect(JSON.stringify(hpa?.spec)).toContain(namesIn(triggers[0]?.metadata.query ?? "").metrics[0]);
  });

  test("compose: Prometheus and Grafana on demand, with files that are there, and workers that it can scrape", () => {
    const serviceSchema = z.looseObject({
      profiles: z.array(z.string()).optional(),
      image: z.string().optional(),
      volumes: z.array(z.string()).optional(),
      environment: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
    });
    const { services } = z
      .object({ services: z.record(z.string(), serviceSchema) })
      .parse(parse(read("docker-compose.yml")));
    for (const name of ["prometheus", "grafana"]) {
      const { profiles, image = "", volumes = [] } = services[name] ?? {};
      expect(profiles).toEqual(["metrics"]);
      expect(image).toMatch(/:v?\d+\.\d+\.\d+$/);
      const files = volumes.flatMap((volume) => (volume.startsWith("./") ? [volume.split(":")[0] ?? ""] : []));
      expect(files.filter((file) => !existsSync(file))).toEqual([]);
      expect(files.length).toBeGreaterThan(0);
    }
    const { scrape_configs: scraped } = z
      .object({
        scrape_configs: z.array(
          z.object({ dns_sd_configs: z.array(z.object({ names: z.array(z.string()), port: z.number() })) }),
        ),
      })
      .parse(parse(read("ops/prometheus/prometheus.yml")));
    const targets = scraped.flatMap(({ dns_sd_configs: found }) => found);
    expect(targets.length).toBeGreaterThan(0);
    for (const { names, port } of targets) {
      for (const name of names) expect(services[name]?.environment?.DROVER_METRICS_PORT).toBe(port);
    }
  });

  test("Grafana finds its data source and the dashboard", () => {
    const source = parse(read("ops/grafana/provisioning/datasources/prometheus.yml"));
    expect(source).toMatchObject({
      apiVersion: 1,
      datasources: [{ type: "prometheus", url: "http://prometheus:9090" }],
    });
    expect(parse(read("ops/grafana/provisioning/dashboards/drover.yml"))).toMatchObject({
      providers: [{ type: "file", options: { path: "/var/lib/grafana/dashboards" } }],
    });
  });
});
