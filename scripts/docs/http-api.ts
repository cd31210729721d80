import { makeDocument } from "../../src/http/runs/openapi.ts";
import { createRunsApi } from "../../src/http/runs/runs-api.ts";
import { createServiceRoutes } from "../../src/http/runs/service-routes.ts";
import type { HttpDeps } from "../../src/http/types.ts";

type Schema = {
  type?: string | string[];
  $ref?: string;
  enum?: unknown[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
};
type Answer = { description: string; content?: Record<string, { schema: Schema }> };
type Operation = {
  tags: string[];
  summary: string;
  description?: string;
  security: unknown[];
  "x-scope"?: string;
  parameters?: { name: string; in: string; required: boolean; schema: Schema; description: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: Schema }> };
  responses: Record<string, Answer>;
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

function readDocument(): Document {
  // Addresses are described without anything of what they are served over.
  const deps = { settings: { requestTimeoutMs: 30_000 } } as HttpDeps;
  const api = createRunsApi(deps);
  return makeDocument([createServiceRoutes(deps, api), api]) as Document;
}

const link = (name: string): string => `[${name}](#${name.toLowerCase()})`;

/** A schema in a few words. */
function brief(schema: Schema): string {
  if (schema.$ref) return link(schema.$ref.split("/").at(-1) ?? "");
  if (schema.enum) return schema.enum.map((value) => `\`${String(value)}\``).join(" ");
  const parts = schema.anyOf ?? schema.oneOf;
  if (parts) return [...new Set(parts.map(brief))].join(" or ");
  if (schema.type === "array") return `list of ${brief(schema.items ?? {})}`;
  const name = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any JSON");
  const { minimum, maximum } = schema;
  const range = minimum !== undefined && maximum !== undefined && maximum < 1e9 ? `, ${minimum} to ${maximum}` : "";
  return `${name}${range}`;
}

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function fieldsOf({ properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(
    ([name, schema]) =>
      `| \`${name}\`${required.includes(name) ? "" : "?"} | ${cell(brief(schema))} | ${cell(schema.description ?? "")} |`,
  );
  return ["| Field | Type | |", "| --- | --- | --- |", ...rows].join("\n");
}

function whoMay(operation: Operation): string {
  if (operation.security.length === 0) return "Needs no key.";
  return operation["x-scope"] ? `Scope \`${operation["x-scope"]}\`.` : "Any key.";
}

function describe(method: string, path: string, operation: Operation): string {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const lines = [
    `### \`${method.toUpperCase()} ${path}\``,
    "",
    `${summary}. ${description ?? ""}`.trim(),
    "",
    whoMay(operation),
  ];
  if (parameters.length > 0) {
    lines.push("", "| Parameter | In | Type | |", "| --- | --- | --- | --- |");
    for (const { name, in: place, required, schema, description: text } of parameters) {
      lines.push(`| \`${name}\`${required ? "" : "?"} | ${place} | ${cell(brief(schema))} | ${cell(text)} |`);
    }
  }
  const body = requestBody?.content["application/json"]?.schema;
  if (body) lines.push("", body.$ref ? `Body: ${brief(body)}` : `Body:\n\n${fieldsOf(body)}`);
  lines.push("");
  for (const [status, { description: text, content = {} }] of Object.entries(responses)) {
    if (Number(status) >= 400) continue;
    const [[type, { schema }] = ["", { schema: {} }]] = Object.entries(content);
    const what = type === "" ? "" : type === "application/json" ? ` (${brief(schema)})` : ` (\`${type}\`)`;
    lines.push(`- ${status}: ${text}${what}`);
  }
  const problems = Object.keys(responses).filter((status) => Number(status) >= 400);
  if (problems.length > 0) lines.push(`- Problems: ${problems.join(", ")}`);
  return lines.join("\n");
}

/** Every address, under a heading per subject. */
export function makeEndpoints(): string {
  const { paths } = readDocument();
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag = ""] = operation.tags;
      byTag.set(tag, [...(byTag.get(tag) ?? []), describe(method, path, operation)]);
    }
  }
  return [...byTag].map(([tag, texts]) => [`## ${tag}`, ...texts].join("\n\n")).join("\n\n");
}

/** What goes in and comes out, by name. */
export function makeSchemas(): string {
  const { schemas } = readDocument().components;
  return Object.entries(schemas)
    .map(([name, schema]) => {
      const what = schema.properties ? fieldsOf(schema) : brief(schema);
      return [`### ${name}`, ...(schema.description ? [schema.description] : []), what].join("\n\n");
    })
    .join("\n\n");
}
